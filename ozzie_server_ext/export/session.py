"""Reads a session with all its turns from the log, as an export shows it."""

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from ozzie_server_ext.agent.conversations import lineage_of
from ozzie_server_ext.domain.events import (
    Erased,
    Event,
    MessageErased,
    MessageReceived,
    PromptAnswered,
    TaskUpdated,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.export.proof import digest_of
from ozzie_server_ext.render.graph.view import GraphView
from ozzie_server_ext.render.turn import new_turn
from ozzie_server_ext.render.turnview import TurnView
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog, Head
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.views import FoldedTurn, RunTasks, fold_events

_PAGE = 500


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said: the message of a turn, a further one to it, or an answer to its question. `by` is a name;
    empty if the channel had none."""

    text: str
    by: str
    at: datetime
    as_what: Literal["message", "update", "answer"] = "message"


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as of now, of so many `events` with that `digest`. `graph` shows a run's steps. `messages` has at least
    the one that began it."""

    task_id: TaskId
    messages: tuple[Message, ...]
    view: TurnView
    graph: GraphView | None
    events: int
    digest: str
    position: int


class ErasedTurn(msgspec.Struct, frozen=True):
    """Stands for a turn that a person erased, or, without a name, for all of a session that this one was forked
    from."""

    by: str
    at: datetime
    position: int


Part: TypeAlias = Turn | ErasedTurn


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """What of a log is exported: a session up to the event at `head`, with the history that it was forked with. `spans`
    are the sessions that it consists of, each with the position before which; `log` is the hash of the log's first
    event, which identifies it."""

    row: Row
    spans: tuple[tuple[SessionId, int], ...]
    head: Head
    log: str

    @property
    def session_id(self) -> SessionId:
        return SessionId(str(self.row["session_id"]))

    @property
    def title(self) -> str:
        return str(self.row["title"])


class ExportedSession(msgspec.Struct, frozen=True):
    """A session with all its turns."""

    extent: Extent
    parts: tuple[Part, ...]

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(part for part in self.parts if isinstance(part, Turn))


async def extent_of(log: EventLog, row: Row) -> Extent:
    """Return a session as of now, by its row. Raise what reading the log raises."""
    head = await log.head()
    lineage = await lineage_of(log, SessionId(str(row["session_id"])))
    spans = tuple((each, head.position + 1 if end is None else end) for each, end in lineage)
    return Extent(row=row, spans=spans, head=head, log=await log.hash_at(1) or "")


async def read_session(log: EventLog, blobs: BlobStore, extent: Extent) -> ExportedSession:
    """Return the turns of a session. Raise what reading the log raises."""
    parts: list[Part] = []
    for session_id, before in extent.spans:
        row = await log.row("sessions", session_id)
        if row is not None and row["status"] == "erased":
            parts.append(ErasedTurn("", datetime.fromisoformat(str(row["updated_at"])), 0))
        for task in await log.rows("tasks", where={"session_id": session_id}, order_by="created_at"):
            if task["parent_id"] is None and (turn := await _turn(log, blobs, task, before)) is not None:
                parts.append(turn)
        parts += await _erased_turns(log, session_id, before)
    return ExportedSession(extent, tuple(sorted(parts, key=lambda part: part.position)))


async def _turn(log: EventLog, blobs: BlobStore, task: Row, before: int) -> Turn | None:
    """Return a turn up to the event `before`; None if it had not begun."""
    task_id = TaskId(str(task["task_id"]))
    events = await events_before(log, before, task_id=task_id)
    if not events:
        return None
    session_id = SessionId(str(task["session_id"]))
    begun = FoldedTurn(view=new_turn(task_id=task_id, session_id=session_id))
    folded = fold_events(begun, [event for event in events if not isinstance(event.body, Erased)])
    graph = folded.graph
    if graph is not None:
        graph = await (await RunTasks.of(log, task_id)).add_to(graph, task, log, blobs)
    messages = tuple(message for event in events if (message := _message(event)) is not None)
    if not messages:  # a turn that nobody's message began has its title
        messages = (Message(text=str(task["title"]), by=str(task["sender_id"]), at=events[0].ts),)
    return Turn(
        task_id=task_id,
        messages=messages,
        view=folded.view,
        graph=graph,
        events=len(events),
        digest=digest_of((event.position, event.hash) for event in events),
        position=events[0].position,
    )


async def events_before(
    log: EventLog, before: int, *, session_id: SessionId | None = None, task_id: TaskId | None = None
) -> tuple[Event, ...]:
    """Return all events of a session or task before that position; erased ones have the body `Erased`."""
    found: list[Event] = []
    after = 0
    while page := await log.read(
        after=after, before=before, session_id=session_id, task_id=task_id, limit=_PAGE, erased=True
    ):
        found += page
        after = page[-1].position
    return tuple(found)


def _message(event: Event) -> Message | None:
    match event.body:
        case MessageReceived(text=text, origin=origin):
            return Message(text=text, by=origin.sender_name or origin.sender_id, at=event.ts)
        case TaskUpdated(text=text, by=by):
            return Message(text=text, by=by, at=event.ts, as_what="update")
        case PromptAnswered(text=text, by=by) if text:
            return Message(text=text, by=by, at=event.ts, as_what="answer")
        case _:
            return None


async def _erased_turns(log: EventLog, session_id: SessionId, before: int) -> list[Part]:
    types = frozenset({MessageErased.type})
    events = await log.read(session_id=session_id, types=types, limit=1 << 30)
    return [
        ErasedTurn(event.body.by, event.ts, event.body.first)
        for event in events
        if isinstance(event.body, MessageErased) and event.body.first < before
    ]
