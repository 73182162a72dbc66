"""A kernel begins to start the gateway before it loads itself, where none runs, and goes on with that one."""

from pathlib import Path

import psutil
import pytest

from ozzie_kernel.connect import reach
from ozzie_kernel.launch import launch_ahead, launched_ahead
from ozzie_server_ext.protocol.handshake import Handshake
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
