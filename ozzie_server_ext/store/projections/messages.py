"""The messages of every session, in order of position."""

from ozzie_server_ext.domain.events import (
    Event,
    MessageCompleted,
    MessageReceived,
    MessageRejected,
    PromptAnswered,
    TaskUpdated,
)
from ozzie_server_ext.store.codec import strings_text, time_text
from ozzie_server_ext.store.projections.tasks import is_delegated
from ozzie_server_ext.store.tables import Rows, Table, integer, text

MESSAGES = Table(
    "messages",
    (
        *text("message_id"),
        *text("session_id", "task_id", nullable=True),
        *text("role", "text", "finish", "ts"),
        *integer("position"),
        *text("labels", "cell_id"),
    ),
    key=("message_id",),
    indexes=(("session_id", "position"), ("task_id",)),
)
"""`message_id` is the `reply_id` of an assistant's message. `finish` is empty for a user's message, "rejected" for a
reply that does not match the requested schema. `labels` is a JSON list. `cell_id` is the notebook cell that a user's
message came from, or empty."""

TABLES = (MESSAGES,)

HANDLES = (MessageReceived, MessageCompleted, MessageRejected, PromptAnswered, TaskUpdated)


def apply(event: Event, rows: Rows) -> None:
    """Fold one event. A repeated id replaces the earlier message. Messages within a delegated task are left out, except
    what a person wrote to the session."""
    if is_delegated(event.task_id, rows) and not isinstance(event.body, PromptAnswered):
        return
    match event.body:
        case PromptAnswered(message_id=str(id_), text=text) | TaskUpdated(message_id=str(id_), text=text):
            role, finish, cell_id = "user", "", ""
        case MessageReceived(message_id=id_, text=text, origin=origin):
            role, finish, cell_id = "user", "", origin.cell_id
        case MessageCompleted(reply_id=id_, text=text, finish=finish):
            role, cell_id = "assistant", ""
        case MessageRejected(reply_id=id_):
            if (reply := rows.get(MESSAGES, (id_,))) is not None:
                rows.put(MESSAGES, {**reply, "finish": "rejected"})
            return
        case _:
            return
    row = MESSAGES.row(
        message_id=id_,
        session_id=event.session_id,
        task_id=event.task_id,
        role=role,
        text=text,
        finish=finish,
        ts=time_text(event.ts),
        position=event.position,
        labels=strings_text(event.labels),
        cell_id=cell_id,
    )
    rows.put(MESSAGES, row)
