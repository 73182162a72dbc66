"""After a restart nothing is lost, and what keeps killing the gateway is given up (TK-2)."""

import pytest

from ozzie_server_ext.domain.events import (
    Draft,
    Limits,
    TaskCreated,
    TaskFailed,
    TaskPaused,
    TaskQueued,
    TaskStarted,
    TaskSucceeded,
    TaskWaitingApproval,
)
from ozzie_server_ext.domain.ids import MessageId, SessionId, TaskId, task_stream
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.recovery import MAX_ATTEMPTS, recover
from tests.unit.tasks.rig import Gate, TaskRig

CREATED = TaskCreated(title="t", mode="FREE", message_id=MessageId("m"), limits=Limits())
QUEUED = TaskQueued(reason="created")


class Taken:
    """A runner that only notes what it is given."""

    def __init__(self) -> None:
        self.tasks: list[str] = []

    def enqueue(self, task_id: TaskId, session_id: SessionId) -> int:
        self.tasks.append(task_id)
        return 0

    def interrupt(self, task_id: TaskId, by: str, reason: str) -> SessionId | None:
        return None


@pytest.fixture
def log() -> InMemoryEventLog:
    return InMemoryEventLog(FakeClock(), CountingIds())


async def left(log: InMemoryEventLog, task: str, *bodies: object) -> None:
    """A task as a dead gateway left it."""
    drafts = [
        Draft(body=body, actor="kernel", source="hub", session_id=SessionId("s1"), task_id=TaskId(task))  # pyright: ignore[reportArgumentType]
        for body in bodies
    ]
    await log.append(task_stream(TaskId(task)), drafts)


async def status(log: InMemoryEventLog, task: str) -> object:
    (row,) = await log.rows("tasks", where={"task_id": task})
    return row["status"]


async def test_whatever_was_unfinished_is_taken_up_in_the_order_it_was_created(log: InMemoryEventLog) -> None:
    await left(log, "a-running", CREATED, QUEUED, TaskStarted(attempt=1, epoch="old"))
    await left(log, "b-created", CREATED)
    await left(log, "c-queued", CREATED, QUEUED)
    await left(log, "d-running", CREATED, QUEUED, TaskStarted(attempt=1, epoch="old"))
    runner = Taken()

    assert await recover(log, runner) == 4

    assert sorted(runner.tasks) == ["a-running", "b-created", "c-queued", "d-running"]
    assert runner.tasks == sorted(runner.tasks), "a session's turns must not change places"
    assert [await status(log, task) for task in runner.tasks] == ["QUEUED"] * 4
    reasons = [(await log.read_stream(task_stream(TaskId(task))))[-1].body for task in runner.tasks]
    assert reasons == [TaskQueued(reason="recovered")] * 2 + [QUEUED] + [TaskQueued(reason="recovered")]


async def test_what_waits_for_a_person_or_has_ended_stays_as_it_is(log: InMemoryEventLog) -> None:
    started = TaskStarted(attempt=1, epoch="old")
    await left(log, "asked", CREATED, QUEUED, started, TaskWaitingApproval(approval_id="a"))
    await left(log, "paused", CREATED, QUEUED, started, TaskPaused(by="ann", reason="lunch"))
    await left(log, "done", CREATED, QUEUED, started, TaskSucceeded(rounds=1))
    head = await log.head()
    runner = Taken()

    assert await recover(log, runner) == 0

    assert runner.tasks == []
    assert await log.head() == head


@pytest.mark.parametrize("attempts", range(1, MAX_ATTEMPTS + 2))
async def test_a_turn_that_ran_at_each_of_three_deaths_is_given_up(log: InMemoryEventLog, attempts: int) -> None:
    await left(log, "t", CREATED, QUEUED, TaskStarted(attempt=attempts, epoch="old"))
    runner = Taken()

    taken = await recover(log, runner)

    last = (await log.read_stream("task:t"))[-1].body
    if attempts < MAX_ATTEMPTS:
        assert (taken, runner.tasks, last) == (1, ["t"], TaskQueued(reason="recovered"))
    else:
        assert (taken, runner.tasks) == (0, [])
        assert isinstance(last, TaskFailed)
        assert (last.code, "Your message is kept." in last.hint) == ("task.interrupted", True)


async def test_a_gateway_that_dies_again_and_again_ends_the_turn_after_three_times() -> None:
    rig = TaskRig()
    rig.turns["deadly"] = Gate()
    sent = await rig.submit("deadly")
    for _ in range(MAX_ATTEMPTS + 1):
        if await rig.reach(sent.task_id, "RUNNING", "FAILED") == "FAILED":
            break
        await rig.driver.stop()
        rig = TaskRig(rig.log)
        rig.turns["deadly"] = Gate()
        await recover(rig.log, rig.driver)

    assert await rig.status(sent.task_id) == "FAILED"
    starts = [body for body in await rig.bodies(sent.task_id) if isinstance(body, TaskStarted)]
    assert [body.attempt for body in starts] == [1, 2, 3]
