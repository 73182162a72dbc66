"""The sessions: one row each, and a lookup by key."""

from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.events import (
    Event,
    MessageCompleted,
    MessageReceived,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    SessionArchived,
    SessionClosed,
    SessionCreated,
    SessionForked,
    SessionModelChosen,
    SessionMoved,
    SessionRenamed,
    SessionResumed,
)
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.projections.tasks import is_delegated
from ozzie_server_ext.store.tables import Row, Rows, Table, integer, plus, text, usage_changes

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
        *integer("forked_at"),
        *text("project"),
    ),
    key=("session_id",),
)
"""`status` is active, archived or closed. `key` is empty once another session has taken it. `model` last answered,
`chosen_model` is the user's choice (empty: the default). `cost` is in 1e-9 USD; `cost_known` is 0 once a call had no
known price. A forked session has a `parent`, and begins with its history up to the position `forked_at`. `project` is
the folder that it works in; empty: the gateway's own."""

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
    SessionModelChosen,
    MessageReceived,
    MessageCompleted,
    ModelCallStarted,
    ModelCallCompleted,
    ModelCallFailed,
)


def apply(event: Event, rows: Rows) -> None:
    """Fold one event. Raise Conflict for a key or id that another session has: of two that create one, one wins."""
    if event.session_id is None:
        return
    row = rows.get(SESSIONS, (event.session_id,))
    if isinstance(event.body, SessionCreated):
        held = rows.get(SESSION_KEYS, (event.body.key,))
        if row is not None or (held is not None and held["session_id"]):
            raise Conflict(f'There is a session "{event.body.key}" already.', code="conflict.session")
        rows.put(SESSION_KEYS, {"key": event.body.key, "session_id": event.session_id})
        rows.put(SESSIONS, _begin(event, event.body))
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


def _forked(fact: SessionForked, rows: Rows) -> Row:
    """Return the changes of a fork, which inherits its parent's chosen model."""
    changes: Row = {"parent": fact.parent, "forked_at": fact.position}
    parent = rows.get(SESSIONS, (fact.parent,))
    if parent is not None:
        changes |= {name: parent[name] for name in ("chosen_model", "chosen_base_url")}
    return changes


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
        case _:
            return {}


def _title_from(text: str) -> str:
    """Return the first non-empty line, cut at a word if one ends in time."""
    line = " ".join(next(iter(text.strip().splitlines()), "").split())
    if len(line) <= TITLE_LENGTH:
        return line
    cut = line[: TITLE_LENGTH - 1]
    return f"{cut.rsplit(' ', 1)[0] if ' ' in cut[TITLE_LENGTH // 2 :] else cut}…"
