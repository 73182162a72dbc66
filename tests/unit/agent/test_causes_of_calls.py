"""Where the event before is not the cause of a call's event, the call says which one is (docs/adr/0052)."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from ozzie_server_ext.domain.events import (
    ApprovalGranted,
    Event,
    EventBody,
    ModelCallCompleted,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallRequested,
    ToolCallStarted,
)
from ozzie_server_ext.domain.toolmeta import RiskLevel, SideEffect, ToolResult
from ozzie_server_ext.models.scripted import Use
from ozzie_server_ext.tools.base import ToolContext
from tests.unit.agent.test_held_turns import Asking
from tests.unit.tools.test_base import tool

READS = ("first", "second")
SENT = "sent"


@dataclass(frozen=True)
class Recorded:
    """The events of a turn that made two calls side by side, the second of which ended first, and one after a yes."""

    events: tuple[Event, ...]

    def of_calls(self, kind: type[EventBody]) -> list[tuple[str, Event]]:
        """The events of that class about calls, each with its call as the model numbered it."""
        requested = [event.body for event in self.events if isinstance(event.body, ToolCallRequested)]
        use_of = {body.call_id: body.use_id for body in requested}
        return [(use_of[event.body.call_id], event) for event in self.events if isinstance(event.body, kind)]  # type: ignore[attr-defined]

    def cause(self, kind: type[EventBody], use_id: str) -> Event:
        """What led to the last event of that class about that call."""
        last = [event for of, event in self.of_calls(kind) if of == use_id][-1]
        (found,) = [event for event in self.events if event.event_id == last.causation_id]
        return found

    @property
    def answer(self) -> Event:
        """The end of the model's answer with the calls."""
        return next(event for event in self.events if isinstance(event.body, ModelCallCompleted))


@pytest.fixture
async def recorded(project: Path) -> Recorded:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def read(context: ToolContext, *, at: str) -> ToolResult:
        """Read it. The first call begins before the second one and ends after it."""
        if at == READS[0]:
            begun.set()
            await asyncio.wait_for(ended.wait(), 10)
        else:
            await asyncio.wait_for(begun.wait(), 10)
        return ToolResult(ok=True, data=at)

    async def send(context: ToolContext, *, at: str) -> ToolResult:
        """Send it, after a yes."""
        return ToolResult(ok=True, data=at)

    def end_first(events: tuple[Event, ...]) -> None:
        if any(isinstance(event.body, ToolCallCompleted) for event in events):
            ended.set()

    tools = [
        tool(read, tool_id="test.read", name="read", timeout_s=30),
        tool(send, tool_id="test.send", name="send", risk_level=RiskLevel.HIGH, side_effect=SideEffect.IRREVERSIBLE),
    ]
    rig = Asking(
        project, [[*(Use("read", {"at": at}, at) for at in READS), Use("send", {"at": "x"}, SENT)]], tools=tools
    )
    rig.log.on_commit(end_first)
    await rig.begin()
    await rig.approve_all()
    await rig.run()
    found = Recorded(await rig.events())
    assert [use_id for use_id, _ in found.of_calls(ToolCallCompleted)] == [*reversed(READS), SENT]
    return found


async def test_parallel_calls_follow_from_their_answer(recorded: Recorded) -> None:
    assert [recorded.cause(ToolCallRequested, use_id) for use_id in READS] == [recorded.answer] * 2


async def test_a_call_that_asks_first_follows_from_its_answer_too(recorded: Recorded) -> None:
    assert recorded.cause(ToolCallRequested, SENT) == recorded.answer


async def test_an_outcome_follows_from_the_start_of_its_call(recorded: Recorded) -> None:
    starts = dict(recorded.of_calls(ToolCallStarted))

    for use_id in (*READS, SENT):
        assert recorded.cause(ToolCallCompleted, use_id) == starts[use_id]


async def test_a_call_goes_on_from_its_yes(recorded: Recorded) -> None:
    assert isinstance(recorded.cause(ToolCallDecided, SENT).body, ApprovalGranted)
