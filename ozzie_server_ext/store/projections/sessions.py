"""The sessions: one row each, and a lookup by key."""

import msgspec

from ozzie_server_ext.domain.errors import Conflict, Gone
from ozzie_server_ext.domain.events import (
    Event,
    MessageCompleted,
    MessageErased,
    MessageReceived,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    SessionArchived,
    SessionClosed,
    SessionCreated,
    SessionErased,
    SessionForked,
    SessionModelChosen,
    SessionMoved,
    SessionRenamed,
    SessionResumed,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.remains import Remains
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.projections.tasks import is_delegated
from ozzie_server_ext.store.tables import Row, Rows, Table, Value, integer, plus, text, usage_changes

SESSIONS = Table(
    "sessions",
    (
        *text(
            "session_id",
            "key",
            "title",
            "channel",
            "status",
            "created_at",
            "updated_at",
            "model",
            "chosen_model",
            "chosen_base_url",
        ),
        *integer("message_count", "input_tokens", "output_tokens", "cost", "cost_known", "last_position"),
        *text("parent"),
        *integer("forked_at", "forked_turn"),
        *text("forked_without", "project"),
    ),
    key=("session_id",),
    indexes=(("last_position",), ("parent",)),
)
"""`status` is active, archived, closed or erased; of an erased session, only its place among forks is left. `key` is
empty once another session has taken it. `model` last answered, `chosen_model` is the user's choice (empty: the
default). `cost` is in 1e-9 USD; `cost_known` is 0 once a call had no known price. A forked session has a `parent`, and
begins with its history up to the position `forked_at`, without the tasks `forked_without` (a JSON list, or empty);
`forked_turn` is the number of the turn after which it was forked, or 0. `project` is the folder that it works in;
empty: the gateway's own."""

TITLE_LENGTH = 60
"""Characters of a title taken from a message."""

SESSION_KEYS = Table("session_keys", (*text("key", "session_id"),), key=("key",))
"""`session_id` is empty if the key opens no session any more."""

TABLES = (SESSIONS, SESSION_KEYS)

HANDLES = (
    SessionCreated,
    SessionRenamed,
    SessionResumed,
    SessionMoved,
    SessionForked,
    SessionArchived,
    SessionClosed,
    SessionErased,
    SessionModelChosen,
    MessageReceived,
    MessageCompleted,
    MessageErased,
    ModelCallStarted,
    ModelCallCompleted,
    ModelCallFailed,
)


def expect_new(event: Event, rows: Rows) -> None:
    """Raise Conflict for the key or id of another session: of two that create one, one wins. Asked as a session is
    recorded, not when it is folded again: what had taken the key meanwhile may be erased by then."""
    if isinstance(event.body, SessionCreated):
        held = rows.get(SESSION_KEYS, (event.body.key,))
        if rows.get(SESSIONS, (event.session_id,)) is not None or (held is not None and held["session_id"]):
            raise Conflict(f'There is a session "{event.body.key}" already.', code="conflict.session")


def left_out(without: Value) -> frozenset[TaskId]:
    """Return the tasks of a row's `forked_without`."""
    return msgspec.json.decode(str(without), type=frozenset[TaskId]) if without else frozenset()


def session_gone(row: Row) -> Gone:
    """Return the error of whoever wants to use an erased session. Without its row, nobody knows when it was erased."""
    when = f" on {str(row['updated_at'])[:10]}" if row else ""
    return Gone(
        f"This session was erased{when}.",
        hint="Begin another with %session new, or ozzie ask --session NAME.",
    )


def apply(event: Event, rows: Rows) -> None:
    """Fold one event."""
    if event.session_id is None:
        return
    row = rows.get(SESSIONS, (event.session_id,))
    if isinstance(event.body, SessionCreated):
        rows.put(SESSIONS, _begin(event, event.body))
        _hand_over(event.body.key, event.session_id, rows)
    elif isinstance(event.body, SessionErased):
        rows.put(SESSIONS, _erased(event, event.body))
        for key in event.body.remains.keys:
            _release(key, rows)
        for each in event.body.remains.models:
            fork = rows.get(SESSIONS, (each.session_id,))
            if fork is not None:
                rows.put(SESSIONS, {**fork, "chosen_model": each.model, "chosen_base_url": each.base_url})
    elif row is not None:
        if isinstance(event.body, SessionResumed):
            _hand_over(event.body.key, event.session_id, rows)
        elif isinstance(event.body, SessionMoved):
            rows.put(SESSION_KEYS, {"key": event.body.before, "session_id": ""})
            if event.body.key:
                _hand_over(event.body.key, event.session_id, rows)
        at = time_text(event.ts)
        changes = _forked(event.body, rows) if isinstance(event.body, SessionForked) else _changes(row, event)
        if isinstance(event.body, MessageReceived | MessageCompleted) and is_delegated(event.task_id, rows):
            changes = {}
        rows.put(SESSIONS, {**row, **changes, "updated_at": at, "last_position": event.position})


def _hand_over(key: str, session_id: SessionId, rows: Rows) -> None:
    """Give the session the key; the session that had it loses it."""
    held = rows.get(SESSION_KEYS, (key,))
    if held is not None and held["session_id"] not in ("", session_id):
        holder = rows.get(SESSIONS, (held["session_id"],))
        if holder is not None:
            rows.put(SESSIONS, {**holder, "key": ""})
    rows.put(SESSION_KEYS, {"key": key, "session_id": session_id})


def _release(key: str, rows: Rows) -> None:
    held = rows.get(SESSION_KEYS, (key,))
    holder = None if held is None else rows.get(SESSIONS, (held["session_id"],))
    if holder is not None:
        rows.put(SESSIONS, {**holder, "key": ""})
    rows.put(SESSION_KEYS, {"key": key, "session_id": ""})


def _begin(event: Event, fact: SessionCreated) -> Row:
    at = time_text(event.ts)
    return SESSIONS.row(
        session_id=event.session_id,
        key=fact.key,
        title=fact.title,
        channel=fact.channel,
        project=fact.project,
        status="active",
        created_at=at,
        updated_at=at,
        cost_known=1,
        last_position=event.position,
    )


def _erased(event: Event, fact: SessionErased) -> Row:
    """Return what is left. Forks still find its own parent through it."""
    at = time_text(event.ts)
    return SESSIONS.row(
        session_id=event.session_id,
        status="erased",
        created_at=at,
        updated_at=at,
        last_position=event.position,
        parent=fact.parent,
        forked_at=fact.forked_at,
        forked_turn=fact.turn,
        forked_without=_as_text(fact.without),
    )


def _forked(fact: SessionForked, rows: Rows) -> Row:
    """Return the changes of a fork, which inherits its parent's chosen model."""
    changes: Row = {
        "parent": fact.parent,
        "forked_at": fact.position,
        "forked_turn": fact.turn,
        "forked_without": _as_text(fact.without),
    }
    parent = rows.get(SESSIONS, (fact.parent,))
    if parent is not None:
        changes |= {name: parent[name] for name in ("chosen_model", "chosen_base_url")}
    return changes


def _as_text(tasks: tuple[TaskId, ...]) -> str:
    return dumps([*tasks]) if tasks else ""


def _changes(row: Row, event: Event) -> Row:
    match event.body:
        case SessionRenamed(title=title):
            return {"title": title}
        case SessionResumed(key=key):
            return {"key": key, "status": "active"}
        case SessionMoved(before=before, key=key, project=project):
            changes: Row = {"project": project} if project else {}
            return changes | ({"key": key} if row["key"] in ("", before) else {})
        case SessionArchived():
            return {"status": "archived"}
        case SessionClosed():
            return {"status": "closed"}
        case SessionModelChosen(model=model, base_url=base_url):
            return {"chosen_model": model, "chosen_base_url": base_url}
        case MessageReceived(text=text):
            status = "active" if row["status"] == "archived" else row["status"]
            title = row["title"] or _title_from(text)
            return {"message_count": plus(row["message_count"], 1), "status": status, "title": title}
        case MessageCompleted():
            return {"message_count": plus(row["message_count"], 1)}
        case ModelCallStarted(model=model, purpose="answer"):
            return {"model": model}
        case ModelCallCompleted() as fact:
            return usage_changes(row, fact)
        case ModelCallFailed() as fact:
            return {"cost_known": 0} if fact.cost_is_unknown else {}
        case MessageErased(remains=remains):
            return _used(row, remains)
        case _:
            return {}


def _used(row: Row, remains: Remains) -> Row:
    """Return the sums with what the erased turn used."""
    changes = {name: row[name] for name in ("input_tokens", "output_tokens", "cost")}
    known = row["cost_known"]
    for use in remains.usage:
        if use.session_id == row["session_id"]:
            changes = {name: plus(value, getattr(use, name)) for name, value in changes.items()}
            known = 0 if use.unknown_price_calls else known
    return {**changes, "cost_known": known}


def _title_from(text: str) -> str:
    """Return the first non-empty line, cut at a word if one ends in time."""
    line = " ".join(next(iter(text.strip().splitlines()), "").split())
    if len(line) <= TITLE_LENGTH:
        return line
    cut = line[: TITLE_LENGTH - 1]
    return f"{cut.rsplit(' ', 1)[0] if ' ' in cut[TITLE_LENGTH // 2 :] else cut}…"
