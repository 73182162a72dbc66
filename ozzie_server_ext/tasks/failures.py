"""Failures of tasks and steps: their class, message and next step."""

from collections.abc import Iterable

import msgspec

from ozzie_server_ext.agent.rounds import LimitExceeded
from ozzie_server_ext.agent.structured_output import UnfitAnswer
from ozzie_server_ext.domain.errors import OzzieError, PolicyError
from ozzie_server_ext.domain.events import (
    Event,
    FailureKind,
    SkillFailed,
    SkillStarted,
    StepFailed,
    StepStarted,
    TaskFailed,
)
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.models.driver import MAX_DETAIL_CHARS, ModelError
from ozzie_server_ext.tools.base import ToolFailed, ToolUncertain

NEXT_STEPS: dict[str, str] = {
    "model": "Try it again, or choose another model with %model.",
    "parse": "Try it again, choose another model with %model, or ask for a simpler answer.",
    "tool": "Check the tool's arguments and its error, fix that, then try it again.",
    "business": "Say it differently, or ask for less, then try it again.",
    "system": "Try it again. The folder logs/app has the details for a bug report.",
}
"""The hints for failures without their own."""


class SkillFailedError(OzzieError):
    """The run of a skill failed; `kind` is the class of the cause."""

    code = "skill.failed"

    def __init__(self, message: str, *, hint: str, kind: FailureKind = "business", code: str | None = None) -> None:
        super().__init__(message, hint=hint, code=code)
        self.kind: FailureKind = kind


class FailedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A failed step of a run. `task` carried out its last attempt, if that had its own task."""

    step_id: str
    title: str
    task: TaskId | None
    kind: FailureKind
    code: str
    message: str
    hint: str


def class_of(error: OzzieError) -> FailureKind:
    """Return the cause of a failure: the model, its answer, a tool, the request, or Ozzie itself."""
    match error:
        case SkillFailedError():
            return error.kind
        case UnfitAnswer():
            return "parse"
        case ToolUncertain() | ToolFailed():
            return "tool"
        case LimitExceeded() | PolicyError():
            return "business"
        case ModelError():
            return "model"
        case _:
            return "model" if error.code.startswith(("provider.", "model.")) else "system"


def failure(error: OzzieError) -> TaskFailed:
    """Return the end of a task by an error."""
    detail = error.detail[:MAX_DETAIL_CHARS] if isinstance(error, ModelError) else ""
    return TaskFailed(kind=class_of(error), code=error.code, message=str(error), hint=error.hint, detail=detail)


def failed_steps(events: Iterable[Event]) -> list[FailedStep]:
    """Return the failed steps of a run that have not started again, by the run's events; the cause of its end first."""
    found: dict[str, FailedStep] = {}
    titles: dict[str, str] = {}
    tasks: dict[str, TaskId | None] = {}
    for event in events:
        match event.body:
            case SkillStarted(steps=steps):
                titles = {step.step_id: step.title or step.step_id for step in steps}
            case StepStarted(step_id=step_id, task=task):
                tasks[step_id] = task
                found.pop(step_id, None)
            case StepFailed(again_in_s=None, to="") as fact:
                found[fact.step_id] = FailedStep(
                    step_id=fact.step_id,
                    title=titles.get(fact.step_id, fact.step_id),
                    task=tasks.get(fact.step_id),
                    kind=fact.kind,
                    code=fact.code,
                    message=fact.message,
                    hint=fact.hint or NEXT_STEPS[fact.kind],
                )
            case SkillFailed(step_id=step_id) if step_id in found:
                found = {step_id: found[step_id], **found}
            case _:
                pass
    return list(found.values())
