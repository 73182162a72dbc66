"""Real processes to test with: a gateway, a kernel, and a client of each."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from ozzie_server_ext.domain.ids import BlobRef
from ozzie_server_ext.protocol.attached import AttachedServer, attached_servers
from ozzie_server_ext.protocol.handshake import Handshake, find_handshakes
from ozzie_server_ext.store import contents
from ozzie_server_ext.store.blobs import digest_of
from ozzie_server_ext.store.database import open_readable
from tests.warm import WarmPopen, run_warm

JUPYTER_TOKEN = "a-token-of-jupyters-own"
START_S = 40.0
CELL_S = 60.0


@dataclass(frozen=True)
class GatewayHome:
    """`home` is `OZZIE_PATH`; everything that Jupyter writes lies beside it."""

    home: Path
    project: Path
    runtime: Path
    env: Mapping[str, str]

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Write `config.jsonc`."""
        (self.home / "config.jsonc").write_text(json.dumps(settings))

    def use_provider(self, url: str, *models: str) -> None:
        """Configure models of an OpenAI-compatible provider, each under its own name; the first is the default."""
        providers = {
            model: {"driver": "openai", "model": model, "base_url": f"{url}/v1", "auth": {"type": "none"}}
            for model in models
        }
        self.configure({"models": {"default": models[0], "providers": providers}})

    def handshake(self) -> Handshake | None:
        return next(find_handshakes(self.runtime, self.home), None)

    def stop_gateways(self) -> None:
        """End the gateways that kernels started on this home."""
        for handshake in list(find_handshakes(self.runtime, self.home)):
            process = psutil.Process(handshake.pid)
            process.terminate()
            process.wait(20)


def new_home(folder: Path) -> GatewayHome:
    """A home below `folder`, and an environment in which nothing of the user's own is touched."""
    home, project, runtime = folder / "home", folder / "project", folder / "runtime"
    for path in (home, project, runtime):
        path.mkdir(mode=0o700)
    # Unbuffered output, as container images often set it, would hide what a signal within a buffered write does.
    left_out = ("_API_KEY", "_API_BASE", "_BASE_URL", "_HOST", "PYTHONUNBUFFERED")
    env = {key: value for key, value in os.environ.items() if not key.endswith(left_out)}
    env |= {
        "OZZIE_PATH": str(home),
        "XDG_CONFIG_HOME": str(folder / "user-config"),
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTER_CONFIG_DIR": str(folder / "jupyter-config"),
        "JUPYTER_DATA_DIR": str(folder / "jupyter-data"),
        "IPYTHONDIR": str(folder / "ipython"),
        # Nobody answers there, whatever runs on a developer's machine.
        "OLLAMA_HOST": "127.0.0.1:9",
    }
    return GatewayHome(home, project, runtime, env)


@dataclass(frozen=True)
class Gateway:
    home: GatewayHome
    process: "subprocess.Popen[bytes]"
    url: str
    token: str

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(20)


@contextmanager
def start_gateway(
    home: GatewayHome, *arguments: str, program: str = "ozzie_server_ext.programs.gateway"
) -> Iterator[Gateway]:
    """A headless gateway; SIGTERM ends it, and its exit status must be 0 unless the test killed it."""
    with _served(home, program, "--verbose", "--port", "0", *arguments) as gateway:
        yield gateway


_JUPYTER = ("--no-browser", "--allow-root", "--port=0", "--ServerApp.jpserver_extensions=ozzie_server_ext=True")
_LAB = ("jupyterlab", "notebook", "notebook_shim", "jupyter_lsp")
_WITHOUT_LAB = tuple(f"--ServerApp.jpserver_extensions={name}=False" for name in _LAB)
"""It takes seconds to load, and asks nothing of Ozzie before a page does."""


@contextmanager
def start_jupyter(home: GatewayHome, *arguments: str) -> Iterator[Gateway]:
    """A Jupyter Server with Ozzie in it, as a user has it; ends as `start_gateway` does."""
    with _served(home, "jupyter_server", *_JUPYTER, *arguments) as server:
        yield server


@contextmanager
def start_attached(home: GatewayHome, *arguments: str) -> Iterator[Gateway]:
    """A Jupyter Server on a home that has an owner already. Its token is Jupyter's, and its log `attached-N.log`."""
    name = f"attached-{len(list(home.home.parent.glob('attached-*.log'))) + 1}.log"
    with _process(home, "jupyter_server", *_JUPYTER, *_WITHOUT_LAB, *arguments, log=name) as (process, log):
        server = wait_for_attached(home, process, log)
        yield Gateway(home, process, server.url, JUPYTER_TOKEN)


@contextmanager
def _served(home: GatewayHome, program: str, *arguments: str) -> Iterator[Gateway]:
    with _process(home, program, *arguments, log="gateway.log") as (process, log):
        handshake = wait_for_handshake(home, process, log)
        yield Gateway(home, process, handshake.url, handshake.token)


@contextmanager
def _process(
    home: GatewayHome, program: str, *arguments: str, log: str
) -> "Iterator[tuple[subprocess.Popen[bytes], Path]]":
    path = home.home.parent / log
    with path.open("ab") as output:
        process = WarmPopen(
            [sys.executable, "-m", program, *arguments],
            cwd=home.project,
            env={**home.env, "JUPYTER_TOKEN": JUPYTER_TOKEN},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield process, path
    finally:
        ended_before = process.poll() is not None
        process.terminate()
        status = process.wait(20)
        assert ended_before or status == 0, path.read_text()


def ozzie(home: GatewayHome, *words: str, input: str | None = None) -> "subprocess.CompletedProcess[str]":
    """Run the command line on that home."""
    command = [sys.executable, "-m", "ozzie_server_ext.cli.main", *words]
    return run_warm(command, env=home.env, cwd=home.project, input=input)


def wait_for_handshake(home: GatewayHome, process: "subprocess.Popen[bytes]", log: Path) -> Handshake:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        found = home.handshake()
        if found is not None and found.pid == process.pid:
            return found
        assert process.poll() is None, log.read_text()
        time.sleep(0.02)
    raise TimeoutError(log.read_text())


def wait_for_attached(home: GatewayHome, process: "subprocess.Popen[Any]", log: Path) -> AttachedServer:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        for server in attached_servers(home.home):
            if server.pid == process.pid:
                return server
        assert process.poll() is None, log.read_text()
        time.sleep(0.02)
    raise TimeoutError(log.read_text())


@dataclass
class Output:
    """What a cell gave: `bundles` are the MIME bundles that are left at the end, in order."""

    status: str = ""
    ename: str = ""
    evalue: str = ""
    execution_count: int | None = None
    bundles: list[dict[str, Any]] = field(default_factory=list)
    streamed: str = ""
    live: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    @property
    def markdown(self) -> str:
        return "\n".join(str(bundle["text/markdown"]) for bundle in self.bundles if "text/markdown" in bundle)

    @property
    def turn(self) -> dict[str, Any]:
        """The turn's own JSON. Raises LookupError where the cell shows no turn."""
        for bundle in self.bundles:
            if "application/vnd.ozzie.turn+json" in bundle:
                return bundle["application/vnd.ozzie.turn+json"]
        raise LookupError("the cell shows no turn")


class Kernel:
    """An Ozzie kernel, driven as a front end does it."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager = manager
        self.client = client

    @property
    def pid(self) -> int:
        provisioner: Any = self.manager.provisioner
        return int(provisioner.pid)

    def send(self, code: str, *, cell_id: str = "cell-1", allow_stdin: bool = False) -> str:
        """Ask for a cell to be run, as Lab does (a cell id), a console (none, but stdin) or nbclient (neither)."""
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        message = self.client.session.msg(
            "execute_request",
            content | {"allow_stdin": allow_stdin, "stop_on_error": True},
            metadata={"cellId": cell_id} if cell_id else {},
        )
        self.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def output(self, request: str, *, until_live: str = "") -> Output:
        """The cell's output at its end, or as soon as its live form contains `until_live`."""
        found = Output()
        places: dict[str, int] = {}
        while True:
            message = self.client.get_iopub_msg(timeout=CELL_S)
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["header"]["msg_type"], message["content"]
            found.messages.append(kind)
            if kind in ("display_data", "update_display_data"):
                _place(found, places, content)
            elif kind == "stream":
                found.streamed += content["text"]
            elif kind in ("comm_open", "comm_msg"):
                value = content.get("data", {}).get("state", {}).get("value")
                if isinstance(value, str):
                    found.live.append(value)
            if until_live and (until_live in found.streamed or any(until_live in html for html in found.live[-1:])):
                return found
            if kind == "status" and content["execution_state"] == "idle":
                return self._with_reply(found, request)

    def run(self, code: str, **how: Any) -> Output:
        """Run a cell to its end."""
        return self.output(self.send(code, **how))

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)

    def stop(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)

    def _with_reply(self, found: Output, request: str) -> Output:
        while True:
            reply = self.client.get_shell_msg(timeout=CELL_S)
            if reply["parent_header"].get("msg_id") == request:
                content = reply["content"]
                found.status = content["status"]
                found.ename, found.evalue = content.get("ename", ""), content.get("evalue", "")
                found.execution_count = content.get("execution_count")
                return found


def recorded_request(home: Path, ref: str) -> Any:
    """What a model was sent, as it is recorded in a gateway's home."""
    with closing(open_readable(home / "data" / "ozzie.db")) as connection:
        return json.loads(contents.read(connection, digest_of(BlobRef(ref))) or b"null")


def start_kernel(home: GatewayHome, name: str = "ozzie") -> Kernel:
    """A kernel of the installed kernelspec, ready to run cells."""
    manager = KernelManager(kernel_name=name)
    manager.start_kernel(env=dict(home.env), cwd=str(home.project))
    kernel = Kernel(manager, manager.client())
    kernel.client.start_channels()
    try:
        kernel.client.wait_for_ready(timeout=START_S)
    except BaseException:  # or a later test answers for the sockets and the process that were left
        kernel.stop()
        raise
    return kernel


def _place(found: Output, places: dict[str, int], content: Mapping[str, Any]) -> None:
    """Put a bundle where a front end would: at the end, or in place of the one with its display id."""
    display_id = content.get("transient", {}).get("display_id")
    if display_id in places:
        found.bundles[places[display_id]] = content["data"]
        return
    if display_id:
        places[display_id] = len(found.bundles)
    found.bundles.append(content["data"])
