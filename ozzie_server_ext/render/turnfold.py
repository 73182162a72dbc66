"""A turn as a person sees it, folded from the frames of the feed; pure, and the same for every front end."""

from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias

from ozzie_server_ext.domain.ids import GATEWAY
from ozzie_server_ext.render import toolrows
from ozzie_server_ext.render.questions import answered, pending_approval_of, question_of
from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.render.toolrows import ToolRow
from ozzie_server_ext.render.turnview import (
    Delegated,
    Part,
    Status,
    TextPart,
    TurnError,
    TurnView,
    WorkPart,
    begun,
    grown,
)


def _model_call_started(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    call_id = str(payload.get("call_id", ""))
    if call_id in view.counted_calls:
        return view
    if payload.get("purpose", "answer") != "answer":
        return replace(view, open_calls=view.open_calls | {call_id})
    reply_id = str(payload.get("reply_id", ""))
    # A reply that is still open now was cut off, and comes again.
    parts = tuple(
        part for part in view.parts if not isinstance(part, TextPart) or part.done or part.reply_id == reply_id
    )
    return replace(
        view,
        parts=parts,
        alias=str(payload.get("alias") or view.alias),
        provider=str(payload.get("provider") or view.provider),
        model=str(payload.get("model") or view.model),
        instead_of=str(payload.get("instead_of") or ""),
        open_calls=view.open_calls | {call_id},
    )


def _model_call_completed(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    call_id = str(payload.get("call_id", ""))
    if call_id in view.counted_calls:
        return view
    usage = payload.get("usage") or {}
    cost = payload.get("cost")
    return replace(
        view,
        input_tokens=view.input_tokens + int(usage.get("input_tokens") or 0),
        output_tokens=view.output_tokens + int(usage.get("output_tokens") or 0),
        cost=view.cost + (cost if isinstance(cost, int) else 0),
        cost_known=view.cost_known and isinstance(cost, int),
        open_calls=view.open_calls - {call_id},
        counted_calls=view.counted_calls | {call_id},
    )


def _model_call_failed(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    call_id = str(payload.get("call_id", ""))
    view = replace(view, open_calls=view.open_calls - {call_id})
    may_be_billed = (
        payload.get("partial_blob") is not None or payload.get("latency_ms") is None or payload.get("settled_tokens")
    )
    if may_be_billed and payload.get("settled_cost") != 0:
        # A provider bills what it began to answer, but tells the amount only at the end.
        return replace(view, cost_known=False)
    return replace(view, counted_calls=view.counted_calls | {call_id})


def _with_delegated(view: TurnView, payload: Mapping[str, Any]) -> TurnView:
    """Return the view at the turn's end, with what it delegated; replaces what an end before a retry said of that."""
    used = payload.get("delegated")
    if used is None:
        return view
    before = view.delegated or Delegated()
    now = Delegated(
        models=tuple((str(each["alias"]), str(each["provider"]), str(each["model"])) for each in used["models"]),
        input_tokens=int(used["usage"]["input_tokens"]),
        output_tokens=int(used["usage"]["output_tokens"]),
        cost=int(used["cost"]),
        cost_known=bool(used["cost_known"]),
    )
    return replace(
        view,
        delegated=now,
        input_tokens=view.input_tokens - before.input_tokens + now.input_tokens,
        output_tokens=view.output_tokens - before.output_tokens + now.output_tokens,
        cost=view.cost - before.cost + now.cost,
        cost_known=view.cost_known and now.cost_known,
    )


_Change: TypeAlias = Callable[[TurnView, Mapping[str, Any], datetime | None], TurnView]


def new_turn(*, task_id: str = "", session_id: str = "", alias: str = "") -> TurnView:
    """Return a turn without any frames yet."""
    return TurnView(task_id=task_id, session_id=session_id, alias=alias)


def turn_of(sent: Mapping[str, Any]) -> TurnView:
    """Return the turn that a message became or joined, by the reply to `message.send`."""
    return TurnView(
        task_id=str(sent["task_id"]),
        session_id=str(sent["session_id"]),
        ahead=int(str(sent["ahead"])),
        is_joined=sent["became"] != "task",
    )


def fold(view: TurnView, canonical: str, payload: Mapping[str, Any], ts: datetime | None = None) -> TurnView:
    """Return the view after one frame: event name, body, and time (None for transients). An unknown frame changes
    nothing; each frame is folded once."""
    change = _CHANGES.get(canonical)
    return view if change is None else change(view, payload, ts)


# --- reply --------------------------------------------------------------------------------------------


def _delta(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    reply_id, content = str(payload.get("reply_id", "")), str(payload.get("content", ""))
    offset = payload.get("offset")
    start = offset if isinstance(offset, int) else None
    view = replace(view, step="")
    at = _reply(view, reply_id)
    if at is None:
        return _with_reply(view, begun(reply_id, start or 0, content)) if content else view
    return _with_part(view, at, grown(_text_part(view, at), start, content))


def _reset(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    at = _reply(view, str(payload.get("reply_id", "")))
    if at is None:
        return view
    return _with_part(view, at, TextPart(reply_id=_text_part(view, at).reply_id))


def _message_completed(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    reply_id, text = str(payload.get("reply_id", "")), str(payload.get("text", ""))
    finish = payload.get("finish")
    part = TextPart(
        reply_id=reply_id, text=text, done=True, end=len(text), cut=finish == "cancelled", short=finish == "length"
    )
    at = _reply(view, reply_id)
    if at is not None:
        return _with_part(view, at, part)
    return _with_reply(view, part) if text else view


def _with_reply(view: TurnView, part: TextPart) -> TurnView:
    """Return the view with a new reply, which replaces rejected ones."""
    if part.reply_id in view.rejected:
        return view
    kept = tuple(each for each in view.parts if not (isinstance(each, TextPart) and each.reply_id in view.rejected))
    return replace(view, parts=(*kept, part))


def _message_rejected(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    reply_id = str(payload.get("reply_id", ""))
    return replace(view, rejected=view.rejected | {reply_id})


def _reply(view: TurnView, reply_id: str) -> int | None:
    for index in range(len(view.parts) - 1, -1, -1):
        part = view.parts[index]
        if isinstance(part, TextPart) and part.reply_id == reply_id:
            return index
    return None


def _text_part(view: TurnView, at: int) -> TextPart:
    part = view.parts[at]
    assert isinstance(part, TextPart)
    return part


def _with_part(view: TurnView, at: int, part: Part) -> TurnView:
    return replace(view, parts=(*view.parts[:at], part, *view.parts[at + 1 :]))


def _progress(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    ahead = payload.get("ahead")
    if isinstance(ahead, int):
        return replace(view, ahead=max(ahead, 0))
    if isinstance(share := payload.get("budget"), int):
        return replace(view, budget_share=share)
    return replace(view, step=str(payload.get("step", ""))[:80])


def _received(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    pictures = tuple(str(picture.get("path", "")) for picture in payload.get("pictures") or ())
    return replace(view, pictures=pictures, absent=tuple(map(str, payload.get("absent") or ())))


# --- task ---------------------------------------------------------------------------------------------


def _created(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    return replace(view, started_at=view.started_at or ts, is_run=payload.get("mode") == "GRAPH")


def _queued(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    reason = payload.get("reason")
    if reason not in ("recovered", "answered", "resumed"):
        return replace(view, status="Queued", open_calls=frozenset())
    view = _to_go_on(view, is_recovered=reason == "recovered")
    if view.question is not None and view.question.is_of_server:  # its call was cut off
        view = replace(view, question=None)
    recoveries = view.recoveries + (reason == "recovered")
    return replace(view, status="Queued", recoveries=recoveries)


def _to_go_on(view: TurnView, *, is_recovered: bool = False) -> TurnView:
    """Keep what was finished; what a restart interrupted or a budget cut short will come again."""
    waiting = set[str]() if is_recovered else {row.call_id for row in view.rows if row.state == "waiting"}
    parts = tuple(kept for part in _without_short(view.parts) if (kept := _finished(part, waiting)) is not None)
    return replace(view, open_calls=frozenset(), parts=parts, step="")


def _model_chosen(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    return replace(view, parts=_without_short(view.parts))


def _without_short(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the parts without a final answer that reached its length limit: it will come again."""
    last = parts[-1] if parts else None
    return parts[:-1] if isinstance(last, TextPart) and last.short else parts


_KEPT = frozenset({"done", "failed", "denied", "unknown"})
"""Calls whose outcome is known by then; the others are made again."""


def _finished(part: Part, waiting: Set[str]) -> Part | None:
    """Return what stays of a part; calls that were `waiting` for an answer go on as they are."""
    if isinstance(part, TextPart):
        return part if part.done and not part.cut else None
    rows = tuple(row for row in part.rows if row.state in _KEPT or row.call_id in waiting)
    return replace(part, rows=rows) if rows else None


def _started(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    return replace(view, status="Working", started_at=view.started_at or ts, ahead=0)


def _stopping(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    return view if view.is_final else replace(view, step="stopping")


def _pausing(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    return replace(view, step="pausing at the end of what it is doing" if payload.get("wanted", True) else "")


def _held(status: Status) -> _Change:
    def change(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
        reason = str(payload.get("reason") or payload.get("question") or "")
        in_doubt = view.question is not None and view.question.kind == "uncertain"
        word = "Needs a decision" if in_doubt else status
        return replace(view, status=word, reason=reason, held_since=view.held_since or ts)

    return change


def _waits_for_input(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    """A turn asks before it waits; a run waits for what its steps ask, or for a signal."""
    return _held("Waiting for your answer" if view.question is not None else "Waiting")(view, payload, ts)


def _compacted(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    return replace(view, compacted=view.compacted + int(payload.get("turns") or 0))


def _asked(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    if view.is_final:
        return view
    view = replace(view, question=question_of(payload))
    return _with_row(view, str(payload.get("call_id") or ""), toolrows.waiting)


def _answered(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    if view.question is not None and view.question.is_of_server:
        view = _with_row(view, view.question.call_id, toolrows.going_on)
    return _with_answer(replace(view, question=None), "prompt_id", "", payload, ts)


def _with_answer(view: TurnView, named: str, did: str, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    """Return the view with who answered, as in "Ana approved it at 14:05"; `named` is the payload's field of the id."""
    at = f" at {ts.astimezone():%H:%M}" if ts else ""
    words = f"{visible_label(str(payload.get('by') or 'somebody'))}{did}{at}"
    answers = {**dict(view.answers), str(payload.get(named, "")): words}
    return replace(view, answers=tuple(answers.items()))


def _approval_asked(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    asked = pending_approval_of(payload)
    if payload.get("needs") == "model":  # the answer follows at once, and nobody else can give it
        return replace(view, checked=(*view.checked, (asked.approval_id, asked.call_id)))
    if view.is_final or any(each.approval_id == asked.approval_id for each in view.asked):
        return view
    kept = tuple(each for each in view.asked if each.call_id != asked.call_id)  # it is requested again
    return _with_row(replace(view, asked=(*kept, asked)), asked.call_id, toolrows.waiting)


def _approval_answered(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    approval_id = str(payload.get("approval_id", ""))
    return replace(view, asked=tuple(each for each in view.asked if each.approval_id != approval_id))


def _approval_granted(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    approval_id = str(payload.get("approval_id", ""))
    calls = {**dict(view.checked), **{each.approval_id: each.call_id for each in view.asked}}
    view = _with_answer(_approval_answered(view, payload, ts), "approval_id", " approved it", payload, ts)
    words = answered(payload, ts)
    return _with_row(view, calls.get(approval_id, ""), lambda row: replace(row, approved=words))


def _approval_rejected(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    return _with_answer(_approval_answered(view, payload, ts), "approval_id", " rejected it", payload, ts)


def _approval_expired(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    """Keep an approval whose time is up: it can be requested again."""
    if payload.get("why") != "time":
        return _approval_answered(view, payload, ts)
    approval_id = str(payload.get("approval_id", ""))
    return replace(
        view,
        asked=tuple(replace(each, expired=True) if each.approval_id == approval_id else each for each in view.asked),
    )


def _resumed(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    view = _to_go_on(_released(view, ts))
    return replace(view, status="Working", reason="", budget_share=0, asked=())


def _retried(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    parts = tuple(kept for part in _without_short(view.parts) if (kept := _finished(part, set[str]())) is not None)
    view = replace(view, parts=parts, error=None, closing="", reason="", finished_at=None)
    return replace(view, status="Queued", started_at=ts or view.started_at)


def _succeeded(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    return _ended(view, "Done", payload, ts)


def _failed(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    error = TurnError(**{name: str(payload.get(name, "")) for name in ("code", "message", "hint", "detail")})
    return replace(_ended(view, "Failed", payload, ts), error=error)


def _cancelled(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    reason = str(payload.get("reason", ""))
    by_gateway = payload.get("by") == GATEWAY
    closing = f"Stopped here: {reason.removesuffix('.') or 'by Ozzie'}." if by_gateway else "Stopped here by you."
    last = view.parts[-1] if view.parts else None
    if isinstance(last, WorkPart) and last.rows[-1].state in ("running", "cancelled"):
        closing += f" {last.rows[-1].name} was cancelled."
    return replace(_ended(view, "Stopped", payload, ts), closing=closing, reason=reason)


def _ended(view: TurnView, status: Status, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    parts = tuple(
        replace(part, rows=tuple(toolrows.settle(row, stopped=status == "Stopped", ts=ts) for row in part.rows))
        if isinstance(part, WorkPart)
        else replace(part, done=True)
        for part in view.parts
    )
    # A call that was cut off has not reported its usage.
    cost_known = view.cost_known and not view.open_calls
    view = replace(_released(view, ts), status=status, parts=parts, cost_known=cost_known, open_calls=frozenset())
    view = replace(_with_delegated(view, payload), question=None, asked=())
    return replace(view, finished_at=view.finished_at or ts)


def _released(view: TurnView, ts: datetime | None) -> TurnView:
    if view.held_since is None or ts is None:
        return replace(view, held_since=None)
    waited = max((ts - view.held_since).total_seconds(), 0.0)
    return replace(view, held_since=None, waited_s=view.waited_s + waited)


# --- tool call ----------------------------------------------------------------------------------------


def _place(view: TurnView, call_id: str) -> tuple[int, int, tuple[ToolRow, ...]] | None:
    """Return the part and the index of the call's row, and all rows of the part. Searches from the end."""
    for at in range(len(view.parts) - 1, -1, -1):
        part = view.parts[at]
        if isinstance(part, WorkPart):
            for index in range(len(part.rows) - 1, -1, -1):
                if part.rows[index].call_id == call_id:
                    return at, index, part.rows
    return None


def _with_row(view: TurnView, call_id: str, change: Callable[[ToolRow], ToolRow]) -> TurnView:
    """Return the view with that call's row changed, if it has one."""
    if (place := _place(view, call_id)) is None:
        return view
    at, index, rows = place
    return _with_part(view, at, WorkPart(rows=(*rows[:index], change(rows[index]), *rows[index + 1 :])))


def _tool(canonical: str) -> _Change:
    def change(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
        if view.is_run or payload.get("step_id"):  # the run's graph shows what its steps called
            return view
        call_id = str(payload.get("call_id", ""))
        if (place := _place(view, call_id)) is not None:
            at, index, rows = place
            row = toolrows.fold(rows[index], canonical, payload, ts)
            return _with_part(view, at, WorkPart(rows=(*rows[:index], row, *rows[index + 1 :])))
        if view.is_joined and canonical != "tool.call.requested":  # it began before, or is a step's
            return view
        row = toolrows.fold(toolrows.new_row(payload), canonical, payload, ts)
        if view.parts and isinstance(last := view.parts[-1], WorkPart):
            return _with_part(view, len(view.parts) - 1, WorkPart(rows=(*last.rows, row)))
        return replace(view, parts=(*view.parts, WorkPart(rows=(row,))))

    return change


_CHANGES: dict[str, _Change] = {
    "message.received": _received,
    "reply.delta": _delta,
    "reply.reset": _reset,
    "message.completed": _message_completed,
    "message.rejected": _message_rejected,
    "session.compacted": _compacted,
    "task.progress": _progress,
    "task.created": _created,
    "task.queued": _queued,
    "task.started": _started,
    "task.model_chosen": _model_chosen,
    "task.stopping": _stopping,
    "task.waiting_approval": _held("Waiting for you"),
    "task.waiting_input": _waits_for_input,
    "task.pausing": _pausing,
    "task.paused": _held("Paused"),
    "approval.requested": _approval_asked,
    "approval.granted": _approval_granted,
    "approval.rejected": _approval_rejected,
    "approval.expired": _approval_expired,
    "prompt.requested": _asked,
    "prompt.answered": _answered,
    "task.resumed": _resumed,
    "task.retried": _retried,
    "task.succeeded": _succeeded,
    "task.failed": _failed,
    "task.cancelled": _cancelled,
    "model.call.started": _model_call_started,
    "model.call.completed": _model_call_completed,
    "model.call.failed": _model_call_failed,
} | {name: _tool(name) for name in toolrows.EVENTS}
