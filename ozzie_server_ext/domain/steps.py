"""The state machine of a step: a pure table, and the fold that applies it."""

from enum import StrEnum
from typing import assert_never

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.events import StepCompleted, StepFact, StepFailed, StepSkipped, StepStarted
from ozzie_server_ext.domain.ids import TaskId


class StepStatus(StrEnum):
    WAITING = "WAITING"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    """An attempt failed, and the next one has not begun."""
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


SETTLED = frozenset({StepStatus.COMPLETED, StepStatus.FAILED, StepStatus.SKIPPED})

_FROM: dict[type[StepFact], frozenset[StepStatus]] = {
    StepStarted: frozenset({StepStatus.WAITING, StepStatus.RETRYING}),
    StepCompleted: frozenset({StepStatus.RUNNING}),
    StepFailed: frozenset({StepStatus.RUNNING}),
    StepSkipped: frozenset({StepStatus.WAITING}),
}


class IllegalStep(Conflict):
    """The step's state does not allow this change."""

    code = "conflict.step"

    def __init__(self, step_id: str, status: str, change: str) -> None:
        super().__init__(f'The step "{step_id}" is {status.lower()}, and can\'t take {change}.')
        self.step_id, self.status, self.change = step_id, status, change


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a step at one visit. `task` carries out its latest attempt, if that has its own task; `event` is
    what it ended with, `to` the state that this leads to; `message` says why it failed or was skipped."""

    step_id: str
    visit: int = 1
    attempt: int = 0
    status: StepStatus = StepStatus.WAITING
    task: TaskId | None = None
    event: str = ""
    to: str = ""
    message: str = ""

    @property
    def is_settled(self) -> bool:
        return self.status in SETTLED


def fold(step: StepRecord, fact: StepFact) -> StepRecord:
    """Return the step after `fact`. Raises IllegalStep if the table does not allow it, or if it is about another
    attempt."""
    at_once = (
        isinstance(fact, StepCompleted | StepFailed) and fact.call is not None and step.status in _FROM[StepStarted]
    )
    allowed = at_once or step.status in _FROM[type(fact)]
    attempt = step.attempt + 1 if at_once or isinstance(fact, StepStarted) else step.attempt
    is_current = isinstance(fact, StepSkipped) or fact.attempt == attempt
    if (fact.step_id, fact.visit) != (step.step_id, step.visit) or not allowed or not is_current:
        raise IllegalStep(step.step_id, step.status, fact.type)
    match fact:
        case StepStarted():
            return replace(step, status=StepStatus.RUNNING, attempt=fact.attempt, task=fact.task, message="")
        case StepCompleted():
            return replace(step, status=StepStatus.COMPLETED, attempt=attempt, event=fact.event, to=fact.to)
        case StepFailed():
            status = StepStatus.FAILED if fact.again_in_s is None else StepStatus.RETRYING
            return replace(step, status=status, attempt=attempt, message=fact.message, event="failed", to=fact.to)
        case StepSkipped():
            return replace(step, status=StepStatus.SKIPPED, message=fact.reason)
        case _:
            assert_never(fact)
