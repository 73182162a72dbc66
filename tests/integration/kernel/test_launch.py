"""A kernel begins to start the gateway before it loads itself, where none runs, and goes on with that one."""

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest
from jupyter_core.paths import jupyter_runtime_dir

from ozzie_kernel.connect import reach
from ozzie_kernel.launch import launch_ahead, launched_ahead
from ozzie_server_ext.protocol.handshake import Handshake, find_handshakes
from tests.rig import GatewayHome, new_home, start_gateway


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GatewayHome:
    home = new_home(tmp_path)
    for name, value in home.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(home.project)
    return home


async def pid_of(handshake: Handshake) -> int:
    return handshake.pid


async def test_the_gateway_that_was_started_ahead_is_the_one_that_is_reached(home: GatewayHome) -> None:
    launch_ahead()
    try:
        pid = await reach(pid_of)
        started = [
            child.pid for child in psutil.Process().children() if "programs.gateway" in " ".join(child.cmdline())
        ]
    finally:
        home.stop_gateways()

    assert started == [pid], "a second one was started"
    assert launched_ahead(home.home) is None, "it is handed over once"


async def test_another_one_is_started_where_that_one_has_ended_since(home: GatewayHome) -> None:
    launch_ahead()
    try:
        async with asyncio.timeout(40):
            while next(find_handshakes(Path(jupyter_runtime_dir()), home.home), None) is None:
                await asyncio.sleep(0.05)
            # It is there already, so nobody had to ask what was begun ahead.
            first = await reach(pid_of)
            os.kill(first, signal.SIGKILL)
            os.waitpid(first, 0)
            second = await reach(pid_of)
    finally:
        home.stop_gateways()

    assert second != first
    said = (home.home / "logs" / "app" / "gateway-start.log").read_text()
    assert "Ozzie is ready" in said
    assert "token=" not in said, "a secret in a log, and in what is told of a gateway that ended"


def test_where_a_gateway_runs_none_is_started(home: GatewayHome) -> None:
    with start_gateway(home):
        launch_ahead()
        assert launched_ahead(home.home) is None


def test_what_keeps_it_from_starting_is_left_to_whoever_connects(
    home: GatewayHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OZZIE_PATH", "/dev/null/ozzie")
    launch_ahead()
    assert launched_ahead(Path("/dev/null/ozzie")) is None
