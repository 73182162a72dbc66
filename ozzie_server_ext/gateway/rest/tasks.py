"""`tasks`: list, show, stop, pause, answer, retry, update."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.events import Event, MessageReceived, PromptRequested, TaskCreated, TaskUpdated
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.tasks import OPEN, TaskStatus
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest import shapes
from ozzie_server_ext.gateway.rest.shapes import (
    AnswerName,
    Done,
    EventKey,
    EventName,
    Limit,
    NotebookPath,
    Page,
    PromptId,
    SessionId,
    TaskCursor,
    TaskId,
    TokenUsage,
    UpdateText,
    Words,
)
from ozzie_server_ext.gateway.rest.steps import Steps
from ozzie_server_ext.gateway.rest.task_shapes import (
    AnswerOption,
    FailedStep,
    Failure,
    Pointers,
    Question,
    Requester,
    Task,
    TaskBudget,
    TaskRetried,
    TaskState,
    TaskTold,
    TaskWithSteps,
    WaitingStep,
)
from ozzie_server_ext.protocol.answers import value_in
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.render.turnfold import fold, new_turn
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks import failures
from ozzie_server_ext.tasks.answers import ALL_SCOPES, OWN_SCOPES
from ozzie_server_ext.tasks.failures import NEXT_STEPS, failed_steps
from ozzie_server_ext.tasks.rows import above, limits_of, run_of, waiting_below
from ozzie_server_ext.tasks.signals import awaited
from ozzie_server_ext.tools.questions import MOST_TEXT, Prompts

_PAGE = 500


class TasksQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`notebook`: only tasks of this notebook's current session. `parent`: only tasks delegated by this one, such as
    the steps of a run; `all`: delegated tasks too."""

    status: tuple[TaskState, ...] = ()
    parent: TaskId | None = None
    all: bool = False
    session_id: SessionId | None = None
    notebook: NotebookPath | None = None
    limit: Limit = 50
    cursor: TaskCursor | None = None


async def list_tasks(call: Call, request: TasksQuery) -> Page[Task]:
    """List tasks that nobody delegated, newest first. `status` may be repeated."""
    session_id = None if request.session_id is None else ids.SessionId(request.session_id)
    if request.notebook is not None:
        held = await _session_of(call, request.notebook)
        if held is None or session_id not in (None, held):
            return Page(items=[], next=None)
        session_id = held
    rows = await call.ozzie.tasks.list(
        limit=request.limit + 1,
        after=None if request.cursor is None else ids.TaskId(request.cursor),
        session_id=session_id,
        statuses=[TaskStatus(status) for status in request.status],
        parent=None if request.parent is None else ids.TaskId(request.parent),
        with_delegated=request.all,
    )
    told = await _Told.of(call.ozzie.log, rows, call.ozzie.prompts)
    return shapes.page(rows, request.limit, lambda row: Task(**told.fields(row)), lambda row: row["task_id"])


class TaskQuery(msgspec.Struct, frozen=True, kw_only=True):
    task_id: TaskId


async def get_task(call: Call, request: TaskQuery) -> TaskWithSteps:
    """Show one task with its steps."""
    return await task_with_steps(call, ids.TaskId(request.task_id))


class TaskCancel(msgspec.Struct, frozen=True, kw_only=True):
    """`reason` is kept with the task."""

    task_id: TaskId
    reason: Words = ""


async def cancel_task(call: Call, request: TaskCancel) -> Done:
    """Stop a task, running or waiting."""
    await call.ozzie.tasks.cancel(ids.TaskId(request.task_id), by=call.principal.name, reason=request.reason)
    return Done()


class TaskAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`option` is one of the question's options, by name or label; `amount` replaces the amount it offers, and `text`
    goes with an option that takes text. If `prompt_id` is not the current question, nothing is answered."""

    task_id: TaskId
    option: AnswerName
    amount: Annotated[int, Meta(ge=1, le=10**15)] | None = None
    text: Annotated[str, Meta(max_length=MOST_TEXT)] = ""
    prompt_id: PromptId | None = None


async def answer_task(call: Call, request: TaskAnswer) -> Done:
    """Answer a task's question. The first answer counts."""
    await call.ozzie.answers.answer(
        ids.TaskId(request.task_id),
        request.option,
        by=call.principal.name,
        prompt_id=None if request.prompt_id is None else ids.PromptId(request.prompt_id),
        amount=request.amount,
        text=request.text,
        scopes=ALL_SCOPES if call.principal.session_id is None else OWN_SCOPES,
    )
    return Done()


async def task_with_steps(call: Call, task_id: ids.TaskId) -> TaskWithSteps:
    """Return all that is known of a task. Raises NotFound."""
    row = await call.ozzie.tasks.get(task_id)
    request = await call.ozzie.answers.question(task_id)
    view, steps, content, is_value = new_turn(task_id=task_id), Steps(), "", False
    events = [event async for event in events_of(call.ozzie.log, task_id)]
    for event in events:
        view = fold(view, event.type, encode(event.body), event.ts)
        steps.take(event)
        if isinstance(event.body, MessageReceived):
            content = event.body.text
        elif isinstance(event.body, TaskCreated):
            is_value = event.body.answer_schema is not None
    return TaskWithSteps(
        **(await _Told.of(call.ozzie.log, [row], call.ozzie.prompts)).fields(row),
        content=content,
        text=view.text,
        answer=value_in(view.last_text) if is_value and view.status == "Done" else None,
        steps=steps.all(),
        question=None if request is None else _question(request.prompt),
        updates=[event.body.text for event in events if isinstance(event.body, TaskUpdated)],
        failed_steps=[_failed_step(step) for step in failed_steps(events)] if row["status"] == "FAILED" else [],
        waits_for=awaited(events) if row["mode"] == "GRAPH" and TaskStatus(str(row["status"])) in OPEN else [],
    )


def _failed_step(step: failures.FailedStep) -> FailedStep:
    error = Failure(kind=step.kind, code=step.code, message=step.message, hint=step.hint)
    return FailedStep(step_id=step.step_id, title=step.title, task_id=step.task, error=error)


def _question(prompt: PromptRequested) -> Question:
    return Question(
        prompt_id=prompt.prompt_id,
        kind=prompt.kind,
        question=prompt.question,
        notes=list(prompt.notes),
        options=[
            AnswerOption(
                name=option.name,
                label=option.label,
                help=option.help,
                amount=option.amount,
                unit=option.unit,
                takes_text=option.takes_text,
            )
            for option in prompt.options
        ],
    )


async def events_of(log: EventLog, task_id: ids.TaskId) -> AsyncIterator[Event]:
    """Return the task's events, in order."""
    position = 0
    while found := await log.read(after=position, limit=_PAGE, task_id=task_id):
        for event in found:
            yield event
        position = found[-1].position


async def _session_of(call: Call, notebook: str) -> ids.SessionId | None:
    """Return the current session of the notebook at this path of the contents API, or None."""
    root = call.principal.root or call.ozzie.projects.own.root
    return await call.ozzie.sessions.holder(f"notebook:{os.path.join(root, notebook)}")


class _Told(msgspec.Struct, frozen=True):
    """Return what the rows of the table `tasks` lack: the cell of each message, the tasks above each task, the tasks
    below that wait for a person, and the latest checkpoint of each run."""

    cells: Mapping[str, str]
    chains: Mapping[str, Sequence[Row]]
    waiting: Mapping[str, Sequence[Row]]
    checkpoints: Mapping[str, str]
    prompts: Prompts

    @classmethod
    async def of(cls, log: EventLog, rows: Sequence[Row], prompts: Prompts) -> "_Told":
        messages: list[Json] = [row["message_id"] for row in rows]
        found = await log.rows("messages", where={"message_id": messages}) if messages else []
        cells = {str(row["message_id"]): str(row["cell_id"]) for row in found}
        checkpoints: dict[str, str] = {}
        for row in rows:
            if row["mode"] == "GRAPH":
                of_run = {"task_id": row["task_id"]}
                latest = await log.rows("checkpoints", where=of_run, order_by="position", descending=True, limit=1)
                checkpoints |= {str(each["task_id"]): str(each["checkpoint_id"]) for each in latest}
        return cls(cells, await above(log, rows), await waiting_below(log), checkpoints, prompts)

    def fields(self, row: Row) -> dict[str, Any]:
        """Return a row as clients see it."""
        values = cast("dict[str, Any]", row)
        same = (
            "task_id session_id status title mode attempt reason created_at updated_at finished_at channel sender_id "
            "risk_level model rounds tool_calls parent_id thread_id scope_id"
        )
        limits = limits_of(row)
        below = cast("Sequence[dict[str, Any]]", self.waiting.get(values["task_id"], ()))
        # While a server asks, its call goes on, and so does the task; for a person, it waits for them.
        asks = values["status"] == TaskStatus.RUNNING and self.prompts.waits(values["task_id"])
        asking = {"status": TaskStatus.WAITING_INPUT.value} if asks else {}
        return (
            {name: values[name] for name in same.split()}
            | asking
            | {
                "requester": Requester(channel=values["channel"], sender_id=values["sender_id"]),
                "assigned_worker": values["epoch"],
                "budget": TaskBudget(
                    max_cost_usd=None if limits.max_cost is None else limits.max_cost / 1e9,
                    max_tokens=limits.max_tokens,
                    max_rounds=limits.max_rounds,
                    deadline_s=limits.deadline_s,
                ),
                "pointers": Pointers(
                    latest_event_id=values["latest_event_id"],
                    latest_checkpoint_id=self.checkpoints.get(values["task_id"]),
                ),
                "run_id": run_of(row, self.chains),
                "step": values["step_id"],
                "stopping": bool(values["stop_by"]),
                "pausing": bool(values["pause_by"]),
                "waiting": [
                    WaitingStep(task_id=each["task_id"], title=each["title"], status=each["status"]) for each in below
                ],
                "cell_id": self.cells.get(values["message_id"], ""),
                "token_usage": TokenUsage(input=values["input_tokens"], output=values["output_tokens"]),
                "cost": values["cost"] if values["cost_known"] else None,
                "error": Failure(
                    kind=values["error_kind"],
                    code=values["error_code"],
                    message=values["error_message"],
                    hint=values["error_hint"] or NEXT_STEPS[values["error_kind"]],
                )
                if values["error_code"]
                else None,
            }
        )


async def retry_task(call: Call, request: TaskQuery) -> TaskRetried:
    """Retry a task that failed or was stopped. A turn goes on from what was done; a run of a skill does the missing
    steps."""
    done = await call.ozzie.control.retries.retry(ids.TaskId(request.task_id), by=call.principal.name)
    return TaskRetried(
        task_id=done.task_id,
        attempt=done.attempt,
        ahead=done.ahead,
        rounds_left=done.rounds_left,
        steps_left=done.steps_left,
        tokens_left=done.tokens_left,
        cost_left=done.cost_left,
        time_left_s=done.time_left_s,
    )


class TaskPause(msgspec.Struct, frozen=True, kw_only=True):
    """`reason` is kept with the task; empty means "by you"."""

    task_id: TaskId
    reason: Words = ""


async def pause_task(call: Call, request: TaskPause) -> Done:
    """Pause a task: a turn before its next calls, a run of a skill before its next steps. Running ones finish."""
    await call.ozzie.control.pauses.pause(ids.TaskId(request.task_id), by=call.principal.name, reason=request.reason)
    return Done()


async def resume_task(call: Call, request: TaskQuery) -> Done:
    """Resume a task that is paused or about to be."""
    await call.ozzie.control.pauses.resume(ids.TaskId(request.task_id), by=call.principal.name)
    return Done()


class TaskEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`event` is the name that a step of the run waits for, `data` becomes the step's output. With a `key` of the
    caller's, a repeated signal counts once."""

    task_id: TaskId
    event: EventName
    data: JsonObject | None = None
    key: EventKey = ""


async def tell_task(call: Call, request: TaskEvent) -> TaskTold:
    """Send a run of a skill a signal from outside. A signal that comes before a step waits for it is kept and counts
    for one step."""
    task_id, by = ids.TaskId(request.task_id), call.principal.name
    was_awaited = await call.ozzie.control.signals.send(task_id, request.event, request.data, by=by, key=request.key)
    return TaskTold(task_id=request.task_id, event=request.event, heard=was_awaited)


def heard(told: TaskTold) -> JsonObject:
    """Return the WebSocket's answer."""
    return {"heard": told.heard}


class TaskUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is added to the task in the caller's words. With a `key` of the caller's, a repeated text counts once."""

    task_id: TaskId
    text: UpdateText
    key: EventKey = ""


async def update_task(call: Call, request: TaskUpdate) -> Done:
    """Add a message to an unfinished task. A turn reads it at its next model call; a run of a skill hands it to its
    running and later steps."""
    task_id, by = ids.TaskId(request.task_id), call.principal.name
    await call.ozzie.control.updates.update(task_id, request.text, by=by, key=request.key)
    return Done()
