"""A tool that floods, ignores being stopped, or gives what is no text leaves a clear outcome, and the loop goes on."""

import asyncio
import resource
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ozzie_server_ext.domain.events import (
    ArtifactCreated,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.toolmeta import SideEffect, ToolError, ToolResult
from ozzie_server_ext.policy.engine import FixedRulings
from ozzie_server_ext.tools import timeout
from ozzie_server_ext.tools.base import EffectTool, Plan, ToolContext, ToolFailed, ToolUncertain, Unsettled
from ozzie_server_ext.tools.outcome import MAX_ITEMS, MAX_RESULT, MOST_SAID
from ozzie_server_ext.tools.timeout import in_time
from tests.unit.policy.rig import rule
from tests.unit.tools.test_base import tool
from tests.unit.tools.test_broker import Bench, probe, types

WAIT_S = 10
GIB = 1 << 30
MOST_LAG_S = 0.5
MOST_MORE_BYTES = 64 << 20
ALLOWED = FixedRulings((rule("allow", {"tools": ["test.probe"]}),))


@pytest.fixture
def bench(context: ToolContext) -> Bench:
    bench = Bench(context)
    bench.rulings = ALLOWED
    return bench


class Stubborn:
    """A tool that goes on whatever it is told, until the test lets it go."""

    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.let_go = asyncio.Event()
        self.told = 0
        self.ended = asyncio.Event()

    async def run(self) -> ToolResult:
        self.running.set()
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.told += 1
        self.ended.set()
        return ToolResult(ok=True, data="at last")


@pytest.fixture
async def stubborn(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stubborn]:
    monkeypatch.setattr(timeout, "GRACE_S", 0.05)
    found = Stubborn()
    yield found
    found.let_go.set()
    if found.running.is_set():
        await asyncio.wait_for(found.ended.wait(), WAIT_S)


@asynccontextmanager
async def worst_lag() -> AsyncIterator[Callable[[], float]]:
    """How long the loop was held up at most, in seconds."""
    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - began)

    watching = asyncio.ensure_future(watch())
    await asyncio.sleep(0)
    yield lambda: worst
    watching.cancel()


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


# --- too much ------------------------------------------------------------------------------------------------


@pytest.mark.serial
async def test_of_a_gigabyte_nothing_is_made_and_the_loop_goes_on(bench: Bench) -> None:
    flood = ToolResult(ok=True, data="x" * GIB)
    before = peak_bytes()

    async with worst_lag() as worst:
        recorded = await bench.call(probe(lambda *_: flood))

    assert isinstance(recorded[-1], ToolCallFailed)
    assert recorded[-1].code == "tool.too_large"
    assert recorded[-1].message == (
        "It returned more than 4 MiB or more than 500,000 values, which is too much. Ask for less at once."
    )
    assert worst() < MOST_LAG_S
    assert peak_bytes() - before < MOST_MORE_BYTES


def _circle() -> Any:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    "data",
    [
        ["x" * 1000] * (MAX_RESULT // 1000 + 1),
        {str(number): None for number in range(MAX_ITEMS)},
        {"k" * (MAX_RESULT + 1): 1},
        ([1] * (MAX_ITEMS // 2),) * 3,
        [[0] * MAX_ITEMS],
        _circle(),
    ],
    ids=["pieces", "keys", "a key", "tuples", "numbers", "a circle"],
)
async def test_too_much_in_any_shape_is_refused(bench: Bench, data: Any) -> None:
    recorded = await bench.call(probe(lambda *_: ToolResult(ok=True, data=data)))

    assert isinstance(recorded[-1], ToolCallFailed)
    assert recorded[-1].code == "tool.too_large"


@pytest.mark.serial
async def test_the_most_that_is_taken_is_kept_whole(bench: Bench) -> None:
    async with worst_lag() as worst:
        recorded = await bench.call(probe(lambda *_: ToolResult(ok=True, data="x" * MAX_RESULT)))

    created, completed = recorded[-2:]
    assert isinstance(created, ArtifactCreated)
    assert isinstance(completed, ToolCallCompleted)
    assert (created.size, completed.ok) == (MAX_RESULT, True)
    assert worst() < MOST_LAG_S


async def test_what_had_an_effect_and_says_too_much_of_it_was_done(bench: Bench) -> None:
    much = ToolResult(ok=True, data="x" * (MAX_RESULT + 1))

    recorded = await bench.call(probe(lambda *_: much, side_effect=SideEffect.REVERSIBLE))

    assert isinstance(recorded[-1], ToolCallCompleted)
    assert isinstance(recorded[-1].data, dict)
    assert recorded[-1].data["done"] is True
    assert str(recorded[-1].data["note"]).startswith("It was done. Its result can't be shown: It returned more than")


@pytest.mark.parametrize("how", ["failure", "error", "summary", "doubt"])
async def test_a_tool_that_goes_on_and_on_about_itself_is_not_quoted(bench: Bench, how: str) -> None:
    words = "blah " * (MAX_RESULT // 4)

    def body(context: ToolContext, text: str) -> ToolResult:
        match how:
            case "failure":
                raise ToolFailed(words)
            case "doubt":
                raise Unsettled(words)
            case "error":
                return ToolResult(ok=False, error=ToolError(code="much", message=words))
            case _:
                return ToolResult(ok=True, summary=words)

    try:
        recorded = await bench.call(probe(body))
    except ToolUncertain:
        recorded = await bench.recorded()

    assert len(str(recorded[-1])) < MOST_SAID
    assert types(recorded)[-1] == {"summary": "completed", "doubt": "uncertain"}.get(how, "failed")


# --- no end --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side_effect", [SideEffect.NONE, SideEffect.REVERSIBLE])
async def test_a_tool_that_goes_on_behind_its_time_is_left_alone(
    bench: Bench, stubborn: Stubborn, side_effect: SideEffect
) -> None:
    calling = bench.call(probe(lambda *_: stubborn.run(), timeout_s=0.01, side_effect=side_effect))

    async with asyncio.timeout(WAIT_S):
        if side_effect is SideEffect.NONE:
            end = (await calling)[-1]
            assert isinstance(end, ToolCallFailed)
            assert (end.code, end.message) == ("tool.timed_out", "probe did not finish within 0.01 s.")
        else:
            with pytest.raises(ToolUncertain):
                await calling
            assert isinstance((await bench.recorded())[-1], ToolCallUncertain)
    assert stubborn.told == 1
    assert not stubborn.ended.is_set()

    before = await bench.recorded()
    stubborn.let_go.set()
    await asyncio.wait_for(stubborn.ended.wait(), WAIT_S)
    assert await bench.recorded() == before, "what it comes to afterwards is nobody's any more"


async def test_a_turn_can_be_stopped_though_its_tool_can_not(bench: Bench, stubborn: Stubborn) -> None:
    calling = asyncio.ensure_future(bench.call(probe(lambda *_: stubborn.run(), timeout_s=60)))
    await asyncio.wait_for(stubborn.running.wait(), WAIT_S)

    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(calling, WAIT_S)

    assert not stubborn.ended.is_set()
    assert isinstance((await bench.recorded())[-1], ToolCallCancelled)


async def test_a_plan_that_has_no_end_is_left_alone_too(bench: Bench, stubborn: Stubborn) -> None:
    async def plan(context: ToolContext) -> Plan:
        """Plan for ever."""
        await stubborn.run()
        return Plan(args={})

    async def run(context: ToolContext, plan: Plan) -> ToolResult:
        raise AssertionError("it was never planned")

    async def happened(context: ToolContext, effect: object) -> None:
        return None

    meta = tool(timeout_s=0.01, tool_id="test.probe", name="probe").meta
    async with asyncio.timeout(WAIT_S):
        recorded = await bench.call(EffectTool(plan, run, meta, happened=happened))

    assert isinstance(recorded[-1], ToolCallFailed)
    assert recorded[-1].code == "tool.timed_out"


async def test_who_is_told_twice_to_stop_tells_the_tool_twice_and_goes(stubborn: Stubborn) -> None:
    waiting = asyncio.ensure_future(in_time(stubborn.run(), 60))
    await asyncio.wait_for(stubborn.running.wait(), WAIT_S)
    waiting.cancel()
    await asyncio.sleep(0)
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(waiting, WAIT_S)
    assert stubborn.told == 2


async def test_what_comes_to_its_end_when_it_is_told_to_stop_has_its_result() -> None:
    async def last_word() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done"
        return ""

    assert await in_time(last_word(), 0.01) == "done"


async def test_what_fails_when_it_is_told_to_stop_has_its_failure() -> None:
    async def last_word() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ToolFailed("The line broke.")

    with pytest.raises(ToolFailed):
        await in_time(last_word(), 0.01)


# --- no text -------------------------------------------------------------------------------------------------

BROKEN = b"caf\xe9 \xff".decode("utf-8", "surrogateescape")
"""Bytes that are no UTF-8, as Python carries them in a text."""


@pytest.mark.parametrize("data", [BROKEN, {BROKEN: 1}, [[BROKEN]], b"caf\xe9"], ids=["text", "key", "list", "bytes"])
async def test_a_result_that_is_no_text_is_a_clear_failure(bench: Bench, data: Any) -> None:
    recorded = await bench.call(probe(lambda *_: ToolResult(ok=True, data=data)))

    assert types(recorded) == ["requested", "decided", "started", "failed"]
    assert isinstance(recorded[-1], ToolCallFailed)
    assert recorded[-1].code == "input.json"
    assert recorded[-1].message.startswith("Can't be written as JSON: ")


@pytest.mark.parametrize("how", ["failure", "summary", "doubt"])
async def test_words_that_are_no_text_are_told_as_far_as_they_are(bench: Bench, how: str) -> None:
    def body(context: ToolContext, text: str) -> ToolResult:
        if how == "failure":
            raise ToolFailed(BROKEN)
        if how == "doubt":
            raise Unsettled(BROKEN)
        return ToolResult(ok=True, summary=BROKEN)

    try:
        (*_, end) = await bench.call(probe(body))
    except ToolUncertain:
        (*_, end) = await bench.recorded()

    match end:
        case ToolCallFailed(message=said) | ToolCallUncertain(reason=said) | ToolCallCompleted(summary=said):
            assert said == "caf\ufffd \ufffd"
        case _:
            pytest.fail(f"{end.type} is no outcome")


async def test_a_stop_that_comes_as_a_plan_ends_is_not_lost(bench: Bench) -> None:
    """Or the effect would be had after the stop."""
    looked, done = asyncio.Event(), list[str]()
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def plan(context: ToolContext) -> Plan:
        """Do what the test says."""
        looked.set()
        await ready
        return Plan(args={})

    async def run(context: ToolContext, plan: Plan) -> ToolResult:
        done.append("it")
        return ToolResult(ok=True)

    async def happened(context: ToolContext, effect: Any) -> bool | None:
        return None

    effectful = EffectTool(plan, run, tool(tool_id="test.probe", name="probe").meta, happened=happened)
    for ticks in range(6):
        looked.clear()
        ready = asyncio.get_running_loop().create_future()
        calling = asyncio.create_task(bench.call(effectful))
        await asyncio.wait_for(looked.wait(), WAIT_S)
        ready.set_result(None)
        for _ in range(ticks):
            await asyncio.sleep(0)
        before = len(done)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        if ticks < 2:  # the plan had not been handed on yet
            assert len(done) == before, ticks


@pytest.mark.parametrize("effect", [SideEffect.NONE, SideEffect.REVERSIBLE])
async def test_a_result_whose_summary_is_no_text_has_an_outcome_all_the_same(bench: Bench, effect: SideEffect) -> None:
    malformed: Any = ToolResult(ok=True, data="fine", summary=None)  # type: ignore[arg-type]

    *_, outcome = await bench.call(probe(lambda context, text: malformed, side_effect=effect))

    if effect is SideEffect.NONE:
        assert isinstance(outcome, ToolCallFailed)
        assert outcome.code == "tool.broken"
    else:
        assert isinstance(outcome, ToolCallCompleted)
        assert "It was done." in str(outcome.data)
