"""What a run was asked for is told to the runs within it, also where a gateway died between the two."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from ozzie_server_ext.domain.events import (
    Draft,
    Event,
    EventBody,
    Limits,
    Origin,
    TaskCreated,
    TaskPaused,
    TaskPauseRequested,
    TaskQueued,
    TaskResumed,
    TaskStarted,
    TaskSucceeded,
    TaskWaitingInput,
)
from ozzie_server_ext.domain.ids import MessageId, SessionId, TaskId, task_stream
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tasks.pauses import pause_nested
from ozzie_server_ext.tasks.recovery import recover
from ozzie_server_ext.tasks.workflows.delegation import Delegated, Delegation
from tests.unit.tasks.test_recovery import Taken

OUTER, INNER, STEP = TaskId("outer"), TaskId("outer-x"), TaskId("outer-y")
SESSION = SessionId("s1")
QUEUED, STARTED = TaskQueued(reason="created"), TaskStarted(attempt=1, epoch="old")
PAUSING, PAUSED = TaskPauseRequested(by="ann", reason="lunch"), TaskPaused(by="ann", reason="lunch")
TAKEN_BACK, RESUMED = TaskPauseRequested(by="ann", wanted=False), (TaskResumed(by="ann"), TaskQueued(reason="resumed"))


@pytest.fixture
async def log() -> InMemoryEventLog:
    """With a run that goes on, and one within it."""
    log = InMemoryEventLog(FakeClock(), CountingIds())
    created = TaskCreated(title="t", mode="GRAPH", message_id=MessageId("m"), limits=Limits())
    await say(log, OUTER, created, QUEUED, STARTED)
    await say(log, INNER, replace(created, parent=OUTER), QUEUED, STARTED)
    return log


async def say(log: InMemoryEventLog, task: TaskId, *bodies: EventBody) -> None:
    drafts = [Draft(body=body, actor="user", source="hub", session_id=SESSION, task_id=task) for body in bodies]
    await log.append(task_stream(task), drafts)


async def row(log: InMemoryEventLog, task: TaskId) -> tuple[object, bool]:
    (found,) = await log.rows("tasks", where={"task_id": task})
    return found["status"], bool(found["pause_by"])


async def recovered(log: InMemoryEventLog) -> Taken:
    runner = Taken()
    await recover(log, runner, ids=CountingIds())
    return runner


@pytest.mark.parametrize("has_let_go", [False, True])
async def test_a_run_that_was_not_told_that_its_outer_one_is_held_is_held(
    log: InMemoryEventLog, has_let_go: bool
) -> None:
    await say(log, OUTER, PAUSING, *([PAUSED] if has_let_go else []))
    runner = await recovered(log)
    assert [await row(log, task) for task in (OUTER, INNER)] == [("PAUSED", False)] * 2
    assert (runner.tasks, sorted(runner.held)) == ([], [OUTER, INNER])


@pytest.mark.parametrize("has_run", [False, True])
async def test_a_run_that_was_not_told_that_its_outer_one_goes_on_goes_on(log: InMemoryEventLog, has_run: bool) -> None:
    await say(log, OUTER, PAUSING)
    await say(log, INNER, PAUSING, PAUSED)
    await say(log, OUTER, PAUSED, *RESUMED, *([STARTED] if has_run else []))
    runner = await recovered(log)
    assert [await row(log, task) for task in (OUTER, INNER)] == [("QUEUED", False)] * 2
    assert (runner.tasks, runner.held) == ([OUTER, INNER], [])


async def test_a_pause_that_was_taken_back_and_not_for_the_run_within_is_for_that_too(log: InMemoryEventLog) -> None:
    await say(log, OUTER, PAUSING)
    await say(log, INNER, PAUSING)
    await say(log, OUTER, TAKEN_BACK)
    runner = await recovered(log)
    assert (await row(log, INNER), runner.tasks) == (("QUEUED", False), [OUTER, INNER])


async def test_what_was_said_to_the_run_within_afterwards_holds(log: InMemoryEventLog) -> None:
    await say(log, OUTER, PAUSING)
    await say(log, INNER, PAUSING, PAUSED)
    await say(log, OUTER, PAUSED)
    await say(log, INNER, *RESUMED)
    assert (await recovered(log)).tasks == [INNER]
    await say(log, OUTER, *RESUMED)
    await say(log, INNER, STARTED, PAUSING, PAUSED)
    assert (await recovered(log)).held == [INNER]


async def test_an_answer_that_a_turn_waited_for_says_nothing_of_its_pause() -> None:
    log = InMemoryEventLog(FakeClock(), CountingIds())
    turn = TaskCreated(title="t", mode="FREE", message_id=MessageId("m"), limits=Limits())
    asked = TaskWaitingInput(question="Tea?")
    await say(log, OUTER, turn, QUEUED, STARTED, PAUSING)
    await say(log, INNER, replace(turn, mode="GRAPH", parent=OUTER), QUEUED, STARTED, PAUSING, PAUSED)
    await say(log, OUTER, asked, TaskResumed(by="ann"), TaskQueued(reason="answered"))
    assert (await recovered(log)).held == [INNER]


async def test_a_run_that_was_begun_while_its_outer_one_was_asked_to_pause_is_asked_too(log: InMemoryEventLog) -> None:
    await say(log, OUTER, PAUSING, PAUSED)
    await pause_nested(log, OUTER, "agent")
    assert await row(log, INNER) == ("RUNNING", True)
    await pause_nested(log, OUTER, "agent")
    await say(log, OUTER, *RESUMED)
    await say(log, INNER, TAKEN_BACK)
    await pause_nested(log, OUTER, "agent")
    assert await row(log, INNER) == ("RUNNING", False)
    await say(log, INNER, TaskSucceeded(rounds=1))
    await say(log, OUTER, STARTED, PAUSING)
    await pause_nested(log, OUTER, "agent")
    assert await row(log, INNER) == ("SUCCEEDED", False)


class Slow(InMemoryEventLog):
    """Whoever appends hears of it late."""

    def __init__(self) -> None:
        super().__init__(FakeClock(), CountingIds())
        self.committed, self.go = asyncio.Event(), asyncio.Event()

    async def append(self, stream: str, drafts: Sequence[Draft], **more: Any) -> tuple[Event, ...]:
        events = await super().append(stream, drafts, **more)
        self.committed.set()
        await self.go.wait()
        return events


async def test_a_task_that_was_begun_while_its_run_let_go_is_run() -> None:
    log, runner = Slow(), Taken()
    wanted = Delegated(
        task_id=STEP,
        parent=OUTER,
        session_id=SESSION,
        title="t",
        limits=Limits(),
        caller=Origin(channel="notebook", sender_id="ana"),
    )
    by = Recorder(log=log, session_id=SESSION, task_id=OUTER)
    beginning = asyncio.create_task(Delegation(log, runner).begin(wanted, by=by))
    await log.committed.wait()
    beginning.cancel()
    await asyncio.sleep(0)
    log.go.set()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    assert runner.tasks == [STEP]
