"""How long tasks have worked: what the log says, and what passes while they go on."""

import asyncio
from typing import Any

import pytest

from ozzie_server_ext.agent.rounds import OutOfTime
from ozzie_server_ext.domain.events import (
    Draft,
    Event,
    EventBody,
    Limits,
    MadeCall,
    PromptAnswered,
    PromptRequested,
    StepCompleted,
    TaskCreated,
    TaskQueued,
    TaskResumed,
    TaskStarted,
    TaskSucceeded,
    TaskWaitingApproval,
    ToolCallCompleted,
    ToolCallRequested,
    ToolCallStarted,
    ToolsetInjected,
)
from ozzie_server_ext.domain.ids import CallId, MessageId, PromptId, TaskId, task_stream
from ozzie_server_ext.domain.toolmeta import SKILLS
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.times import TaskTimes

RUN, INNER, A, B, TURN = TaskId("run"), TaskId("inner"), TaskId("a"), TaskId("b"), TaskId("turn")
HANDED = CallId("handed")
ASKED = TaskWaitingApproval(approval_id="p")
CALL = MadeCall(tool_id="t", name="t", version="1", args={}, rule="r", policy="p", duration_ms=1500)
RECOVERED = TaskQueued(reason="recovered")


class Story:
    """A log in which things happen by a clock of its own."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.log = InMemoryEventLog(self.clock, CountingIds())
        self.times = TaskTimes(self.log, self.clock)

    async def happens(self, task_id: TaskId, *bodies: EventBody, source: str = "agent") -> None:
        drafts = [Draft(body=body, actor="kernel", source=source, task_id=task_id) for body in bodies]
        await self.log.append(task_stream(task_id), drafts)

    async def begins(self, task_id: TaskId, parent: TaskId | None, attempt: int = 1) -> None:
        mode = "GRAPH" if task_id in (RUN, INNER) else "FREE"
        created = TaskCreated(title="t", mode=mode, message_id=MessageId("m"), limits=Limits(), parent=parent)
        started = TaskStarted(attempt=attempt, epoch="e")
        await self.happens(task_id, created, TaskQueued(reason="created"), started)

    async def hands_over(self, task_id: TaskId) -> None:
        """To a skill: from here on it waits for that."""
        asked = ToolCallRequested(
            call_id=HANDED, use_id="u", tool_id=f"{SKILLS}review", name="n", version="1", args={}, round=1, index=0
        )
        await self.happens(task_id, asked, ToolCallStarted(call_id=HANDED))

    async def gets_it(self, task_id: TaskId) -> None:
        """What it has handed over."""
        await self.happens(task_id, ToolCallCompleted(call_id=HANDED, ok=True, data=None, summary="", duration_ms=1))

    async def spent(self, task_id: TaskId = RUN) -> float:
        return (await self.times.spent(task_id)).total_seconds()


@pytest.fixture
async def story() -> Story:
    story = Story()
    await story.begins(RUN, None)
    await story.begins(INNER, RUN)
    return story


async def test_a_run_works_as_long_as_a_task_below_it_does_however_deep(story: Story) -> None:
    story.clock.advance(10)
    await story.begins(A, INNER)
    story.clock.advance(5)
    await story.happens(A, TaskSucceeded(rounds=1))
    story.clock.advance(100)
    assert await story.spent() == 5


async def test_what_goes_on_side_by_side_takes_its_time_once(story: Story) -> None:
    await story.begins(A, RUN)
    story.clock.advance(3)
    await story.begins(B, INNER)
    story.clock.advance(4)
    await story.happens(A, TaskSucceeded(rounds=1))
    story.clock.advance(2)
    assert await story.spent() == 9


async def test_waiting_for_a_person_takes_no_time(story: Story) -> None:
    await story.begins(A, RUN)
    story.clock.advance(3)
    await story.happens(A, ASKED)
    story.clock.advance(1000)
    await story.happens(A, TaskResumed(by="ana"), TaskQueued(reason="answered"), TaskStarted(attempt=2, epoch="e"))
    story.clock.advance(4)
    assert await story.spent() == 7


async def test_a_server_that_asks_a_person_takes_no_time_of_its_task(story: Story) -> None:
    prompt = PromptRequested(prompt_id=PromptId("p"), kind="server", question="?", notes=(), options=())
    await story.begins(A, RUN)
    story.clock.advance(3)
    await story.happens(A, prompt, source="server")
    story.clock.advance(1000)
    await story.happens(A, PromptAnswered(prompt_id=PromptId("p"), option="yes", by="ana"), source="tasks")
    story.clock.advance(4)
    assert await story.spent() == 7


async def test_the_time_without_a_gateway_is_none(story: Story) -> None:
    await story.begins(A, RUN)
    story.clock.advance(3)
    await story.happens(A, ToolsetInjected(tools=()))
    story.clock.advance(1000)
    await story.happens(A, RECOVERED, source="recovery")
    await story.happens(A, TaskStarted(attempt=2, epoch="f"))
    story.clock.advance(2)
    assert await story.spent() == 5


async def test_a_call_that_was_made_at_once_counts_for_as_long_as_it_took(story: Story) -> None:
    story.clock.advance(60)
    await story.happens(INNER, StepCompleted(step_id="s", output=None, call=CALL))
    assert await story.spent() == 1.5


async def test_a_run_that_has_used_its_time_up_does_not_begin_again(story: Story) -> None:
    await story.begins(A, RUN)
    story.clock.advance(5)
    await story.happens(A, TaskSucceeded(rounds=1))
    with pytest.raises(OutOfTime):
        async with story.times.bounded(RUN, 5):
            raise AssertionError("it was begun")


async def test_time_passes_only_while_something_works_and_ends_the_run_then(story: Story) -> None:
    async def runs() -> None:
        async with story.times.bounded(RUN, 0.05):
            assert not story.times.passes(RUN)
            await story.begins(A, INNER)
            assert story.times.passes(RUN)
            await story.happens(A, ASKED)
            assert not story.times.passes(RUN)
            with story.times.working(INNER):
                assert story.times.passes(RUN)
                await asyncio.Event().wait()

    with pytest.raises(OutOfTime):
        await asyncio.wait_for(runs(), 20)
    assert not story.times.passes(RUN)


async def test_what_ran_already_when_the_run_goes_on_is_heard_of(story: Story) -> None:
    await story.begins(A, INNER)
    async with story.times.bounded(RUN, 60):
        assert story.times.passes(RUN)
        await story.happens(A, TaskSucceeded(rounds=1))
        assert not story.times.passes(RUN)


async def test_a_time_out_of_something_else_is_left_alone(story: Story) -> None:
    with pytest.raises(TimeoutError):
        async with story.times.bounded(RUN, 60):
            raise TimeoutError


async def test_without_a_limit_nothing_is_watched(story: Story) -> None:
    async with story.times.bounded(RUN, None):
        await story.begins(A, RUN)
        assert not story.times.passes(RUN)


async def test_a_turn_works_by_itself_and_by_what_works_for_it(story: Story) -> None:
    await story.begins(TURN, None)
    story.clock.advance(1)
    await story.hands_over(TURN)
    story.clock.advance(100)
    await story.begins(B, TURN)
    story.clock.advance(10)
    await story.happens(B, ASKED)
    story.clock.advance(1000)
    assert await story.spent(TURN) == 11
    await story.gets_it(TURN)
    story.clock.advance(2)
    assert await story.spent(TURN) == 13


async def test_the_time_of_a_turn_stands_still_while_what_it_handed_over_waits(story: Story) -> None:
    await story.begins(TURN, None)
    async with story.times.bounded(TURN, 60):
        assert story.times.passes(TURN)
        await story.hands_over(TURN)
        assert not story.times.passes(TURN)
        await story.begins(B, TURN)
        assert story.times.passes(TURN)
        await story.happens(B, ASKED)
        assert not story.times.passes(TURN)
        await story.gets_it(TURN)
        assert story.times.passes(TURN)


async def test_a_turn_that_goes_on_after_a_restart_knows_what_it_had_handed_over(story: Story) -> None:
    await story.begins(TURN, None)
    await story.hands_over(TURN)
    await story.happens(TURN, RECOVERED, TaskStarted(attempt=2, epoch="f"), ToolCallStarted(call_id=HANDED))
    async with story.times.bounded(TURN, 60):
        assert not story.times.passes(TURN)
        await story.gets_it(TURN)
        assert story.times.passes(TURN)


async def test_what_happens_while_the_log_is_read_is_heard_of_once(story: Story) -> None:
    await story.begins(TURN, None)
    read_stream = story.log.read_stream

    async def read(stream: str, **how: Any) -> tuple[Event, ...]:
        events = await read_stream(stream, **how)
        if stream == task_stream(TURN):
            story.log.read_stream = read_stream
            await story.hands_over(TURN)
            await story.begins(B, TURN)
        return events

    story.log.read_stream = read
    async with story.times.bounded(TURN, 60):
        assert story.times.passes(TURN)
        await story.happens(B, TaskSucceeded(rounds=1))
        assert not story.times.passes(TURN)
