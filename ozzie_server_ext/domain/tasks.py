"""The task's state machine: a pure table, and the fold that applies it."""

from enum import StrEnum
from typing import assert_never

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.errors import Conflict, IllegalTransition
from ozzie_server_ext.domain.events import (
    Limits,
    TaskCancelled,
    TaskCancelRequested,
    TaskCreated,
    TaskFact,
    TaskFailed,
    TaskPaused,
    TaskPauseRequested,
    TaskQueued,
    TaskResumed,
    TaskRetried,
    TaskStarted,
    TaskSucceeded,
    TaskWaitingApproval,
    TaskWaitingInput,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId


class TaskStatus(StrEnum):
    CREATED = "CREATED"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    WAITING_INPUT = "WAITING_INPUT"
    WAITING_APPROVAL = "WAITING_APPROVAL"
    PAUSED = "PAUSED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


FINAL = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.CANCELLED})
OPEN = frozenset(TaskStatus) - FINAL
HELD = frozenset({TaskStatus.WAITING_INPUT, TaskStatus.WAITING_APPROVAL, TaskStatus.PAUSED})

# The states that each change may start from. A task is queued as "recovered" if it was RUNNING when its gateway died;
# waiting tasks keep their state. FAILED and CANCELLED can only be retried. A resumed task is RUNNING before a driver
# has started it, so that it can be started too.
_FROM: dict[type[TaskFact], frozenset[TaskStatus]] = {
    TaskQueued: frozenset({TaskStatus.CREATED, TaskStatus.RUNNING}),
    TaskStarted: frozenset({TaskStatus.QUEUED}),
    TaskCancelRequested: frozenset({TaskStatus.QUEUED, TaskStatus.RUNNING}),
    TaskWaitingApproval: frozenset({TaskStatus.RUNNING}),
    TaskWaitingInput: frozenset({TaskStatus.RUNNING}),
    TaskPauseRequested: OPEN - {TaskStatus.CREATED, TaskStatus.PAUSED},
    TaskPaused: frozenset({TaskStatus.RUNNING}),
    TaskResumed: HELD,
    TaskRetried: frozenset({TaskStatus.FAILED, TaskStatus.CANCELLED}),
    TaskSucceeded: frozenset({TaskStatus.RUNNING}),
    TaskFailed: OPEN,
    TaskCancelled: OPEN,
}


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A driver's claim on a task, from `task.started` until the task returns to the queue. Each start has an
    `epoch` of its own, a ULID; `attempt` counts from 1 and only a retry raises it."""

    task_id: TaskId
    epoch: str
    attempt: int


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One unit of durable work: a turn or a run of a skill. `stop_by` and `pause_by` name who requested a cancellation
    or a pause that has not taken effect yet; `reason` is why it was cancelled, or is about to be."""

    task_id: TaskId
    session_id: SessionId | None
    status: TaskStatus
    title: str
    mode: str
    limits: Limits
    attempt: int
    epoch: str
    reason: str
    stop_by: str = ""
    pause_by: str = ""

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    @property
    def is_unclaimed(self) -> bool:
        """Whether it may run and no driver has started it."""
        return self.status is TaskStatus.QUEUED or (self.status is TaskStatus.RUNNING and not self.epoch)

    def belongs_to(self, claim: Claim) -> bool:
        """Whether `claim` is the latest and was not given back. It stays valid while the task waits and after its end,
        so that an attempt can still record its cleanup."""
        given_back = self.status in (TaskStatus.CREATED, TaskStatus.QUEUED)
        return not given_back and (self.epoch, self.attempt) == (claim.epoch, claim.attempt)


class UnreadUpdate(Conflict):
    """The task can't end yet: its model has not read the latest update."""

    code = "conflict.unheard"

    def __init__(self) -> None:
        super().__init__("The task got an update before it ended.")


class TaskHeld(Exception):
    """The task waits for a person or a signal, or is paused, as recorded in the log. Its runner must stop without
    ending it."""


def create(task_id: TaskId, session_id: SessionId | None, fact: TaskCreated) -> Task:
    """Return the task that `fact` creates."""
    return Task(
        task_id=task_id,
        session_id=session_id,
        status=TaskStatus.CREATED,
        title=fact.title,
        mode=fact.mode,
        limits=fact.limits,
        attempt=0,
        epoch="",
        reason="",
    )


def fold(task: Task, fact: TaskFact) -> Task:
    """Return the task after `fact`. Raises IllegalTransition if the table does not allow it."""
    is_repeated = isinstance(fact, TaskCancelRequested) and bool(task.stop_by)
    is_repeated |= isinstance(fact, TaskPauseRequested) and fact.wanted is bool(task.pause_by)
    is_resumed = isinstance(fact, TaskStarted) and task.is_unclaimed
    if isinstance(fact, TaskCreated) or not (is_resumed or task.status in _FROM[type(fact)]) or is_repeated:
        raise IllegalTransition(task.status, fact.type)
    match fact:
        case TaskQueued():
            return replace(task, status=TaskStatus.QUEUED, reason=fact.reason)
        case TaskStarted():
            reason = task.reason if task.stop_by else ""
            return replace(task, status=TaskStatus.RUNNING, attempt=fact.attempt, epoch=fact.epoch, reason=reason)
        case TaskCancelRequested():
            return replace(task, stop_by=fact.by, reason=fact.reason)
        case TaskWaitingApproval():
            return replace(task, status=TaskStatus.WAITING_APPROVAL)
        case TaskWaitingInput():
            return replace(task, status=TaskStatus.WAITING_INPUT, reason=fact.question)
        case TaskPauseRequested():
            return replace(task, pause_by=fact.by if fact.wanted else "")
        case TaskPaused():
            return replace(task, status=TaskStatus.PAUSED, reason=fact.reason, pause_by="")
        case TaskResumed():
            return replace(task, status=TaskStatus.RUNNING, reason="", epoch="")
        case TaskRetried():
            limits = fact.limits or task.limits
            return replace(task, status=TaskStatus.QUEUED, attempt=fact.attempt, reason="retried", limits=limits)
        case TaskSucceeded():
            return replace(task, status=TaskStatus.SUCCEEDED, reason="", stop_by="", pause_by="")
        case TaskFailed():
            return replace(task, status=TaskStatus.FAILED, reason=fact.message, stop_by="", pause_by="")
        case TaskCancelled():
            return replace(task, status=TaskStatus.CANCELLED, reason=fact.reason, stop_by="", pause_by="")
        case _:
            assert_never(fact)


def may_become(status: TaskStatus, change: type[TaskFact]) -> bool:
    """Whether a task in `status` can take a fact of class `change`."""
    return change is not TaskCreated and status in _FROM[change]
