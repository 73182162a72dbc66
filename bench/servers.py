"""Jupyter Servers in processes of their own, with and without Ozzie."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.rig import JUPYTER_TOKEN, GatewayHome

ROOT = Path(__file__).parent.parent
START_S = 60.0
POLL_S = 0.005


@dataclass(frozen=True)
class Server:
    """A running server. `cpu_s` and `rss_mb` were taken when it was ready."""

    url: str
    process: psutil.Process
    cpu_s: float
    rss_mb: float

    def ask(self, path: str, body: Any = None, *, timeout_s: float = 60.0) -> Any:
        """The JSON at `path`; with a `body`, by POST."""
        request = urllib.request.Request(
            self.url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {JUPYTER_TOKEN}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            return json.loads(response.read())


@contextmanager
def server(home: GatewayHome, *, ozzie: bool, probe: bool = False) -> Iterator[Server]:
    """A server that is ready: it answers, and Ozzie in it as well where it is asked for."""
    config = home.env["JUPYTER_CONFIG_DIR"]
    os.makedirs(config, exist_ok=True)
    # As a file: the installed package switches its extension on by one, too.
    extensions = {"ozzie_server_ext": ozzie, "bench.probe": probe}
    Path(config, "jupyter_server_config.json").write_text(
        json.dumps({"ServerApp": {"jpserver_extensions": extensions}})
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    child = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "jupyter_server",
            "--no-browser",
            "--allow-root",
            f"--ServerApp.port={port}",
            "--ServerApp.port_retries=0",
            f"--ServerApp.root_dir={home.project}",
            "--ServerApp.log_level=ERROR",
        ],
        cwd=home.project,
        env={**home.env, "JUPYTER_TOKEN": JUPYTER_TOKEN, "PYTHONPATH": os.fspath(ROOT)},
        stdin=subprocess.DEVNULL,
    )
    try:
        process = psutil.Process(child.pid)
        url = f"http://127.0.0.1:{port}/"
        found = Server(url, process, 0.0, 0.0)
        _wait_until_ready(found, child, "ozzie/api/health" if ozzie else "api/status")
        times = process.cpu_times()
        yield Server(url, process, times.user + times.system, process.memory_info().rss / 1e6)
    finally:
        child.terminate()
        child.wait(30)


def _wait_until_ready(server: Server, child: "subprocess.Popen[bytes]", path: str) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        try:
            server.ask(path)
        except (urllib.error.URLError, ConnectionError):
            if child.poll() is not None:
                raise RuntimeError("the server ended") from None
            time.sleep(POLL_S)
        else:
            return
    raise TimeoutError("the server does not answer")
