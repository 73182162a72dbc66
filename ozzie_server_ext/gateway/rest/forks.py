"""`sessions`: the turns of a session, forks from any of them, and the tree of forks."""

import asyncio
import os
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest.sessions import CHANNEL, SessionNamed, session_of
from ozzie_server_ext.gateway.rest.shapes import Page, Session, SessionId, Time, Title
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.lineage import lineage_of
from ozzie_server_ext.tasks.forks import ChangedFile, DoneCall
from ozzie_server_ext.tasks.sessions import notebook_key
from ozzie_server_ext.tasks.turns import turns_of

MOST_FORKS = 1000

Number = Annotated[int, Meta(ge=1, le=1_000_000)]
Position = Annotated[int, Meta(ge=1, le=(1 << 63) - 2)]
NewNotebook = Annotated[
    str,
    Meta(
        pattern=r"^/[^\u0000-\u001f]*\.ipynb$(?!\n)",
        max_length=4096,
        title="an absolute path that ends in .ipynb",
        description="The notebook of the fork, which is not there yet.",
    ),
]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn of a session, counted from 1. `title` is the beginning of its message, `by` who sent it. It ran in the
    session `session_id`: in this one, or one that it was forked from; then what it did up to the event `until` is part
    of this session. `status` is that of its task; "cut", if the session was forked in its middle; or "erased": then it
    has neither title nor task."""

    number: int
    task_id: str | None
    session_id: str
    title: str
    by: str
    status: str
    at: Time
    until: int | None


async def list_turns(call: Call, request: SessionNamed) -> Page[Turn]:
    """List the turns of a session in their order, with those that it shares with the session it was forked from."""
    session_id = ids.SessionId(request.session_id)
    await call.ozzie.sessions.row(session_id)
    turns = await turns_of(call.ozzie.log, await lineage_of(call.ozzie.log, session_id))
    return Page(
        items=[
            Turn(
                number=turn.number,
                task_id=None if turn.row is None else turn.task_id,
                session_id=turn.session_id,
                title="" if turn.row is None else str(turn.row["title"]),
                by="" if turn.row is None else str(turn.row["sender_id"]),
                status=turn.status,
                at=time_text(turn.at),
                until=turn.until,
            )
            for turn in turns
        ],
        next=None,
    )


class SessionFork(msgspec.Struct, frozen=True, kw_only=True):
    """`turn`: the number of the last turn that the fork begins with; `event`: the position of its last event. Without
    either, it begins with all turns that are over. `notebook`: the fork is that of a new notebook, whose text is in the
    answer."""

    session_id: SessionId
    turn: Number | None = None
    event: Position | None = None
    title: Title | None = None
    notebook: NewNotebook | None = None


class Fork(msgspec.Struct, frozen=True, kw_only=True):
    """A new fork, with the `turn` after which it begins; 0 if it began at an event, or before all turns. `left_out`:
    earlier turns that are not over, and so no part of it. What has happened that it does not know: `done`, the calls
    with effects, and `files` of the project that are not as its turns read or wrote them. `notebook` is the text of its
    notebook, null if none was asked for."""

    session: Session
    turn: int
    left_out: list[int]
    done: list[DoneCall]
    files: list[ChangedFile]
    notebook: str | None


async def fork_session(call: Call, request: SessionFork) -> Fork:
    """Fork a session: create one that begins with its history up to a turn or an event.

    Effects stay done, and files are not restored. Labels are inherited, approvals are not.
    """
    if request.turn is not None and request.event is not None:
        hint = "Leave one of them out."
        raise Conflict("A fork is from a turn or from an event, not both.", hint=hint, code="conflict.fork")
    if request.notebook is not None and await asyncio.to_thread(os.path.lexists, request.notebook):
        raise Conflict(f"{request.notebook} is there already.", hint="Name a new file.", code="conflict.file")
    session_id = ids.SessionId(request.session_id)
    await call.ozzie.sessions.row(session_id)
    project = await call.project(session_id)
    forked = await project.forks.fork(
        session_id,
        "" if request.notebook is None else notebook_key(request.notebook),
        channel=CHANNEL if request.notebook is None else "notebook",
        by=call.principal.name,
        title=request.title or "",
        turn=request.turn,
        event=request.event,
    )
    return Fork(
        session=await session_of(call, forked.info),
        turn=forked.turn,
        left_out=list(forked.left_out),
        done=list(forked.done),
        files=list(forked.files),
        notebook=None if request.notebook is None else await call.ozzie.exports.notebook_of_fork(forked),
    )


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """A session of a tree. `parent` is the one that it was forked from, null for the first; `turn` is the number of the
    turn after which it was forked, 0 if it was forked elsewhere."""

    id: str
    title: str
    status: Literal["active", "archived", "closed", "erased"]
    parent: str | None
    turn: int


async def get_session_tree(call: Call, request: SessionNamed) -> Page[Branch]:
    """Show the tree of forks that a session belongs to: at most 1,000 sessions, the first one first."""
    await call.ozzie.sessions.row(ids.SessionId(request.session_id))
    rows = await call.ozzie.sessions.tree(ids.SessionId(request.session_id), most=MOST_FORKS)
    return msgspec.convert(
        {
            "items": [
                {
                    "id": row["session_id"],
                    "title": row["title"],
                    "status": row["status"],
                    "parent": row["parent"] or None,
                    "turn": row["forked_turn"],
                }
                for row in rows
            ],
            "next": None,
        },
        Page[Branch],
    )
