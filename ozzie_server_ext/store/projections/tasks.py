"""The tasks: the state of each, by the domain's state machine, and what it has used."""

from collections.abc import Iterator
from functools import lru_cache
from typing import cast, get_args

import msgspec

from ozzie_server_ext.domain import tasks
from ozzie_server_ext.domain.errors import IllegalTransition, InputError
from ozzie_server_ext.domain.events import (
    Event,
    Limits,
    MessageCompleted,
    MessageReceived,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    StepCompleted,
    StepFailed,
    TaskCreated,
    TaskFact,
    TaskFailed,
    TaskModelChosen,
    TaskQueued,
    TaskRetried,
    TaskStarted,
    TaskSucceeded,
    TaskUpdated,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallResolved,
    ToolCallStarted,
    ToolCallUncertain,
    ToolsetInjected,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.tasks import Task, TaskStatus, UnreadUpdate
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.tables import Row, Rows, Table, integer, plus, text, usage_changes

TASKS = Table(
    "tasks",
    (
        *text("task_id"),
        *text("session_id", nullable=True),
        *text("status", "title", "mode"),
        *integer("attempt"),
        *text("epoch", "reason", "stop_by", "pause_by", "created_at", "updated_at"),
        *text("finished_at", nullable=True),
        *text("message_id", "thread_id"),
        *text("parent_id", nullable=True),
        *text("step_id", "scope_id", "channel", "sender_id", "risk_level", "model"),
        *integer("attended"),
        *text("limits", "latest_event_id"),
        *integer("updates", "heard", "rounds", "tool_calls", "input_tokens", "output_tokens", "cost", "cost_known"),
        *text("error_kind", "error_code", "error_message", "error_hint", nullable=True),
    ),
    key=("task_id",),
    indexes=(("session_id", "created_at"), ("status",), ("parent_id",)),
)
"""`parent_id` is the task that delegated it, `step_id` the step that it carries out there. `stop_by` and `pause_by` say
who requested its end or pause, until that comes. `model` is what the caller chose, or the substitute that a budget
chose; `limits` is the JSON of `Limits`, `rounds` the highest round of a call. `updates` counts the messages added while
it runs, `heard` those that its model has received. The error columns have a value only while the task is FAILED."""

MOST_DEPTH = 32
"""Limit on the depth of delegation; bounds the fold, whatever a log holds."""

TABLES = (TASKS,)

HANDLES = (
    *get_args(TaskFact),
    TaskModelChosen,
    TaskUpdated,
    MessageReceived,
    MessageCompleted,
    ModelCallStarted,
    ModelCallCompleted,
    ModelCallFailed,
    ToolCallRequested,
    ToolCallDecided,
    ToolCallStarted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallCancelled,
    ToolCallUncertain,
    ToolCallResolved,
    ToolsetInjected,
    StepCompleted,
    StepFailed,
)

_limits_from = lru_cache(maxsize=64)(msgspec.json.Decoder(Limits).decode)  # nearly all tasks have the same
_NO_ERROR: Row = {"error_kind": None, "error_code": None, "error_message": None, "error_hint": None}


def apply(event: Event, rows: Rows) -> None:
    """Fold one event. Raises IllegalTransition for a fact that the task's state does not allow, UnreadUpdate for an end
    before its model has received all updates."""
    fact = event.body
    if event.task_id is None:
        if isinstance(fact, TaskFact):
            raise InputError(f"{fact.type} needs a task_id.")
        return
    row = rows.get(TASKS, (event.task_id,))
    if row is None:
        if isinstance(fact, TaskCreated):
            rows.put(TASKS, _begin(event, event.task_id, fact))
        elif isinstance(fact, TaskFact):
            raise IllegalTransition("not created", fact.type)
        return
    changes = _transition(event, row, fact) if isinstance(fact, TaskFact) else _use(event, row)
    rows.put(TASKS, {**row, **changes, "updated_at": time_text(event.ts), "latest_event_id": event.event_id})
    if isinstance(fact, ModelCallCompleted | ModelCallFailed | ToolCallRequested):
        for above in ancestors(event.task_id, rows):
            rows.put(TASKS, {**above, **_use(event, above)})


def ancestors(task_id: TaskId | None, rows: Rows) -> Iterator[Row]:
    """Yield the tasks that delegated this one, nearest first: its usage counts as theirs."""
    for _ in range(MOST_DEPTH):
        row = rows.get(TASKS, (task_id,))
        if row is None or row["parent_id"] is None:
            return
        task_id = TaskId(cast(str, row["parent_id"]))
        above = rows.get(TASKS, (task_id,))
        if above is not None:
            yield above


def is_delegated(task_id: TaskId | None, rows: Rows) -> bool:
    """Whether another task delegated it."""
    row = None if task_id is None else rows.get(TASKS, (task_id,))
    return row is not None and row["parent_id"] is not None


def task_from(row: Row) -> Task:
    """Return a row of `tasks` as the domain's task."""
    return Task(
        task_id=TaskId(cast(str, row["task_id"])),
        session_id=None if row["session_id"] is None else SessionId(cast(str, row["session_id"])),
        status=TaskStatus(cast(str, row["status"])),
        title=cast(str, row["title"]),
        mode=cast(str, row["mode"]),
        limits=_limits_from(cast(str, row["limits"])),
        attempt=cast(int, row["attempt"]),
        epoch=cast(str, row["epoch"]),
        reason=cast(str, row["reason"]),
        stop_by=cast(str, row["stop_by"]),
        pause_by=cast(str, row["pause_by"]),
    )


def _begin(event: Event, task_id: TaskId, fact: TaskCreated) -> Row:
    task = tasks.create(task_id, event.session_id, fact)
    at = time_text(event.ts)
    return TASKS.row(
        task_id=task_id,
        session_id=task.session_id,
        title=task.title,
        mode=task.mode,
        created_at=at,
        updated_at=at,
        message_id=fact.message_id,
        thread_id=fact.thread_id,
        parent_id=fact.parent,
        step_id=fact.step,
        scope_id=fact.scope_id,
        channel=fact.channel,
        sender_id=fact.sender_id,
        risk_level=fact.risk_level,
        model=fact.model,
        attended=int(fact.attended),
        limits=_limits_text(task.limits),
        latest_event_id=event.event_id,
        cost_known=1,
        **_state(task),
    )


def _state(task: Task) -> Row:
    return {
        "status": task.status.value,
        "attempt": task.attempt,
        "epoch": task.epoch,
        "reason": task.reason,
        "stop_by": task.stop_by,
        "pause_by": task.pause_by,
    }


def _transition(event: Event, row: Row, fact: TaskFact) -> Row:
    task = tasks.fold(task_from(row), fact)
    changes = {**_state(task), "finished_at": None if task.is_open else time_text(event.ts)}
    match fact:
        case TaskSucceeded():
            if row["mode"] == "FREE" and cast(int, row["updates"]) > cast(int, row["heard"]):
                raise UnreadUpdate
            changes["rounds"] = fact.rounds
        case TaskFailed():
            changes |= {
                "error_kind": fact.kind,
                "error_code": fact.code,
                "error_message": fact.message,
                "error_hint": fact.hint,
            }
        case TaskRetried() | TaskQueued() | TaskStarted():
            changes |= _NO_ERROR
            if isinstance(fact, TaskRetried) and fact.limits is not None:
                changes["limits"] = _limits_text(fact.limits)
        case _:
            pass
    return changes


def _limits_text(limits: Limits) -> str:
    """Return the limits as JSON; without a skill, as it was before skills had budgets of their own."""
    fields = msgspec.to_builtins(limits)
    if not limits.skill:
        del fields["skill"], fields["skill_bounds"]
    return canonical_bytes(fields).decode()


def _use(event: Event, row: Row) -> Row:
    match event.body:
        case ModelCallStarted(round=number, updates=heard, purpose="answer"):
            return {"rounds": max(cast(int, row["rounds"]), number), "heard": max(cast(int, row["heard"]), heard)}
        case TaskUpdated():
            return {"updates": plus(row["updates"], 1)}
        case ModelCallCompleted() as fact:
            return usage_changes(row, fact)
        case ModelCallFailed() as fact:
            return {"cost_known": 0} if fact.cost_is_unknown else {}
        case TaskModelChosen(model=model):
            return {"model": model}
        case ToolCallRequested():
            return {"tool_calls": plus(row["tool_calls"], 1)}
        case StepCompleted(call=call) | StepFailed(call=call) if call is not None:
            return {"tool_calls": plus(row["tool_calls"], 1)}
        case _:
            return {}
