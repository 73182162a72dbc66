"""The class of a failure, its cause, and the next step."""

from collections.abc import Iterable
from dataclasses import dataclass

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
from ozzie_server_ext.models.driver import ModelError
from ozzie_server_ext.tools.base import ToolFailed, ToolUncertain

MAX_DETAIL_CHARS = 2000
NEXT_STEPS: dict[str, str] = {
    "model": "Try it again, or choose another model with %model.",
    "parse": "Try it again, choose another model with %model, or ask for a simpler answer.",
    "tool": "Look at what the tool was given and what it said, mend that, then try it again.",
    "business": "Say it differently, or ask for less, then try it again.",
    "system": "Try it again. The folder logs/app has the details for a bug report.",
}
"""What to do where the failure itself does not say it."""


class SkillFailedError(OzzieError):
    """The run of a skill did not come to its result; `kind` is the class of what it failed by."""

    code = "skill.failed"

    def __init__(self, message: str, *, hint: str, kind: FailureKind = "business", code: str | None = None) -> None:
        super().__init__(message, hint=hint, code=code)
        self.kind: FailureKind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedStep:
    """A step that a run failed by, as it stands; `task` carried out its last attempt, where that was one of its own."""

    step_id: str
    title: str
    task: TaskId | None
    kind: FailureKind
    code: str
    message: str
    hint: str


def class_of(error: OzzieError) -> FailureKind:
    """Whose failure it is: the model's, what it wrote, a tool's, what was asked for, or Ozzie's own."""
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
    """The end of a task by that error."""
    detail = error.detail[:MAX_DETAIL_CHARS] if isinstance(error, ModelError) else ""
    return TaskFailed(kind=class_of(error), code=error.code, message=str(error), hint=error.hint, detail=detail)


def failed_steps(events: Iterable[Event]) -> list[FailedStep]:
    """The steps of a run of these events that failed, and have not been begun again."""
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
                found = {step_id: found[step_id], **found}  # the one that ended it comes first
            case _:
                pass
    return list(found.values())
