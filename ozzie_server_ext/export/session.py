"""Reads a session with all its turns from the log, as an export shows it."""

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.events import (
    Erased,
    Event,
    MessageReceived,
    PromptAnswered,
    TaskUpdated,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.export.proof import digest_of
from ozzie_server_ext.render.graph.view import GraphView
from ozzie_server_ext.render.turnfold import new_turn
from ozzie_server_ext.render.turnview import TurnView
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.lineage import Stretch, lineage_of, read_part
from ozzie_server_ext.store.log import EventLog, Head
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.turns import erased_sessions, turns_of
from ozzie_server_ext.tasks.views import FoldedTurn, RunTasks, fold_events


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


class ErasedTurn(msgspec.Struct, frozen=True):
    """Stands for a turn that a person erased, or, without a name, for all of a session that this one was forked
    from."""

    by: str
    at: datetime


Part: TypeAlias = Turn | ErasedTurn


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """What of a log is exported: a session up to the event at `head`, with the history that it was forked with, which
    are its `parts`; `log` is the hash of the log's first event, which identifies it."""

    row: Row
    parts: tuple[Stretch, ...]
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
    """Return a session as of now, by its row. Raises what reading the log raises."""
    head = await log.head()
    lineage = await lineage_of(log, SessionId(str(row["session_id"])))
    parts = (*lineage[:-1], replace(lineage[-1], until=head.position))
    return Extent(row=row, parts=parts, head=head, log=await log.hash_at(1) or "")


async def read_session(log: EventLog, blobs: BlobStore, extent: Extent) -> ExportedSession:
    """Return the turns of a session. Raises what reading the log raises."""
    until = {part.session_id: part for part in extent.parts}
    parts: list[Part] = [ErasedTurn("", at) for at in await erased_sessions(log, extent.parts)]
    parts += [
        ErasedTurn(turn.erased_by, turn.at)
        if turn.row is None
        else await _turn(log, blobs, turn.row, until[turn.session_id])
        for turn in await turns_of(log, extent.parts)
    ]
    return ExportedSession(extent, tuple(parts))


async def _turn(log: EventLog, blobs: BlobStore, task: Row, part: Stretch) -> Turn:
    """Return a turn as far as it belongs to the session."""
    task_id = TaskId(str(task["task_id"]))
    events = await read_part(log, part, task_id=task_id, erased=True)
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
    )


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
