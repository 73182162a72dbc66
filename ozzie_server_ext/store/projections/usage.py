"""Model usage: one row per call, and sums per session, model and day in UTC."""

from typing import cast

from ozzie_server_ext.domain.events import (
    Event,
    MessageErased,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    SessionErased,
)
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.tables import Key, Row, Rows, Table, integer, plus, real, text

MODEL_CALLS = Table(
    "model_calls",
    (
        *text("call_id"),
        *text("session_id", "task_id", nullable=True),
        *text("reply_id"),
        *integer("round"),
        *text("alias", "provider", "model", "status", "finish", "error_code"),
        *integer("input_tokens", "output_tokens", "cached_tokens"),
        *integer("cost", "reserved_cost", nullable=True),
        *integer("reserved_tokens"),
        *text("project", "day"),
        *real("latency_ms", "ttft_ms", nullable=True),
        *text("started_at"),
        *text("ended_at", nullable=True),
    ),
    key=("call_id",),
    indexes=(("task_id",),),
)
"""`status` is started, completed or failed. `cost` is NULL while the call runs and if the price is unknown. `project`
and `day` name the budgets that the call counts against."""

USAGE = Table(
    "usage",
    (
        *text("session_id", "alias", "provider", "model", "day"),
        *integer(
            "calls", "failed_calls", "unknown_price_calls", "input_tokens", "output_tokens", "cached_tokens", "cost"
        ),
    ),
    key=("session_id", "alias", "provider", "model", "day"),
    indexes=(("day",),),
)
"""Calls count on the day on which they ended; `calls` includes failed ones; `session_id` is empty for calls without a
session."""

TABLES = (MODEL_CALLS, USAGE)

HANDLES = (ModelCallStarted, ModelCallCompleted, ModelCallFailed, SessionErased, MessageErased)

COUNTERS = tuple(name for name in USAGE.names if name not in USAGE.key)
"""The columns of `usage` that only grow."""


def apply(event: Event, rows: Rows) -> None:
    """Fold one event. The end of a call without a start counts under an empty model name; a second end is ignored."""
    if isinstance(event.body, ModelCallCompleted | ModelCallFailed) and has_ended(rows, event.body.call_id):
        return
    match event.body:
        case ModelCallStarted() as fact:
            rows.put(MODEL_CALLS, _begin(event, fact))
        case ModelCallCompleted() as fact:
            call = _call(event, rows, fact.call_id) | {
                "status": "completed",
                "finish": fact.finish,
                "input_tokens": fact.usage.input_tokens,
                "output_tokens": fact.usage.output_tokens,
                "cached_tokens": fact.usage.cached_tokens,
                "cost": fact.cost,
                "latency_ms": fact.latency_ms,
                "ttft_ms": fact.ttft_ms,
                "ended_at": time_text(event.ts),
            }
            rows.put(MODEL_CALLS, call)
            _count(rows, call, failed=0, unknown=int(fact.cost is None))
        case ModelCallFailed() as fact:
            call = _call(event, rows, fact.call_id) | {
                "status": "failed",
                "error_code": fact.code,
                "latency_ms": fact.latency_ms,
                "ended_at": time_text(event.ts),
            }
            rows.put(MODEL_CALLS, call)
            # It may have been charged, and nobody said how much.
            _count(rows, call, failed=1, unknown=int(fact.cost_is_unknown))
        case SessionErased(remains=remains) | MessageErased(remains=remains):
            for use in remains.usage:
                row = _sums(rows, tuple(getattr(use, name) for name in USAGE.key))
                rows.put(USAGE, {**row, **{name: plus(row[name], getattr(use, name)) for name in COUNTERS}})
        case _:
            return


def has_ended(rows: Rows, call_id: CallId) -> bool:
    """Whether the call has ended."""
    row = rows.get(MODEL_CALLS, (call_id,))
    return row is not None and row["status"] != "started"


def _begin(event: Event, fact: ModelCallStarted) -> Row:
    return {
        **_unknown(event, fact.call_id),
        "reply_id": fact.reply_id,
        "round": fact.round,
        "alias": fact.alias,
        "provider": fact.provider,
        "model": fact.model,
        "reserved_cost": fact.reserved_cost,
        "reserved_tokens": fact.reserved_tokens,
        "project": fact.project,
        "day": fact.day,
    }


def _call(event: Event, rows: Rows, call_id: CallId) -> Row:
    return rows.get(MODEL_CALLS, (call_id,)) or _unknown(event, call_id)


def _unknown(event: Event, call_id: CallId) -> Row:
    return MODEL_CALLS.row(
        call_id=call_id,
        session_id=event.session_id,
        task_id=event.task_id,
        status="started",
        started_at=time_text(event.ts),
    )


def _count(rows: Rows, call: Row, *, failed: int, unknown: int) -> None:
    day = cast(str, call["ended_at"])[:10]
    key = (call["session_id"] or "", call["alias"], call["provider"], call["model"], day)
    row = _sums(rows, key)
    rows.put(
        USAGE,
        {
            **row,
            "calls": plus(row["calls"], 1),
            "failed_calls": plus(row["failed_calls"], failed),
            "unknown_price_calls": plus(row["unknown_price_calls"], unknown),
            "input_tokens": plus(row["input_tokens"], cast(int, call["input_tokens"])),
            "output_tokens": plus(row["output_tokens"], cast(int, call["output_tokens"])),
            "cached_tokens": plus(row["cached_tokens"], cast(int, call["cached_tokens"])),
            "cost": plus(row["cost"], cast("int | None", call["cost"]) or 0),
        },
    )


def _sums(rows: Rows, key: Key) -> Row:
    return rows.get(USAGE, key) or USAGE.row(**dict(zip(USAGE.key, key, strict=True)))
