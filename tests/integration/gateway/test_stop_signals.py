"""SIGTERM ends a server at any moment, also within a write to its log; standard error is buffered, as users have it."""

import fcntl
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.rig import JUPYTER_TOKEN, START_S, GatewayHome, new_home

SEED = int(os.environ.get("OZZIE_SOAK_SEED", "24"))
SAMPLE, MANY = 1, 100
STOP_S = 30.0
HEADLESS = ("ozzie_server_ext.programs.gateway", "--verbose", "--port", "{port}")  # with any free one it logs little
LAB = (
    *("jupyterlab", "--no-browser", "--allow-root", "--ServerApp.port={port}", "--ServerApp.log_level=DEBUG"),
    "--ServerApp.jpserver_extensions=ozzie_server_ext=True",
)
SERVERS = pytest.mark.parametrize("program", [HEADLESS, LAB], ids=["headless", "lab"])


@dataclass
class Server:
    """A server whose standard error is a small pipe; what it logs is read while `reading` is set."""

    home: GatewayHome
    process: "subprocess.Popen[bytes]"
    pipe: int
    reading: threading.Event = field(default_factory=threading.Event)
    log: bytearray = field(default_factory=bytearray)

    def read(self) -> None:
        while self.reading.wait() and (chunk := os.read(self.pipe, 512)):
            self.log += chunk

    @property
    def words(self) -> str:
        """The end of its log."""
        return self.log.decode(errors="replace")[-2000:]

    def wait_until_it_serves(self) -> str:
        """Its address. Raises TimeoutError."""
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            found = self.home.handshake()
            if found is not None and found.pid == self.process.pid:
                return found.url
            assert self.process.poll() is None, self.words
            time.sleep(0.02)
        raise TimeoutError(self.words)

    def stopped(self) -> bool:
        """Whether it ends now."""
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            return False
        return True


@contextmanager
def started(home: GatewayHome, program: tuple[str, ...]) -> Iterator[Server]:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", *(word.format(port=port) for word in program)]
    env = {**home.env, "JUPYTER_TOKEN": JUPYTER_TOKEN}
    process = subprocess.Popen(
        command, cwd=home.project, env=env, stdin=subprocess.DEVNULL, stdout=writing, stderr=writing
    )
    os.close(writing)
    server = Server(home, process, reading)
    server.reading.set()
    reader = threading.Thread(target=server.read)
    reader.start()
    try:
        yield server
    finally:
        process.kill()
        process.wait(20)
        server.reading.set()
        reader.join(20)
        os.close(reading)


def ask(url: str, timeout: float = 5.0) -> bool:
    """Make it log a refusal; whether it answered."""
    try:
        with urllib.request.urlopen(f"{url}ozzie/api/health", timeout=timeout):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


@contextmanager
def asking(url: str) -> Iterator[None]:
    """Requests without a pause."""
    ended = threading.Event()

    def go_on() -> None:
        while not ended.is_set():
            ask(url)

    threads = [threading.Thread(target=go_on) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(20)


@pytest.mark.parametrize("program", [HEADLESS, pytest.param(LAB, marks=pytest.mark.soak)], ids=["headless", "lab"])
def test_a_signal_within_a_write_to_the_log_ends_the_server(home: GatewayHome, program: tuple[str, ...]) -> None:
    with started(home, program) as server:
        url = server.wait_until_it_serves()
        server.reading.clear()
        for _ in range(1000):
            if not ask(url):  # nobody reads its log: it waits within the write
                break
        else:
            pytest.fail("its log is never full")

        server.process.send_signal(signal.SIGTERM)
        server.reading.set()

        assert server.stopped(), server.words
    assert server.process.returncode == 0, server.words
    assert "Traceback" not in server.words


STUCK = """
import asyncio
import anyio.to_thread
from jupyter_server.base.handlers import JupyterHandler
from tornado.web import authenticated

class Stuck(JupyterHandler):
    @authenticated
    async def get(self):
        await anyio.to_thread.run_sync(int)
        await self.finish("begun")
        await asyncio.Event().wait()

def _jupyter_server_extension_points():
    return [{"module": "stuck"}]

def _load_jupyter_server_extension(serverapp):
    serverapp.web_app.add_handlers(".*", [(serverapp.base_url + "stuck", Stuck)])
"""
"""A request that never ends and has used one of AnyIO's threads, as Jupyter's own do to read files."""


def test_a_request_that_never_ends_does_not_keep_a_server_alive(home: GatewayHome) -> None:
    (home.project / "stuck.py").write_text(STUCK)  # its working directory, from which Python imports with -m
    extensions = [f"--ServerApp.jpserver_extensions={name}=True" for name in ("ozzie_server_ext", "stuck")]
    program = ("jupyter_server", "--allow-root", "--ServerApp.port={port}", *extensions)
    with started(home, program) as server:
        request = urllib.request.Request(f"{server.wait_until_it_serves()}stuck")
        request.add_header("Authorization", f"token {JUPYTER_TOKEN}")
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.read() == b"begun"

        server.process.send_signal(signal.SIGTERM)

        assert server.stopped(), server.words
    assert server.process.returncode == 0, server.words


def survivors(folder: Path, program: tuple[str, ...], count: int, moments: Callable[[int], random.Random]) -> list[str]:
    """The logs of those that a signal did not end in order, of so many servers, one after the other."""
    found: list[str] = []
    for number in range(count):
        place = folder / str(number)
        place.mkdir()
        moment = moments(number)
        with started(new_home(place), program) as server:
            if moment.random() < 0.25:  # while it starts
                time.sleep(moment.uniform(0.3, 4.0))
                server.process.send_signal(signal.SIGTERM)
                ended = server.stopped()
            else:
                url = server.wait_until_it_serves()
                with asking(url):
                    time.sleep(moment.uniform(0.0, 0.5))
                    server.process.send_signal(signal.SIGTERM)
                    ended = server.stopped()
            # By the signal alone before there is anything to put in order.
            if not ended or server.process.returncode not in (0, -signal.SIGTERM):
                found.append(f"{number} of seed {SEED} ({server.process.returncode}): {server.words}")
    return found


def moments(number: int) -> random.Random:
    return random.Random(f"{SEED}/{number}")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("program", [HEADLESS, pytest.param(LAB, marks=pytest.mark.soak)], ids=["headless", "lab"])
def test_a_signal_at_any_moment_ends_the_server(tmp_path: Path, program: tuple[str, ...]) -> None:
    assert survivors(tmp_path, program, SAMPLE, moments) == []


@pytest.mark.soak
@pytest.mark.timeout(1800)
@SERVERS
def test_no_server_survives_a_signal(tmp_path: Path, program: tuple[str, ...], say: Callable[[str], None]) -> None:
    found = survivors(tmp_path, program, MANY, moments)

    say(f"{MANY} servers were signalled, seed {SEED}: {len(found)} survived")
    assert found == []
