"""`tasks/{task_id}/steps/{step_id}`: one step of a run of a skill in full, for whoever looks at it."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, TypeAlias, cast

from msgspec import Meta

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.errors import InputError, NotFound
from ozzie_server_ext.domain.events import Event, SkillStarted, StepCompleted, StepFailed, StepStarted
from ozzie_server_ext.domain.ids import task_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.gateway.rest.graph_shapes import StepAttempt, StepCall, StepDetail
from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.shapes import TaskId
from ozzie_server_ext.gateway.rest.steps import Steps
from ozzie_server_ext.gateway.rest.task_shapes import Step
from ozzie_server_ext.render.toolrows import main_argument
from ozzie_server_ext.skills.spec import Work
from ozzie_server_ext.skills.templates import as_text, fill, resolve
from ozzie_server_ext.skills.values import Values
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.executor import FailedAttempt, Outcome, Succeeded
from ozzie_server_ext.tasks.held_steps import held_steps
from ozzie_server_ext.tasks.skill_log import LoadedRun, load_run

StepId: TypeAlias = Annotated[
    str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$", title="the id of a step, as its skill has it")
]
MOST_TEXT = 8_000
"""So many characters of an instruction or a result are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStepQuery:
    task_id: TaskId
    step_id: StepId


async def get_run_step(call: Call, asked: RunStepQuery) -> StepDetail:
    """One step of a run of a skill: what is to be done and has to hold, what it was given and gave, and each try."""
    task_id = ids.TaskId(asked.task_id)
    row = await call.ozzie.tasks.get(task_id)
    events = await call.ozzie.log.read_stream(task_stream(task_id))
    started = next((event.body for event in events if isinstance(event.body, SkillStarted)), None)
    planned = next((step for step in started.steps if step.step_id == asked.step_id), None) if started else None
    if planned is None:
        raise NotFound(f"This task has no step {asked.step_id}.", code="task.no_step")
    loaded = await load_run(call.ozzie.log, call.ozzie.blobs, task_id)
    work, values = loaded.run.steps[asked.step_id], loaded.run.values
    attempts = _attempts(events, asked.step_id)
    output = values.outputs.get(asked.step_id)
    value = None if output is None else output.value
    if attempts and attempts[-1].finished_at is None and attempts[-1].task_id:
        attempts[-1], held = await _held(call, row, loaded, asked.step_id, attempts[-1])
        value = held.value if isinstance(held, Succeeded) else value
    result = "" if value is None else as_text(value)
    completed = [each.body for each in events if isinstance(each.body, StepCompleted)]
    accepted = [fact.accepted for fact in completed if fact.step_id == asked.step_id]
    return StepDetail(
        step_id=work.id,
        title=work.name,
        kind=planned.kind,
        instruction=_filled(_instruction(work), values)[:MOST_TEXT],
        acceptance=_filled(work.acceptance or "", values),
        accepted=accepted[-1] if accepted else "",
        input=_given(work, values),
        result=result[:MOST_TEXT],
        is_cut=len(result) > MOST_TEXT,
        attempts=attempts,
        calls=await _calls(call, attempts[-1].task_id) if attempts and attempts[-1].task_id else [],
        call=_made_at_once(events, asked.step_id),
    )


def _instruction(work: Work) -> str:
    """What is to be done, in the words of the skill."""
    if work.call is not None:
        return work.call.tool
    if work.ask is not None:
        return work.ask.question
    if work.approve is not None:
        return work.approve.question
    return work.instruction or work.skill or ""


def _given(work: Work, values: Values) -> Json:
    given: Json = work.call.args if work.call is not None else work.with_ if work.skill is not None else None
    if work.approve is not None and work.approve.show:
        given = {"show": work.approve.show}
    try:
        return resolve(given, values.find)
    except InputError:
        return given


def _filled(text: str, values: Values) -> str:
    """With what is known by now; as the skill has it where that is not enough."""
    try:
        return fill(text, values.find)
    except InputError:
        return text


def _attempts(events: tuple[Event, ...], step_id: str) -> list[StepAttempt]:
    found: list[StepAttempt] = []
    for event in events:
        match event.body:
            case StepStarted() as fact if fact.step_id == step_id:
                attempt = StepAttempt(
                    visit=fact.visit,
                    attempt=fact.attempt,
                    state="Working",
                    message="",
                    started_at=time_text(event.ts),
                    finished_at=None,
                    task_id=str(fact.task or ""),
                )
                found.append(attempt)
            case StepCompleted() | StepFailed() as fact if fact.step_id == step_id and _is_new(fact, found):
                found.append(_attempt_at_once(fact, event.ts))
            case StepCompleted() as fact if fact.step_id == step_id and found:
                done = replace(found[-1], state="Done", message=fact.accepted, finished_at=time_text(event.ts))
                found[-1] = done
            case StepFailed() as fact if fact.step_id == step_id and found:
                failed = replace(found[-1], state="Failed", message=fact.message, finished_at=time_text(event.ts))
                found[-1] = failed
            case _:
                pass
    return found


async def _held(
    call: Call, run: Row, loaded: LoadedRun, step_id: str, attempt: StepAttempt
) -> tuple[StepAttempt, Outcome | None]:
    """The attempt that goes on, as far as it came where the run is held; and what it ended with."""
    log = call.ozzie.log
    rows = await log.rows("tasks", where={"task_id": attempt.task_id}, limit=1)
    row = rows[0] if rows else None
    step = (await held_steps(loaded, run, {step_id: row}, log, call.ozzie.blobs)).get(step_id)
    if step is None:
        return attempt, None
    told = replace(attempt, state="Paused", finished_at=cast("str | None", row["finished_at"]) if row else None)
    match step.outcome:
        case Succeeded() if not step.next:
            told = replace(told, state="Done")
        case FailedAttempt(message=message):
            told = replace(told, state="Failed", message=message)
        case _:
            pass
    return told, step.outcome


def _is_new(fact: StepCompleted | StepFailed, found: list[StepAttempt]) -> bool:
    """Whether the attempt began and ended with this fact (ADR 44)."""
    goes_on = bool(found) and found[-1].finished_at is None
    return fact.call is not None and not goes_on


def _attempt_at_once(fact: StepCompleted | StepFailed, ended: datetime) -> StepAttempt:
    assert fact.call is not None
    return StepAttempt(
        visit=fact.visit,
        attempt=fact.attempt,
        state="Done" if isinstance(fact, StepCompleted) else "Failed",
        message=fact.accepted if isinstance(fact, StepCompleted) else fact.message,
        started_at=time_text(ended - timedelta(milliseconds=fact.call.duration_ms)),
        finished_at=time_text(ended),
        task_id="",
    )


def _made_at_once(events: tuple[Event, ...], step_id: str) -> StepCall | None:
    """The call of the latest attempt, where it had no task."""
    facts = [each.body for each in events if isinstance(each.body, StepStarted | StepCompleted | StepFailed)]
    mine = [fact for fact in facts if fact.step_id == step_id]
    last = mine[-1] if mine else None
    if not isinstance(last, StepCompleted | StepFailed) or last.call is None:
        return None
    made = last.call
    return StepCall(
        name=made.name,
        args=made.args,
        argument=main_argument(made.args),
        duration_ms=made.duration_ms,
        rule=made.rule,
        summary=made.summary,
    )


async def _calls(call: Call, task_id: str) -> list[Step]:
    """Those of models and tools in the task that carries out the step."""
    steps = Steps()
    for event in await call.ozzie.log.read_stream(task_stream(ids.TaskId(task_id))):
        steps.take(event)
    return steps.all()
