"""The tasks: where each stands, by the state machine of the domain, and what it has used."""

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
from ozzie_server_ext.store.tables import Column, Row, Rows, Table, plus, spent

TASKS = Table(
    "tasks",
    (
        Column("task_id"),
        Column("session_id", nullable=True),
        Column("status"),
        Column("title"),
        Column("mode"),
        Column("attempt", "INTEGER"),
        Column("epoch"),
        Column("reason"),
        Column("stop_by"),
        Column("pause_by"),
        Column("created_at"),
        Column("updated_at"),
        Column("finished_at", nullable=True),
        Column("message_id"),
        Column("thread_id"),
        Column("parent_id", nullable=True),
        Column("step_id"),
        Column("scope_id"),
        Column("channel"),
        Column("sender_id"),
        Column("risk_level"),
        Column("model"),
        Column("attended", "INTEGER"),
        Column("limits"),
        Column("latest_event_id"),
        Column("updates", "INTEGER"),
        Column("heard", "INTEGER"),
        Column("rounds", "INTEGER"),
        Column("tool_calls", "INTEGER"),
        Column("input_tokens", "INTEGER"),
        Column("output_tokens", "INTEGER"),
        Column("cost", "INTEGER"),
        Column("cost_known", "INTEGER"),
        Column("error_kind", nullable=True),
        Column("error_code", nullable=True),
        Column("error_message", nullable=True),
        Column("error_hint", nullable=True),
    ),
    key=("task_id",),
    indexes=(("session_id", "created_at"), ("status",), ("parent_id",)),
)
"""`parent_id` is the task that it was delegated by, and `step_id` the step of that which it carries out. `stop_by` is
who asked for the task's end, and `pause_by` who for its pause, until that has come; `model` is what the caller chose,
or who answers in its place by the choice of a budget, `limits` the JSON of `Limits`, `rounds` the highest round that a
call named. `updates` counts what was said to it meanwhile, `heard` how much of that its model was asked with. The error
columns have a value only while the task is FAILED."""

MOST_DEPTH = 32
"""More tasks do not delegate to each other; it bounds the fold, whatever stands in a log."""

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
    """Fold one event.

    Raises IllegalTransition for a fact that the task's state does not allow, UnreadUpdate for an end that comes too
    early.
    """
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
    """The tasks that one was delegated by, the nearest first: what it uses, they use."""
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
    """The domain's view of a row of `tasks`."""
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
    return {
        "task_id": task_id,
        "session_id": task.session_id,
        "status": task.status.value,
        "title": task.title,
        "mode": task.mode,
        "attempt": task.attempt,
        "epoch": task.epoch,
        "reason": task.reason,
        "stop_by": task.stop_by,
        "pause_by": task.pause_by,
        "created_at": at,
        "updated_at": at,
        "finished_at": None,
        "message_id": fact.message_id,
        "thread_id": fact.thread_id,
        "parent_id": fact.parent,
        "step_id": fact.step,
        "scope_id": fact.scope_id,
        "channel": fact.channel,
        "sender_id": fact.sender_id,
        "risk_level": fact.risk_level,
        "model": fact.model,
        "attended": int(fact.attended),
        "limits": _limits_text(task.limits),
        "latest_event_id": event.event_id,
        "updates": 0,
        "heard": 0,
        "rounds": 0,
        "tool_calls": 0,
        "input_tokens": 0,
        "output_tokens": 0,
        "cost": 0,
        "cost_known": 1,
        **_NO_ERROR,
    }


def _transition(event: Event, row: Row, fact: TaskFact) -> Row:
    task = tasks.fold(task_from(row), fact)
    changes: Row = {
        "status": task.status.value,
        "attempt": task.attempt,
        "epoch": task.epoch,
        "reason": task.reason,
        "stop_by": task.stop_by,
        "pause_by": task.pause_by,
        "finished_at": None if task.is_open else time_text(event.ts),
    }
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
    """As JSON. What no skill bounds is written as it was before skills had budgets of their own."""
    told = msgspec.to_builtins(limits)
    if not limits.skill:
        del told["skill"], told["skill_bounds"]
    return canonical_bytes(told).decode()


def _use(event: Event, row: Row) -> Row:
    match event.body:
        case ModelCallStarted(round=number, updates=heard, purpose="answer"):
            return {"rounds": max(cast(int, row["rounds"]), number), "heard": max(cast(int, row["heard"]), heard)}
        case TaskUpdated():
            return {"updates": plus(row["updates"], 1)}
        case ModelCallCompleted() as fact:
            return spent(row, fact)
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
