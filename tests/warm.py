"""Start Python programs as forks of one interpreter that has imported their packages already.

A gateway imports for over a second and starts in a tenth of that, and a test run starts hundreds. Each program is still
a process of its own, with its own environment, folder, standard streams and exit status: it can be killed, and what it
changes in memory is gone with it. What it can't show is how a program is found and imported; tests about that use
`subprocess`.
"""

import array
import contextlib
import gc
import importlib
import json
import os
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

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

IMPORTED = (
    "ipykernel.kernelapp",
    "ozzie_kernel.kernel",
    "jupyter_server.serverapp",
    "ozzie_server_ext.app",
    "ozzie_server_ext.extension",
    "ozzie_server_ext.gateway.routes",
    "ozzie_server_ext.tasks.turn_runner",
    "ozzie_server_ext.tasks.workflows.runner",
)
"""What the programs have in common. The programs themselves are left out: each is run as `__main__`."""
_REQUEST_BYTES = 1 << 20
_DESCRIPTORS = 4
"""Standard input, output and error, and where the server writes how the program goes: its pid, and its wait status."""


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
        (_, cwd, env, _, _, shell), (stdin, to_stdin, from_out, stdout, from_err, stderr) = rest[:6], rest[6:12]
        start_new_session = rest[17]
        if shell or preexec_fn is not None or list(args[:2]) != [sys.executable, "-m"]:
            raise ValueError(f"not a Python program that can be started warm: {args}")
        if _cold or _read_at_start(os.environ if env is None else env) != _read_at_start(_environment()):
            super()._execute_child(args, executable, preexec_fn, close_fds, *rest)  # type: ignore[misc]
            return
        request = {
            "argv": [str(word) for word in args[2:]],
            "cwd": os.fspath(cwd or os.getcwd()),
            "env": dict(os.environ if env is None else env),
            "new_session": bool(start_new_session),
        }
        streams = [0 if stdin == -1 else stdin, 1 if stdout == -1 else stdout, 2 if stderr == -1 else stderr]
        self._status, told = os.pipe()
        try:
            _server().send(request, [*streams, told])
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

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm", str(theirs.fileno())],
            cwd=Path(__file__).parents[1],
            env=_environment(),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
        theirs.close()

    def send(self, request: dict[str, Any], descriptors: list[int]) -> None:
        data = json.dumps(request).encode()
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
        with self._lock:
            self._socket.sendmsg([data], [rights])


def _environment() -> dict[str, str]:
    """Return the server's own: output that is not buffered would hide what a signal within a buffered write does."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    """Return what Python reads before the program runs: with another value, it has to be started by itself."""
    return {key: value for key, value in env.items() if key.startswith(("PYTHON", "LC_", "LANG"))}


_servers: list[_Server] = []


def _server() -> _Server:
    if not _servers:
        _servers.append(_Server())
    return _servers[0]


def _serve(requests: socket.socket) -> dict[str, Any] | None:
    """Fork for each request. Return the request in the child, and None in the server once nobody can ask any more."""
    waiting: dict[int, int] = {}
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([requests, woken], [], [])
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 1000)
            _tell_ends(waiting)
        if requests not in ready:
            continue
        data, rights, _, _ = requests.recvmsg(_REQUEST_BYTES, socket.CMSG_SPACE(4 * _DESCRIPTORS))
        if not data:
            return None
        descriptors = array.array("i")
        for _, _, content in rights:
            descriptors.frombytes(content)
        *streams, told = descriptors
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for opened in (woken, wake, told, *waiting.values()):
                os.close(opened)
            requests.close()
            return json.loads(data) | {"streams": streams}
        for opened in streams:
            os.close(opened)
        os.write(told, f"{pid}\n".encode())
        waiting[pid] = told


def _tell_ends(waiting: dict[int, int]) -> None:
    while waiting:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        told = waiting.pop(pid)
        with contextlib.suppress(BrokenPipeError):
            os.write(told, f"{status}\n".encode())
        os.close(told)


def _become(request: dict[str, Any]) -> str:
    """Take on what a started program has of its own. Return its module."""
    module, *rest = request["argv"]
    if request["new_session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for number, opened in enumerate(request["streams"]):
        os.dup2(opened, number)
    for opened in request["streams"]:
        if opened > 2:
            os.close(opened)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", 1 if os.isatty(1) else -1, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    sys.argv = [module, *rest]
    sys.path[0] = request["cwd"]
    return module


if __name__ == "__main__":
    os.environ["JPY_PARENT_PID"] = str(os.getpid())  # ipykernel looks for it when it is imported
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    started = _serve(socket.socket(fileno=int(sys.argv[1])))
    if started is not None:
        program = _become(started)
        if not hasattr(sys.modules.get(program), "__path__"):
            sys.modules.pop(program, None)  # it may be imported by the others, and has to be run
        runpy.run_module(program, run_name="__main__", alter_sys=True)
