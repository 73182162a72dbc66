"""What Ozzie adds to a call of an MCP server: the gate, its two records, another process and the sandbox.

The same server answers the library's own client, in this process, and Ozzie's broker, through the tool host, with a
durable log. The two appends that a call needs stand for what no gate can do without. All take turns in one run. A first
use is measured apart: from nothing to the first answer.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from bench.broker import Call, Gate, times_of
from bench.result import Result, emit
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.events import ToolUse
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.planes.supervisor import Supervisor
from ozzie_server_ext.plugins.effects import Effect
from ozzie_server_ext.plugins.server_tool import tools_of
from ozzie_server_ext.plugins.servers import (
    SettledServer,
    SettledTool,
    UsedServer,
)
from ozzie_server_ext.plugins.tool_host import HOST_ARGV, Connection, ToolHost
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.mcp_rig import SCRIPT, told

if TYPE_CHECKING:
    from mcp import Client

CALLS = 500
WARM = 50
FIRST_USES = 5
MORE_MS = 2.0
"""The target: how many milliseconds a call may take above the bare one and the two appends."""
FIRST_MORE_S = 1.5
"""The target: how many seconds later than the bare client's the first answer may come."""
TEXT = {"text": "twelve words, as short answers of a server of tools often are"}


def supervisor(folder: Path) -> Supervisor:
    return Supervisor("tool host", HOST_ARGV, log_file=folder / "tool-host.log")


def bare(state: Path) -> "Client":
    from mcp import Client, StdioServerParameters

    return Client(StdioServerParameters(command=sys.executable, args=[str(SCRIPT), str(state)]))


def gate_of(log: SqliteEventLog, home: Home, project: Path, connection: Connection) -> Gate:
    """Return a gate on a durable log, whose one tool is the server's."""
    echo = next(tool for tool in connection.tools if tool.name == "echo")
    settled = SettledServer(form="", trusted_at=datetime.now(UTC), name="", version="")
    settled.tools["echo"] = SettledTool(seen=echo, effect=Effect.READS)

    async def connect() -> Connection:
        return connection

    tools = tools_of(UsedServer(name="told", is_remote=False, settled=settled), connect)
    use = ToolUse(call_id=CallId("c"), name="told__echo", arguments=json.dumps(TEXT))
    return Gate(log, home, project, tools, use)


async def _measured(folder: Path, calls: int) -> list[Result]:
    clock = SystemClock()
    home, project, state = Home(folder / "home"), folder / "project", folder / "state"
    home.create()
    project.mkdir()
    state.mkdir()
    log = await SqliteEventLog.open(folder / "log.db", clock=clock, ids=UlidSource(clock))
    plane = supervisor(folder)
    host = ToolHost(plane)
    try:
        connection = await host.open(told(state), within_s=30)
        gate = gate_of(log, home, project, connection)
        await gate.look()
        async with bare(state) as client:
            rivals: list[Call] = [
                lambda: client.call_tool("echo", TEXT),
                gate.call,
                gate.appends,
                lambda: connection.call("echo", dict(TEXT), within_s=10),
            ]
            times = await times_of(rivals, calls, warm=WARM)
            plain, ours, floor, hosted = [statistics.median(each) / 1000 for each in times]
        assert plane.pid is not None
        memory = psutil.Process(plane.pid).memory_info().rss / (1 << 20)
    finally:
        await host.stop()
        await log.close()
    more = ours - plain - floor
    call = Result(
        name="a call of an MCP server through the gate, against the bare client and the two appends",
        ours=round(ours, 2),
        against=round(plain + floor, 2),
        ratio=round(ours / (plain + floor), 2),
        unit="ms",
        target=f"<= {MORE_MS:g} ms more",
        met=more <= MORE_MS,
        note=f"{more:.2f} ms more: bare {plain:.2f}, appends {floor:.2f}, through the tool host without the gate"
        f" {hosted:.2f}. The tool host takes {memory:.0f} MiB, whatever the number of its servers",
    )
    return [call, await _first_use(folder)]


async def _first_use(folder: Path) -> Result:
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(FIRST_USES):
        state = folder / f"first-{number}"
        state.mkdir()
        began = time.perf_counter()
        async with bare(state) as client:
            await client.call_tool("echo", TEXT)
            theirs.append(time.perf_counter() - began)
        began = time.perf_counter()
        host = ToolHost(supervisor(folder))
        try:
            connection = await host.open(told(state), within_s=30)
            await connection.call("echo", dict(TEXT), within_s=10)
            ours.append(time.perf_counter() - began)
        finally:
            await host.stop()
    here, there = statistics.median(ours), statistics.median(theirs)
    return Result(
        name="the first call of an MCP server, no tool host running, against the bare client",
        ours=round(here, 2),
        against=round(there, 2),
        ratio=round(here / there, 2),
        unit="s",
        target=f"<= {FIRST_MORE_S:g} s more",
        met=here - there <= FIRST_MORE_S,
        note="the bare client's library was loaded before; the tool host loads it, which is most of the difference",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS)
    calls = parser.parse_args().calls
    with tempfile.TemporaryDirectory() as folder:
        emit(asyncio.run(_measured(Path(folder).resolve(), calls)))


if __name__ == "__main__":
    main()
