"""How long a task has worked, by its events."""

from datetime import UTC, datetime, timedelta

import pytest

from ozzie_server_ext.domain.events import (
    Draft,
    EventBody,
    Limits,
    TaskCancelled,
    TaskCreated,
    TaskFailed,
    TaskPaused,
    TaskQueued,
    TaskResumed,
    TaskStarted,
    TaskWaitingApproval,
    TaskWaitingInput,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolCallUncertain,
    ToolsetInjected,
)
from ozzie_server_ext.domain.ids import ApprovalId, CallId, MessageId, TaskId, task_stream
from ozzie_server_ext.domain.toolmeta import SKILLS
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.times import worked

TASK = TaskId("t")
CREATED = TaskCreated(title="t", mode="FREE", message_id=MessageId("m"), limits=Limits())
QUEUED = TaskQueued(reason="created")
ASKED = TaskWaitingInput(question="More?")
FOR_APPROVAL = TaskWaitingApproval(approval_id=ApprovalId("a"))
RESUMED = TaskResumed(by="ann")
ANSWERED = TaskQueued(reason="answered")
RECOVERED = TaskQueued(reason="recovered")
SOMETHING = ToolsetInjected(tools=())


BEGUN = (CREATED, QUEUED)
"""The queue takes no time."""


def requested(call_id: str, tool_id: str) -> ToolCallRequested:
    return ToolCallRequested(
        call_id=CallId(call_id), use_id=call_id, tool_id=tool_id, name="n", version="1", args={}, round=1, index=0
    )


def call(call_id: str) -> ToolCallStarted:
    return ToolCallStarted(call_id=CallId(call_id))


def came(call_id: str) -> ToolCallCompleted:
    return ToolCallCompleted(call_id=CallId(call_id), ok=True, data=None, summary="", duration_ms=1)


HANDED, READS = requested("handed", f"{SKILLS}review"), requested("reads", "fs.read")


def started(attempt: int) -> TaskStarted:
    return TaskStarted(attempt=attempt, epoch="e")


async def seconds(*story: EventBody | int | tuple[EventBody, ...]) -> float:
    """Of a task with these events, and so many seconds between them, until behind the last of them. What stands
    together is what recovery records."""
    clock = FakeClock()
    log = InMemoryEventLog(clock, CountingIds())
    for each in story:
        if isinstance(each, int):
            clock.advance(each)
            continue
        bodies, source = (each, "recovery") if isinstance(each, tuple) else ((each,), "agent")
        drafts = [Draft(body=body, actor="kernel", source=source, task_id=TASK) for body in bodies]
        await log.append(task_stream(TASK), drafts)
    return worked(await log.read_stream(task_stream(TASK)), clock.now()).total_seconds()


async def test_what_runs_has_worked_since_it_began() -> None:
    assert await seconds(CREATED, QUEUED, 100, started(1), 7) == 7


@pytest.mark.parametrize("asked", [ASKED, FOR_APPROVAL], ids=lambda fact: fact.type)
async def test_waiting_for_a_person_is_no_work(asked: EventBody) -> None:
    waited = (CREATED, QUEUED, started(1), 5, asked, 1000, RESUMED, ANSWERED, 50, started(2), 3)

    assert await seconds(*waited) == 8
    assert await seconds(*waited, asked, 10_000) == 8


async def test_a_gateway_that_ended_in_the_middle_worked_until_the_last_thing_that_it_recorded() -> None:
    story = (CREATED, QUEUED, started(1), 5, SOMETHING, 2, 3600, (SOMETHING, RECOVERED), 50, started(2), 1)

    assert await seconds(*story) == 6


@pytest.mark.parametrize(
    "rest",
    [
        TaskPaused(by="ann", reason="by you"),
        ASKED,
        TaskFailed(kind="system", code="task.interrupted", message="no", hint=""),
        TaskCancelled(by="ann", reason=""),
    ],
    ids=lambda fact: fact.type,
)
async def test_a_gateway_that_ended_did_not_work_until_the_next_one_let_the_task_rest(rest: EventBody) -> None:
    assert await seconds(CREATED, QUEUED, started(1), 5, SOMETHING, 3600, (SOMETHING, rest), 50) == 5


def test_what_has_not_begun_has_not_worked() -> None:
    assert worked([], datetime(2026, 1, 1, tzinfo=UTC)) == timedelta()


async def test_what_was_handed_over_is_waited_for_and_no_work() -> None:
    assert await seconds(*BEGUN, started(1), 3, HANDED, call("handed"), 1000) == 3
    assert await seconds(*BEGUN, started(1), 3, HANDED, call("handed"), 1000, came("handed"), 4) == 7


@pytest.mark.parametrize(
    "end",
    [
        ToolCallFailed(call_id=CallId("handed"), code="skill.failed", message="no", duration_ms=1),
        ToolCallUncertain(call_id=CallId("handed"), reason="cut off"),
    ],
    ids=lambda fact: fact.type,
)
async def test_however_that_ends_the_task_works_again(end: EventBody) -> None:
    assert await seconds(*BEGUN, started(1), 3, HANDED, call("handed"), 1000, end, 4) == 7


async def test_a_turn_that_is_let_go_of_while_it_waits_for_that_does_not_work_until_it_is_queued_again() -> None:
    let_go = ToolCallCancelled(call_id=CallId("handed"), reason="stopped")

    assert await seconds(*BEGUN, started(1), 3, HANDED, call("handed"), 1000, let_go, 7, (RECOVERED,)) == 3
    assert await seconds(*BEGUN, started(1), 3, HANDED, call("handed"), 1000, let_go, 7, ASKED, 4) == 3


async def test_a_call_of_its_own_beside_it_is_work() -> None:
    both = (*BEGUN, started(1), 3, HANDED, call("handed"), READS, call("reads"), 20, came("reads"))

    assert await seconds(*both) == 23
    assert await seconds(*both, 1000) == 23
    assert await seconds(*both, 1000, came("handed"), 2) == 25


async def test_two_that_were_handed_over_are_both_waited_for() -> None:
    other = requested("other", f"{SKILLS}write")
    both = (*BEGUN, started(1), HANDED, call("handed"), other, call("other"), 500, came("handed"), 500)

    assert await seconds(*both) == 0
    assert await seconds(*both, came("other"), 2) == 2


async def test_a_gateway_that_ended_while_it_waited_for_that_leaves_nothing_behind() -> None:
    story = (*BEGUN, started(1), 3, HANDED, call("handed"), 1000, (RECOVERED,), 50, started(2), 1)

    assert await seconds(*story) == 4
    assert await seconds(*story, call("handed"), 1000, came("handed"), 2) == 6


async def test_the_time_without_a_gateway_is_not_taken_off_where_it_ended_while_it_waited_for_that() -> None:
    again = ToolCallUncertain(call_id=CallId("handed"), reason="cut off", again=True)
    story = (*BEGUN, started(1), 3, HANDED, call("handed"), 1000, (again, RECOVERED), 50, started(2), 1)

    assert await seconds(*story) == 4
