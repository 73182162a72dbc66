"""What the gate costs: a tool that does nothing, bare and through the broker, beside the appends that a call needs.

The broker is as the gateway builds it, with rules that are looked at anew for each call. A call that runs unasked is
two durable appends: request, decision and intent before the tool, the outcome behind it. These two alone, with the
facts of a call that was made, are the floor: no broker that keeps its promises is faster. All take turns in one run, on
one log of each kind.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from bench.result import Result, emit
from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.events import EventBody, ToolCallCompleted, ToolUse
from ozzie_server_ext.domain.ids import CallId, SessionId, TaskId
from ozzie_server_ext.domain.toolmeta import Idempotency, RiskLevel, SideEffect, ToolMeta, ToolResult
from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.policy.decision import Caller
from ozzie_server_ext.store.blobs import InMemoryBlobs
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.tasks.rules import RulesInForce
from ozzie_server_ext.tasks.spent import SpentToday
from ozzie_server_ext.tools.base import FunctionTool, Tool, ToolContext
from ozzie_server_ext.tools.broker import CallPosition
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.brokers import broker_of

CALLS = 2000
WARM = 100
MORE_US = 1000
"""The target: how many microseconds a call through the broker may add to a bare one. A tool takes far longer."""
TIMES = 2.0
"""The target: how many times as long as its two appends a call may take."""

Call = Callable[[], Awaitable[object]]


async def nothing(context: ToolContext) -> ToolResult:
    """Do nothing."""
    return _DONE


_DONE = ToolResult(ok=True)
_META = ToolMeta(
    tool_id="bench.nothing",
    name="nothing",
    side_effect=SideEffect.NONE,
    risk_level=RiskLevel.LOW,
    timeout_s=5,
    idempotency=Idempotency.SUPPORTED,
)


class Gate:
    """A broker on a log, whose calls are all the same one, and the appends of this call alone on the same log."""

    def __init__(self, log: EventLog, home: Home, project: Path, tools: Iterable[Tool], use: ToolUse) -> None:
        clock = SystemClock()
        ids = UlidSource(clock)
        blobs = InMemoryBlobs()
        registry = ToolRegistry(tools)
        artifacts = ArtifactStore(log, blobs, ids)
        spent = SpentToday(log, clock)
        rules = RulesInForce(home, project, registry, log, blobs, spent, system_file=home.root / "none.jsonc")
        self.log = log
        self.context = ToolContext(project, clock, Caller(project=str(project)))
        self._broker = broker_of(registry, rules, artifacts, clock, ids)
        self._recorder = Recorder(log=log, session_id=SessionId("s"), task_id=TaskId("t"))
        self._use = use
        self._facts: tuple[EventBody, ...] = ()

    async def call(self) -> None:
        await self._broker.call(self._use, CallPosition(1, 0), self.context, self._recorder)

    async def look(self) -> None:
        """Make a call, and remember what was recorded of it."""
        before = (await self.log.head()).position
        await self.call()
        self._facts = tuple(event.body for event in await self.log.read(after=before))
        assert isinstance(self._facts[-1], ToolCallCompleted), self._facts

    async def appends(self) -> None:
        *begin, end = self._facts
        await self._recorder.append(*begin)
        await self._recorder.append(end)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS)
    calls = parser.parse_args().calls
    with tempfile.TemporaryDirectory() as folder:
        emit(asyncio.run(_measured(Path(folder), calls)))


async def _measured(folder: Path, calls: int) -> list[Result]:
    clock = SystemClock()
    ids = UlidSource(clock)
    home, project = Home(folder / "home"), folder / "project"
    home.create()
    project.mkdir()
    tools = [FunctionTool(nothing, _META)]
    use = ToolUse(call_id=CallId("c"), name="nothing", arguments="{}")
    memory = Gate(InMemoryEventLog(clock, ids), home, project, tools, use)
    disk = Gate(await SqliteEventLog.open(folder / "log.db", clock=clock, ids=ids), home, project, tools, use)
    for gate in (memory, disk):
        await gate.look()
    bare, in_memory, durable, floor = await times_of(
        [lambda: nothing(disk.context), memory.call, disk.call, disk.appends], calls, warm=WARM
    )
    await disk.log.close()
    return [_above_bare(in_memory, bare), *_above_floor(durable, floor, bare)]


async def times_of(rivals: list[Call], calls: int, *, warm: int) -> list[list[float]]:
    """Return the microseconds of each call of each; they take turns. The first `warm` calls of each don't count."""
    times: list[list[float]] = [[] for _ in rivals]
    for number in range(warm + calls):
        for call, found in zip(rivals, times, strict=True):
            began = time.perf_counter()
            await call()
            if number >= warm:
                found.append((time.perf_counter() - began) * 1e6)
    return times


def _above_bare(ours: list[float], bare: list[float]) -> Result:
    p50, plain = statistics.median(ours), statistics.median(bare)
    return Result(
        name="a tool that does nothing, through the broker, log in memory, p50, against the bare call",
        ours=round(p50),
        against=round(plain, 2),
        ratio=round(p50 / plain),
        unit="us",
        target=f"<= {MORE_US} us more",
        met=p50 - plain <= MORE_US,
        note=f"{round(p50 - plain)} us more; p99 {round(_p99(ours))} us against {_p99(bare):.2f}. The ratio is one to"
        " nothing; the target is a time that no user notices beside the tool's own",
    )


def _above_floor(ours: list[float], floor: list[float], bare: list[float]) -> list[Result]:
    added = round(statistics.median(ours) - statistics.median(bare))
    own = round(statistics.median(ours) - statistics.median(floor))
    notes = {
        "p50": f"{added} us more than the bare call, {own} us of it the broker's own. A call is two durable appends;"
        " the rest of it may take as long again",
        "p99": "",
    }
    rows: list[Result] = []
    for name, of in (("p50", statistics.median), ("p99", _p99)):
        here, there = of(ours), of(floor)
        rows.append(
            Result(
                name=f"the same, durable, {name}, against its two appends alone",
                ours=round(here),
                against=round(there),
                ratio=round(here / there, 2),
                unit="us",
                target=f"<= {TIMES:g}x",
                met=here / there <= TIMES,
                note=notes[name],
            )
        )
    return rows


def _p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


if __name__ == "__main__":
    main()
