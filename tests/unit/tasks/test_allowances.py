"""How long a task has worked, by its events."""

from datetime import UTC, datetime, timedelta

import pytest

from ozzie_server_ext.domain.events import (
    Draft,
    EventBody,
    Limits,
    TaskCreated,
    TaskQueued,
    TaskResumed,
    TaskStarted,
    TaskWaitingApproval,
    TaskWaitingInput,
    ToolsetInjected,
)
from ozzie_server_ext.domain.ids import ApprovalId, MessageId, TaskId, task_stream
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.allowances import worked

TASK = TaskId("t")
CREATED = TaskCreated(title="t", mode="FREE", message_id=MessageId("m"), limits=Limits())
QUEUED = TaskQueued(reason="created")
ASKED = TaskWaitingInput(question="More?")
FOR_APPROVAL = TaskWaitingApproval(approval_id=ApprovalId("a"))
RESUMED = TaskResumed(by="ann")
ANSWERED = TaskQueued(reason="answered")
RECOVERED = TaskQueued(reason="recovered")
SOMETHING = ToolsetInjected(tools=())


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


def test_what_has_not_begun_has_not_worked() -> None:
    assert worked([], datetime(2026, 1, 1, tzinfo=UTC)) == timedelta()
