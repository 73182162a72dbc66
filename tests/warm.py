"""Start Python programs as forks of one interpreter that has imported their packages already.

A gateway imports for over a second and starts in a tenth of that, and a test run starts hundreds. Each program is still
a process of its own, with its own environment, folder, standard streams and exit status: it can be killed, and what it
changes in memory is gone with it. What it can't show is how a program is found and imported, and how Python takes it
apart at its end; tests about that use `subprocess`, or are marked `cold`.

What such a program starts are forks of that interpreter too: gateways that kernels and commands launch, kernels, and
the programs that fetch pages and check schemas. Model workers are forks of a second interpreter, which imports
litellm when the first of them is wanted, and what speaks MCP or runs WebAssembly of a third one. All of these are
children of the interpreter and not of what started them: a worker ends with its gateway because its connection ends,
not by the system's signal.
"""

import array
import asyncio
import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import re
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from jupyter_client import provisioning
from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from ozzie_server_ext.planes.child import child_environment
from ozzie_server_ext.programs.worker_backend import load_backend, prepare_process

IMPORTED = (
    "ipykernel.kernelapp",
    "ozzie_kernel.kernel",
    "jupyter_server.serverapp",
    "ozzie_server_ext.app",
    "ozzie_server_ext.cli.terminal",
    "ozzie_server_ext.cli.verbs",
    "ozzie_server_ext.extension",
    "ozzie_server_ext.gateway.routes",
    "ozzie_server_ext.programs.gateway_server",
    "ozzie_server_ext.programs.web_download",
    "ozzie_server_ext.programs.web_pages",
    "ozzie_server_ext.tasks.turn_runner",
    "ozzie_server_ext.tasks.workflows.runner",
)
"""What the programs have in common. The programs themselves are left out: each is run as `__main__`."""
PLANES = {
    "ozzie_server_ext.programs.model_worker": "litellm",
    "ozzie_server_ext.programs.worker": "litellm",
    "ozzie_server_ext.programs.tool_host": "mcp",
    "ozzie_server_ext.programs.mcp_server": "mcp",
}
"""Programs that are told who their parent is, and the packages that each loads: they are forks of an interpreter that
has them."""
STARTED_BY_PROGRAMS = (
    *("ozzie_server_ext.programs.fits", "ozzie_server_ext.programs.gateway", "ozzie_server_ext.programs.web"),
    *PLANES,
)
"""What a program that was started warm starts warm itself. The other programs make sure who their parent is."""
_REQUEST_BYTES = 1 << 20
_DESCRIPTORS = 8
"""Standard input, output and error, where the process's pid and wait status are written, and those it inherits."""


_cold: list[bool] = []


@contextlib.contextmanager
def cold() -> Iterator[None]:
    """Start programs from nothing meanwhile: where it matters how one is imported, or how it looks from outside."""
    _cold.append(True)
    try:
        yield
    finally:
        _cold.pop()


class WarmPopen(subprocess.Popen[Any]):
    """`subprocess.Popen` for `[sys.executable, "-m", module, ...]`, without the time to start Python.

    The program is a child of the server, so what waits for it reads its status from a pipe. The three methods that
    start and await the child are CPython's own (`Lib/subprocess.py`), the same from 3.11 to 3.13. Where the environment
    says how Python itself should start, as `PYTHONIOENCODING` does, it is started cold.
    """

    _status = -1

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, *rest: Any) -> None:
        (pass_fds, cwd, env, _, _, shell), (stdin, to_stdin, from_out, stdout, from_err, stderr) = rest[:6], rest[6:12]
        start_new_session = rest[17]
        if shell or preexec_fn is not None or _module_of(args) is None:
            raise ValueError(f"not a Python program that can be started warm: {args}")
        if _cold or _read_at_start(os.environ if env is None else env) != _read_at_start(_server().environment):
            super()._execute_child(args, executable, preexec_fn, close_fds, *rest)  # type: ignore[misc]
            return
        safe_path = args[1] == "-P"
        request = {
            "argv": [str(word) for word in args[3 if safe_path else 2 :]],
            "safe_path": safe_path,
            "cwd": os.fspath(cwd or os.getcwd()),
            "env": dict(os.environ if env is None else env),
            "new_session": bool(start_new_session),
            "inherited": list(pass_fds),
        }
        streams = [0 if stdin == -1 else stdin, 1 if stdout == -1 else stdout, 2 if stderr == -1 else stderr]
        self._status, told = os.pipe()
        try:
            _server().send(request, [*streams, told, *pass_fds])
        finally:
            os.close(told)
            self._close_pipe_fds(stdin, to_stdin, from_out, stdout, from_err, stderr)  # type: ignore[attr-defined]
        self.pid = int(self._line())
        self._child_created = True

    def _internal_poll(self, *args: Any, **kwargs: Any) -> int | None:
        if self._status == -1:
            return super()._internal_poll(*args, **kwargs)  # type: ignore[misc]
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self._end()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self._status == -1:
            return super()._wait(timeout)  # type: ignore[misc]
        if self.returncode is None:
            with self._waitpid_lock:  # type: ignore[attr-defined]
                if self.returncode is None:
                    if not select.select([self._status], [], [], timeout)[0]:
                        raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
                    self._end()
        assert self.returncode is not None
        return self.returncode

    def _end(self) -> None:
        self.returncode = os.waitstatus_to_exitcode(int(self._line()))
        os.close(self._status)

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            piece = os.read(self._status, 1)
            if not piece:
                raise RuntimeError("the interpreter that starts programs has ended")
            line += piece
        return line


class ProgramsPopen(WarmPopen):
    """`subprocess.Popen` in a program that was started warm: warm for some programs of ours, as usual for all else."""

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, *rest: Any) -> None:
        if preexec_fn is None and _module_of(args) in STARTED_BY_PROGRAMS:
            super()._execute_child(args, executable, preexec_fn, close_fds, *rest)
        else:
            super(WarmPopen, self)._execute_child(  # type: ignore[misc]
                args, executable, preexec_fn, close_fds, *rest
            )


@contextlib.contextmanager
def programs_warm() -> Iterator[None]:
    """Start programs of ours warm from this process too, where a test uses in memory what starts them."""
    plain = subprocess.Popen
    subprocess.Popen = ProgramsPopen
    try:
        yield
    finally:
        subprocess.Popen = plain


def _module_of(args: Any) -> str | None:
    """Return the module that a command runs, or None if it is not one of Python's."""
    if isinstance(args, (list, tuple)) and args[0] == sys.executable:
        words = [str(word) for word in args[1:4]]
        match words:
            case ["-P", "-m", module, *_] | ["-m", module, *_]:
                return module
    return None


def run_warm(
    args: Sequence[str], *, env: Mapping[str, str], cwd: Path, input: str | None = None, timeout: float = 60.0
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end, as `subprocess.run` does, and capture what it prints."""
    stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
    pipe = subprocess.PIPE
    with WarmPopen(args, env=dict(env), cwd=cwd, stdin=stdin, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(list(args), process.returncode, out, err)


class WarmProvisioner(LocalProvisioner):
    """Starts kernels warm, where their programs are Python's."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        if _cold or cmd[1:2] != ["-m"] or not Path(cmd[0]).name.startswith("python"):
            return await super().launch_kernel(cmd, **kwargs)
        env = dict(kwargs["env"])
        null = subprocess.DEVNULL
        out, err = kwargs.get("stdout"), kwargs.get("stderr")
        self.process = WarmPopen(
            [sys.executable, *cmd[1:]],
            env=env,
            cwd=kwargs.get("cwd"),
            stdin=null,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        self.pid = self.process.pid
        self.pgid = self.pid
        self.cwd = kwargs.get("cwd", os.getcwd())
        return self.connection_info


def start_kernels_warm() -> None:
    """Let `jupyter_client` start kernels so in this process."""
    known = KernelProvisionerFactory.instance().provisioners
    group = KernelProvisionerFactory.GROUP_NAME
    known["local-provisioner"] = EntryPoint("local-provisioner", f"{__name__}:WarmProvisioner", group)


class _Server:
    """The interpreter that is forked, on the other end of a socket. One thread at a time sends."""

    def __init__(
        self, end: socket.socket, environment: Mapping[str, str], process: "subprocess.Popen[bytes] | None" = None
    ) -> None:
        self.environment = environment
        self._process = process
        self._socket = end
        self._lock = threading.Lock()

    @classmethod
    def start(cls) -> "_Server":
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Output that is not buffered would hide what a signal within a buffered write does.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.warm", str(theirs.fileno())],
                cwd=Path(__file__).parents[1],
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        return cls(ours, environment, process)

    def send(self, request: dict[str, Any], descriptors: list[int]) -> None:
        with self._lock:
            _send(self._socket, json.dumps(request).encode(), descriptors)


def _send(end: socket.socket, data: bytes, descriptors: Sequence[int]) -> None:
    end.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))])


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    """Return what is read before the program runs: with another value, it has to be started by itself."""
    read = re.compile(r"PYTHON|LC_|LANG|SSL_|REQUESTS_|CURL_|\w+_PROXY$", re.IGNORECASE)
    return {key: value for key, value in env.items() if read.match(key)}


_servers: list[_Server] = []


def _server() -> _Server:
    if not _servers:
        _servers.append(_Server.start())
    return _servers[0]


class _Forks:
    """The interpreter: it forks for each request. Planes are forks of others, which it starts, `with_packages`."""

    def __init__(self, requests: socket.socket, with_packages: str = "") -> None:
        self._ends = [requests]
        self._waiting: dict[int, int] = {}
        self._with_packages = with_packages
        self._others: dict[str, socket.socket] = {}
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> dict[str, Any]:
        """Return the request in each child. The server itself exits once nobody can ask any more."""
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if not self._with_packages:
            programs, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._ends.append(asked)
            _servers.append(_Server(programs, dict(os.environ)))
        while True:
            ready, _, _ = select.select([*self._ends, self._woken], [], [])
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, 1000)
                self._tell_ends()
            for end in ready:
                if end in self._ends and (request := self._answer(end)) is not None:
                    return request

    def _answer(self, end: socket.socket) -> dict[str, Any] | None:
        """Fork for one request, and return it in the child; or pass it on."""
        data, rights, _, _ = end.recvmsg(_REQUEST_BYTES, socket.CMSG_SPACE(4 * _DESCRIPTORS))
        if not data:
            sys.exit()
        descriptors = array.array("i")
        for _, _, content in rights:
            descriptors.frombytes(content)
        request = json.loads(data)
        told = descriptors[3]
        packages = PLANES.get(request["argv"][0], "")
        if packages != self._with_packages and packages:
            if packages not in self._others:
                self._others[packages], theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                if os.fork() == 0:
                    self._leave(*descriptors)
                    _import_packages(packages)
                    return _Forks(theirs, packages).serve()
                theirs.close()
            _send(self._others[packages], data, descriptors)
        elif (pid := os.fork()) == 0:
            if request["new_session"]:
                os.setsid()  # before its pid is known: who started it may signal the session at once
            os.write(told, f"{os.getpid()}\n".encode())
            self._leave(told)
            return request | {"streams": descriptors[:3], "descriptors": descriptors[4:]}
        else:
            self._waiting[pid] = os.dup(told)
        for opened in descriptors:
            os.close(opened)
        return None

    def _leave(self, *descriptors: int) -> None:
        """Forget in a child what is the server's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for opened in (self._woken, self._wake, *descriptors, *self._waiting.values()):
            os.close(opened)
        for end in (*self._ends, *self._others.values()):
            end.close()

    def _tell_ends(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._waiting:
                told = self._waiting.pop(pid)
                with contextlib.suppress(BrokenPipeError):
                    os.write(told, f"{status}\n".encode())
                os.close(told)


def _import_packages(packages: str) -> None:
    """Import what a plane imports, in the few variables that it has."""
    kept = child_environment(os.environ)
    os.environ.clear()
    os.environ.update(kept)
    if packages == "litellm":
        _import_litellm()
    else:
        for name in ("mcp_offer", "mcp_sessions", "wasm_plugins"):
            importlib.import_module(f"ozzie_server_ext.programs.{name}")
    gc.collect()
    gc.freeze()


def _import_litellm() -> None:
    prepare_process()
    importlib.import_module("ozzie_server_ext.programs.worker_litellm")
    # What the first call imports is seen in a child: a call leaves threads and clients.
    read, write = os.pipe()
    if os.fork() == 0:
        known = set(sys.modules)
        backend = asyncio.run(load_backend())
        assert backend
        os.write(write, " ".join(set(sys.modules) - known).encode())
        os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8") as names:
        for name in names.read().split():
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    os.wait()


def _become(request: dict[str, Any]) -> str:
    """Take on what a started program has of its own. Return its module."""
    module, *rest = request["argv"]
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    # First away from the numbers that they are to have.
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 200) for each in request["descriptors"]]
    for number, opened in enumerate(request["streams"]):
        os.dup2(opened, number)
    for opened in (*request["streams"], *request["descriptors"]):
        if opened > 2:
            os.close(opened)
    for number, opened in zip(request["inherited"], moved, strict=True):
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", 1 if os.isatty(1) else -1, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    if module in PLANES and "--parent" in rest:
        rest[rest.index("--parent") + 1] = str(os.getppid())
    sys.argv = [module, *rest]
    if request["safe_path"]:
        sys.path.pop(0)
    else:
        sys.path[0] = request["cwd"]
    subprocess.Popen = ProgramsPopen
    # What `jupyter_client` looks up for each kernel.
    provisioning.LocalProvisioner = WarmProvisioner  # pyright: ignore[reportPrivateImportUsage]
    return module


def _run(program: str) -> None:
    """Run the program and end the process as Python does, but leave its memory to the system.

    Python would take the modules apart one by one, which costs a fork more than all else: it copies each page.
    """
    if not hasattr(sys.modules.get(program), "__path__"):
        sys.modules.pop(program, None)  # it may be imported by the others, and has to be run
    status: object = None
    try:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        status = ended.code
    if status is not None and not isinstance(status, int):
        sys.exit(str(status))
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # what complains of being forgotten does so
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.exit(status)  # Python has words and a status for that
    os._exit((status or 0) & 0xFF)


if __name__ == "__main__":
    os.environ["JPY_PARENT_PID"] = str(os.getpid())  # ipykernel looks for it when it is imported
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    program = _become(_Forks(socket.socket(fileno=int(sys.argv[1]))).serve())
    _run(program)
