"""A kernel begins to start the gateway before it loads itself, where none runs, and goes on with that one."""

import asyncio
import errno
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from ozzie_kernel.ahead import launch_ahead, launched_ahead
from ozzie_kernel.client import Refused
from ozzie_kernel.connect import reach
from ozzie_kernel.launch import Launched
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.protocol.handshake import Handshake
from tests.rig import START_S, GatewayHome, new_home, start_gateway


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GatewayHome:
    home = new_home(tmp_path)
    for name, value in home.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(home.project)
    return home


async def pid_of(handshake: Handshake) -> int:
    return handshake.pid


def gateways(home: GatewayHome) -> list[psutil.Process]:
    """Those of this home that were started from here; other tests may have gateways of their own."""
    children = [child for child in psutil.Process().children() if "programs.gateway" in " ".join(child.cmdline())]
    return [child for child in children if child.environ().get("OZZIE_PATH") == str(home.home)]


def started_gateways(home: GatewayHome) -> list[psutil.Process]:
    """The same, once there is one: a new process has its parent's command line until its program is loaded."""
    end = time.monotonic() + START_S
    while not (found := gateways(home)):
        assert time.monotonic() < end, "none was started"
        time.sleep(0.01)
    return found


async def test_the_gateway_that_was_started_ahead_is_the_one_that_is_reached(home: GatewayHome) -> None:
    launch_ahead()
    try:
        pid = await reach(pid_of)
        started = [gateway.pid for gateway in gateways(home)]
    finally:
        home.stop_gateways()

    assert started == [pid], "a second one was started"
    assert launched_ahead(home.home) is None, "it is handed over once"
    said = (home.home / "logs" / "app" / "gateway-start.log").read_text()
    assert "token=" not in said, "a secret in a log, and in what is told of a gateway that ended"


def test_another_one_is_started_where_that_one_has_ended_since(home: GatewayHome) -> None:
    launch_ahead()
    try:
        (first,) = started_gateways(home)
        first.kill()
        first.wait(20)
        second = asyncio.run(reach(pid_of))
    finally:
        home.stop_gateways()

    assert second != first.pid


async def test_one_that_refuses_something_is_not_ended_for_it(
    home: GatewayHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Launched] = []
    monkeypatch.setattr(Launched, "end", ended.append)

    async def refused(handshake: Handshake) -> None:
        raise Refused("There is no such session.")

    try:
        with pytest.raises(Refused):
            await reach(refused)
    finally:
        home.stop_gateways()

    assert ended == []


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


def test_where_no_process_can_be_started_a_kernel_comes_up_and_says_so_when_asked(
    home: GatewayHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **how: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", full)
    launch_ahead()

    with pytest.raises(Unavailable, match="could not be started: Resource temporarily unavailable") as caught:
        asyncio.run(reach(pid_of))
    assert "end some" in caught.value.hint
