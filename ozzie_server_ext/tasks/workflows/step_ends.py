"""Outcomes of steps by the ends of their tasks in the log, for a run that records them and for views of a paused
run."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import (
    ApprovalRejected,
    Event,
    MessageCompleted,
    SkillCompleted,
    ToolCallCompleted,
    content_of,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.steps import StepStatus
from ozzie_server_ext.domain.tasks import FINAL, TaskStatus
from ozzie_server_ext.protocol.answers import value_of
from ozzie_server_ext.protocol.jsontext import loads
from ozzie_server_ext.skills.checks import APPROVED, FAILED, REJECTED
from ozzie_server_ext.skills.run import FsmRun, WorkflowRun
from ozzie_server_ext.skills.spec import RetryPolicy, Skill, State, Step, Work
from ozzie_server_ext.skills.templates import Output
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.tasks import task_from
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.workflows.executor import Facts, FailedAttempt, Succeeded
from ozzie_server_ext.tasks.workflows.skill_log import STOPPED, LoadedRun

RETRIED_KINDS = frozenset({"model", "parse"})


def failed_by(error: OzzieError, content: Content, *, facts: Facts = ()) -> FailedAttempt:
    """Return the failure by an error. `content` is the provenance of its message; `facts`: see `Succeeded`."""
    return FailedAttempt(
        kind="business", code=error.code, message=str(error), hint=error.hint, content=content, facts=facts
    )


async def outcome_of(row: Row, work: Work, log: EventLog, blobs: BlobStore) -> Succeeded | FailedAttempt:
    """Return the outcome of an attempt by its ended task, without a check of the acceptance criterion."""
    events = await log.read_stream(task_stream(TaskId(str(row["task_id"]))))
    if row["status"] != TaskStatus.SUCCEEDED:
        return _failed(row, events, work)
    return await _result(events, work, blobs)


def taken_in(
    run: WorkflowRun | FsmRun, work: Work, outcome: Succeeded | FailedAttempt
) -> tuple[Succeeded | FailedAttempt, str]:
    """Return an outcome as the run records it, and the state that it leads to. A rejection is a failure of a step, and
    so is a result from which the next state can't be determined."""
    content = outcome.content
    if isinstance(outcome, Succeeded) and outcome.event == REJECTED and isinstance(work, Step) and not work.wait:
        comment = outcome.value.get("comment", "") if isinstance(outcome.value, dict) else ""
        message = f"It was rejected. {comment}".strip()
        outcome = FailedAttempt(kind="business", code="approval.rejected", message=message, content=content)
    try:
        return outcome, _leads_to(run, work, outcome)
    except OzzieError as error:
        content |= run.values.all_content  # the error of a condition quotes values
        return failed_by(error, content, facts=outcome.facts), ""


def tried_again(skill: Skill, work: Work, attempt: int, outcome: FailedAttempt) -> RetryPolicy | None:
    """Return the policy by which a failed step is retried; None if it is not."""
    policy = work.retry_policy or skill.retry_policy or RetryPolicy()
    return policy if outcome.may_retry and attempt < policy.max_attempts else None


def _leads_to(run: WorkflowRun | FsmRun, work: Work, outcome: Succeeded | FailedAttempt) -> str:
    if not isinstance(run, FsmRun) or not isinstance(work, State):
        return ""
    if isinstance(outcome, FailedAttempt):
        return run.leads_to(work, FAILED)
    return run.leads_to(work, outcome.event, Output(outcome.value, outcome.content))


async def _result(events: Iterable[Event], work: Work, blobs: BlobStore) -> Succeeded:
    value, content = None, CLEAN
    for event in events:
        match event.body:
            case SkillCompleted(output=output, blob=blob) if work.skill is not None:
                value = output if blob is None else loads(await blobs.get(blob))
            case ToolCallCompleted(data=data) if work.skill is None and work.instruction is None:
                value = data
            case MessageCompleted(text=text) if work.instruction is not None:
                value = text
            case _:
                continue
        content = event.content
    if work.approve is not None:
        return Succeeded(value={"approved": True, "comment": ""}, content=content, event=APPROVED)
    if work.ask is not None and isinstance(value, dict):
        value = value.get("answer")
    if work.output_model is not None and isinstance(value, str):
        value = value_of(value)
    return Succeeded(value=value, content=content)


def _failed(row: Row, events: Sequence[Event], work: Work) -> Succeeded | FailedAttempt:
    content = content_of(events)
    for event in events:
        if isinstance(event.body, ApprovalRejected) and work.approve is not None:
            value: Json = {"approved": False, "comment": event.body.comment}
            return Succeeded(value=value, content=content, event=REJECTED)
    if row["status"] == TaskStatus.CANCELLED:
        return FailedAttempt(kind="business", code=STOPPED, message="It was stopped.", content=content)
    kind = str(row["error_kind"] or "system")
    return FailedAttempt(
        kind=kind if kind in ("model", "parse", "tool", "business") else "system",
        code=str(row["error_code"] or ""),
        message=str(row["error_message"] or ""),
        content=content,
        hint=str(row["error_hint"] or ""),
        may_retry=kind in RETRIED_KINDS or row["error_code"] == "answer.unfit",
    )


class HeldStep(msgspec.Struct, frozen=True, kw_only=True):
    """A started step of a run that does not record its end. `outcome` is that of its task, or None if the task is
    paused or was never created; `next` is what the run will still do with the step."""

    outcome: Succeeded | FailedAttempt | None
    next: Literal["", "check", "retry"] = ""


def may_be_held(run: Row, step: Row | None) -> bool:
    """Whether a step that is running by the run's records may not be. `step` is the row of its task, if it was
    created."""
    if step is None:
        return run["status"] == TaskStatus.PAUSED
    is_driven = run["status"] == TaskStatus.RUNNING and not task_from(run).is_unclaimed
    return step["status"] == TaskStatus.PAUSED or (not is_driven and step["status"] in FINAL)


async def held_steps(
    loaded: LoadedRun, run: Row, tasks: Mapping[str, Row | None], log: EventLog, blobs: BlobStore
) -> dict[str, HeldStep]:
    """Return the steps that are paused, or have ended without the run recording it, with the outcomes that it will
    record. `tasks` are the rows of the latest attempts by step id."""
    found: dict[str, HeldStep] = {}
    for step_id, row in tasks.items():
        record = loaded.run.records.get(step_id)
        if record is None or record.task is None or record.is_settled or not may_be_held(run, row):
            continue
        if record.status is StepStatus.RETRYING:
            failed = FailedAttempt(kind="business", code="", message=record.message, content=CLEAN)
            found[step_id] = HeldStep(outcome=failed, next="retry")
            continue
        if row is None or row["status"] == TaskStatus.PAUSED:
            found[step_id] = HeldStep(outcome=None)
            continue
        work = loaded.run.steps[step_id]
        outcome, _ = taken_in(loaded.run, work, await outcome_of(row, work, log, blobs))
        if isinstance(outcome, Succeeded):
            found[step_id] = HeldStep(outcome=outcome, next="check" if work.acceptance else "")
        else:
            again = tried_again(loaded.skill, work, record.attempt, outcome)
            found[step_id] = HeldStep(outcome=outcome, next="retry" if again else "")
    return found
