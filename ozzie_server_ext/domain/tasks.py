"""The task's state machine: a pure table, and the fold that applies it."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

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

# Which states a change may leave from. A queued task that is "recovered" was RUNNING when its gateway died; the
# waiting ones stay as they are. FAILED and CANCELLED lead on by retry alone.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One attempt at a task: what a driver holds from `task.started` until the task ends or goes back to the queue.
    `epoch` is the driver's, `attempt` counts from 1 over all drivers."""

    task_id: TaskId
    epoch: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One unit of durable work: a turn, a workflow. `stop_by` is who asked for its end, while that has
    not come; then `reason` is why. `pause_by` is who asked for a pause that has not come."""

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

    def belongs_to(self, claim: Claim) -> bool:
        """Whether `claim` is the latest one and was not given back. It outlives the end of the task: what an attempt
        has still to say of how it let go is its own."""
        given_back = self.status in (TaskStatus.CREATED, TaskStatus.QUEUED)
        return not given_back and (self.epoch, self.attempt) == (claim.epoch, claim.attempt)


class Unheard(Conflict):
    """The task was told something more, which its model has not read: it can't end with that."""

    code = "conflict.unheard"

    def __init__(self) -> None:
        super().__init__("Something more was said to the task before it ended.")


class TurnHeld(Exception):
    """The turn waits for a person, as the log has it. Whoever runs it lets go of it."""


def create(task_id: TaskId, session_id: SessionId | None, fact: TaskCreated) -> Task:
    """The task that `fact` begins."""
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
    """The task after `fact`.

    Raises IllegalTransition where the table does not allow it.
    """
    again = isinstance(fact, TaskCancelRequested) and bool(task.stop_by)
    again |= isinstance(fact, TaskPauseRequested) and fact.wanted is bool(task.pause_by)
    if isinstance(fact, TaskCreated) or task.status not in _FROM[type(fact)] or again:
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
            return replace(task, status=TaskStatus.RUNNING, reason="")
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
