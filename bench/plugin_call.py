"""What Ozzie adds to a call of a plugin in WebAssembly, and what hostile plugins do to its event loop.

The same code answers Extism in this process, a new instance for each call, and Ozzie's broker, through the tool host,
with a durable log. The two appends that a call needs stand for what no gate can do without. All take turns in one run.
The lag of the loop is measured while plugins spin, take memory, flood the host and return much, sixteen calls at once.
"""

import argparse
import asyncio
import base64
import contextlib
import hashlib
import json
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from bench.broker import Call, Gate, times_of
from bench.mcp_call import supervisor
from bench.result import Result, emit
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.events import ToolUse
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.plugins.effects import Effect
from ozzie_server_ext.plugins.plugin_tool import NoWatch, UsedPlugin, UsedTool, tools_of_plugin
from ozzie_server_ext.plugins.tool_host import Connection, ServerFailed, ToolHost
from ozzie_server_ext.protocol.tool_host import Module
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.wasm_rig import Wat

CALLS = 500
WARM = 50
MORE_MS = 1.0
"""The target: how many milliseconds a call may take above the bare one and the two appends."""
LAG_MS = 20.0
"""The target: how late the loop may be, at most, in 99 of 100 looks."""
LOOK_S = 0.002
HOSTILE_S = 5.0
AT_ONCE = 16
TEXT = {"text": "twelve words, as short answers of a plugin often are, no more"}
_NONE = "(call $alloc (i64.const 1))"
_HOSTILE = (
    Wat()
    .does("spins", "(loop $l (br $l)) (i32.const 0)")
    .does("grows", "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (unreachable)")
    .does("floods", f"(loop $l (drop (call $log {_NONE} {_NONE})) (br $l)) (i32.const 0)")
    .returns("returns", json.dumps(["twelve words or so"] * 40_000))
)
_ECHO = Wat().returns("go", json.dumps(TEXT))


def module(folder: Path, name: str, code: bytes, *exports: str) -> Module:
    file = folder / f"{name}.wasm"
    file.write_bytes(code)
    return Module(
        name=name,
        wasm=str(file),
        digest=hashlib.sha256(code).hexdigest(),
        exports=exports,
        granted=("log",),
        notes=str(folder / f"{name}.db"),
        compiled=str(folder / "compiled"),
        project=str(folder),
    )


def gate_of(log: SqliteEventLog, home: Home, project: Path, connection: Connection) -> Gate:
    """Return a gate on a durable log, whose one tool is the plugin's."""
    tool = UsedTool(
        name="go",
        description="Echoes",
        schema={"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False},
        effect=Effect.READS,
    )

    async def connect() -> Connection:
        return connection

    tools = tools_of_plugin(UsedPlugin(name="echo", version="1", digest="", tools=(tool,)), connect, NoWatch())
    return Gate(log, home, project, tools, ToolUse(call_id=CallId("c"), name="echo__go", arguments=json.dumps(TEXT)))


async def _measured(folder: Path, calls: int) -> list[Result]:
    from extism import Plugin
    from extism.extism import CompiledPlugin

    from ozzie_server_ext.programs.wasm_plugins import HOST_FUNCTIONS

    clock = SystemClock()
    home, project = Home(folder / "home"), folder / "project"
    home.create()
    project.mkdir()
    log = await SqliteEventLog.open(folder / "log.db", clock=clock, ids=UlidSource(clock))
    plane = supervisor(folder)
    host = ToolHost(plane)
    compiled = CompiledPlugin({"wasm": [{"data": base64.b64encode(_ECHO.code).decode()}]}, functions=[*HOST_FUNCTIONS])
    given = json.dumps(TEXT).encode()

    async def bare() -> object:
        with Plugin(compiled) as instance:
            return json.loads(instance.call("go", given))

    try:
        connection = await host.open(module(folder, "echo", _ECHO.code, "go"), within_s=30)
        gate = gate_of(log, home, project, connection)
        await gate.look()
        rivals: list[Call] = [
            bare,
            gate.call,
            gate.appends,
            lambda: connection.call("go", dict(TEXT), within_s=10),
        ]
        times = await times_of(rivals, calls, warm=WARM)
        plain, ours, floor, hosted = [statistics.median(each) / 1000 for each in times]
        assert plane.pid is not None
        memory = psutil.Process(plane.pid).memory_info().rss / (1 << 20)
        lag = await _lag(host, folder)
    finally:
        await host.stop()
        await log.close()
    more = ours - plain - floor
    call = Result(
        name="a call of a plugin through the gate, against Extism alone and the two appends",
        ours=round(ours, 2),
        against=round(plain + floor, 2),
        ratio=round(ours / (plain + floor), 2),
        unit="ms",
        target=f"<= {MORE_MS:g} ms more",
        met=more <= MORE_MS,
        note=f"{more:.2f} ms more: bare {plain:.2f}, appends {floor:.2f}, through the tool host without the gate"
        f" {hosted:.2f}. A tool host with plugins alone takes {memory:.0f} MiB",
    )
    return [call, lag]


async def _lag(host: ToolHost, folder: Path) -> Result:
    """Return how late the loop is while hostile plugins run, beside an idle one."""
    exports = ("spins", "grows", "floods", "returns")
    connection = await host.open(module(folder, "hostile", _HOSTILE.code, *exports), within_s=30)
    idle = await _lateness(HOSTILE_S / 2)
    ends = time.monotonic() + HOSTILE_S

    async def attack(export: str) -> None:
        while time.monotonic() < ends:
            with contextlib.suppress(ServerFailed):
                await connection.call(export, {}, within_s=0.5)

    attacks = [asyncio.create_task(attack(exports[number % len(exports)])) for number in range(AT_ONCE)]
    busy = await _lateness(HOSTILE_S)
    await asyncio.gather(*attacks)
    connection.close()
    quiet, late = (statistics.quantiles(each, n=100)[98] for each in (idle, busy))
    return Result(
        name="how late the gateway's loop is under 16 calls of hostile plugins, in 99 of 100 looks",
        ours=round(late, 1),
        against=round(quiet, 1),
        ratio=round(late / quiet, 1),
        unit="ms",
        target=f"<= {LAG_MS:g} ms",
        met=late <= LAG_MS,
        note=f"at most {max(busy):.0f} ms; beside it an idle loop",
    )


async def _lateness(for_s: float) -> list[float]:
    """Return by how many milliseconds each sleep was late."""
    found: list[float] = []
    ends = time.monotonic() + for_s
    while (began := time.monotonic()) < ends:
        await asyncio.sleep(LOOK_S)
        found.append((time.monotonic() - began - LOOK_S) * 1000)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS)
    calls = parser.parse_args().calls
    with tempfile.TemporaryDirectory() as folder:
        emit(asyncio.run(_measured(Path(folder).resolve(), calls)))


if __name__ == "__main__":
    main()
