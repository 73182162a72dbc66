"""A tool host or a server is killed while a call runs: the call is told, its effect happened once at most, and nothing
that was started is left. `make soak` kills a hundred times."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import psutil
import pytest

from ozzie_server_ext.planes.supervisor import Pace, Supervisor
from ozzie_server_ext.plugins.tool_host import HOST_ARGV, Connection, ServerFailed, ToolHost
from tests.mcp_rig import expect_sandbox, told
from tests.tiers import SOAK

pytestmark = [pytest.mark.sampled, pytest.mark.timeout(900 if SOAK else 120)]

KILLS = 100 if SOAK else 4
WITHIN_S = 30
PATIENT = Pace(pauses_s=(0.01,), circuit_deaths=1000)
"""Restarts a host at once, however often it dies."""


class Stage:
    """A tool host, which restarts at once, and the folder of its server's state."""

    def __init__(self, folder: Path) -> None:
        self.state = folder.resolve() / "state"
        self.plane = Supervisor("tool host", HOST_ARGV, log_file=folder / "tool-host.log", pace=PATIENT)
        self.host = ToolHost(self.plane)

    async def connected(self) -> Connection:
        return await self.host.open(told(self.state), within_s=WITHIN_S)

    @property
    def effects(self) -> int:
        """How many calls took effect."""
        file = self.state / "calls"
        return len(file.read_text().splitlines()) if file.exists() else 0

    @property
    def started(self) -> list[int]:
        """The processes of servers with this state, whatever became of their host."""
        here = str(self.state)
        return [each.pid for each in psutil.process_iter() if here in _command(each)]

    async def until(self, effects: int) -> None:
        """Wait until so many calls took effect."""
        async with asyncio.timeout(WITHIN_S):
            while self.effects < effects:  # noqa: ASYNC110 - another process makes the file
                await asyncio.sleep(0.01)

    async def until_all_are_gone(self) -> None:
        async with asyncio.timeout(WITHIN_S):
            while self.started:  # noqa: ASYNC110 - the system ends them
                await asyncio.sleep(0.01)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    expect_sandbox()
    stage = Stage(tmp_path)
    yield stage
    await stage.host.stop()


@pytest.mark.parametrize("victim", ["host", "server"])
async def test_a_killed_call_is_told_and_leaves_nothing(stage: Stage, victim: str) -> None:
    draw = Random(f"{victim} 30")
    for number in range(1, KILLS // 2 + 1):
        connection = await stage.connected()
        call = asyncio.create_task(connection.call("hang", {}, within_s=WITHIN_S))
        await stage.until(number)
        host = stage.plane.pid
        assert host is not None
        target = host if victim == "host" else draw.choice([pid for pid in stage.started if pid != host])

        os.kill(target, signal.SIGKILL)

        with pytest.raises(ServerFailed) as failed:
            await call
        assert (failed.value.was_sent, failed.value.code) == (True, "mcp.lost"), str(failed.value)
        assert not connection.is_open
        await stage.until_all_are_gone()
        assert stage.effects == number


async def test_twenty_calls_at_once_are_each_told(stage: Stage) -> None:
    connection = await stage.connected()
    calls = [asyncio.create_task(connection.call("hang", {}, within_s=WITHIN_S)) for _ in range(20)]
    await stage.until(1)
    assert stage.plane.pid is not None

    os.kill(stage.plane.pid, signal.SIGKILL)

    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(end, ServerFailed) and end.was_sent for end in ends), ends
    await stage.until_all_are_gone()
    assert stage.effects == 1  # it takes one call after another
