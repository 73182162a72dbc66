"""`sessions`: list, show, create, rename, pin, archive, close, resume, erase; and `message`: send, erase."""

import asyncio
from typing import Any, Literal, cast
from uuid import uuid4

import msgspec

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.errors import Conflict, Unavailable
from ozzie_server_ext.domain.events import FINAL_TYPES, Origin, TaskWaitingApproval, TaskWaitingInput
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.messages import Channel
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest import shapes
from ozzie_server_ext.gateway.rest.shapes import (
    Accepted,
    Content,
    Done,
    Limit,
    Message,
    NumberCursor,
    Page,
    PinId,
    PinText,
    ProjectFolder,
    Session,
    SessionId,
    SessionName,
    SessionWithMessages,
    Title,
    TokenUsage,
    Words,
)
from ozzie_server_ext.gateway.rest.task_shapes import TaskWithSteps
from ozzie_server_ext.gateway.rest.tasks import task_with_steps
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.jsontext import loads
from ozzie_server_ext.store.session_models import with_providers
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.service import NewTurn, Submitted
from ozzie_server_ext.tasks.sessions import SessionInfo

CHANNEL = "rest"


class SessionsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Without a `status`, archived sessions are left out. `named`: sessions that a person could mean by this text,
    archived ones too: by id, end of id, or title."""

    status: Literal["active", "archived", "closed"] | None = None
    channel: Words | None = None
    named: Words | None = None
    limit: Limit = 50
    cursor: NumberCursor | None = None


async def list_sessions(call: Call, request: SessionsQuery) -> Page[Session]:
    """List sessions, the most recently active first."""
    if request.named is not None:
        found = await call.ozzie.sessions.fitting(request.named)
        named = await with_providers(call.ozzie.log, found[: request.limit])
        return Page(items=[session_shape(row) for row in named], next=None)
    rows = await call.ozzie.sessions.list(
        limit=request.limit + 1,
        after=None if request.cursor is None else int(request.cursor),
        status=request.status,
        channel=request.channel,
    )
    rows = await with_providers(call.ozzie.log, rows)
    return shapes.page(rows, request.limit, session_shape, lambda row: row["last_position"])


class SessionBegin(msgspec.Struct, frozen=True, kw_only=True):
    """`name`: open the session with this name if there is one. Without a title the session is titled by its name, or
    its first message. `project`: the folder whose files, rules and skills it uses."""

    name: SessionName | None = None
    title: Title | None = None
    project: ProjectFolder | None = None


async def create_session(call: Call, request: SessionBegin) -> Session:
    """Open the session of that name, or create one."""
    info = await open_session(call, request.name, title=request.title or "", project=request.project)
    return await session_of(call, info)


class SessionQuery(msgspec.Struct, frozen=True, kw_only=True):
    session_id: SessionId
    limit: Limit = 100
    cursor: NumberCursor | None = None


async def get_session(call: Call, request: SessionQuery) -> SessionWithMessages:
    """Show one session with its messages."""
    (row,) = await with_providers(call.ozzie.log, [await call.ozzie.sessions.row(ids.SessionId(request.session_id))])
    newest = await call.ozzie.log.rows(
        "messages",
        where={"session_id": request.session_id},
        order_by="position",
        descending=True,
        after=None if request.cursor is None else int(request.cursor),
        limit=request.limit + 1,
    )
    return SessionWithMessages(
        **_fields(row),
        messages=[_message(found) for found in reversed(newest[: request.limit])],
        next=shapes.next_of(newest, request.limit, lambda found: found["position"]),
    )


class SessionResume(msgspec.Struct, frozen=True, kw_only=True):
    """`name`: the only name that opens the session from now on; by default the name that it has."""

    session_id: SessionId
    name: SessionName | None = None


async def resume_session(call: Call, request: SessionResume) -> Session:
    """Resume a session: it takes messages again, and its name opens it."""
    session_id = ids.SessionId(request.session_id)
    row = await call.ozzie.sessions.row(session_id)
    info = await call.ozzie.sessions.resume(
        session_id, request.name or str(row["key"]) or request.session_id, by=call.principal.name
    )
    return await session_of(call, info)


class SessionRename(msgspec.Struct, frozen=True, kw_only=True):
    session_id: SessionId
    title: Title


async def rename_session(call: Call, request: SessionRename) -> Session:
    """Rename a session."""
    session_id = ids.SessionId(request.session_id)
    await call.ozzie.sessions.rename(session_id, request.title, by=call.principal.name)
    return await session_of(call, await call.ozzie.sessions.get(session_id))


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A pinned fact, which is part of every request of its session."""

    pin_id: str
    text: str
    by: str


class Pins(msgspec.Struct, frozen=True, kw_only=True):
    """The pinned facts in their order."""

    items: list[Pin]


class PinsQuery(msgspec.Struct, frozen=True, kw_only=True):
    session_id: SessionId


async def list_pins(call: Call, request: PinsQuery) -> Pins:
    """List the pinned facts of a session."""
    found = await call.ozzie.pins.of(ids.SessionId(request.session_id))
    return Pins(items=[Pin(pin_id=pin.pin_id, text=pin.text, by=pin.by) for pin in found])


class SessionPin(msgspec.Struct, frozen=True, kw_only=True):
    session_id: SessionId
    text: PinText


async def pin_fact(call: Call, request: SessionPin) -> Pins:
    """Pin a fact: every later request of the session has it, however long the session gets."""
    await call.ozzie.pins.pin(ids.SessionId(request.session_id), request.text, by=call.principal.name)
    return await list_pins(call, PinsQuery(session_id=request.session_id))


class SessionUnpin(msgspec.Struct, frozen=True, kw_only=True):
    session_id: SessionId
    pin_id: PinId


async def unpin_fact(call: Call, request: SessionUnpin) -> Pins:
    """Remove a pinned fact."""
    await call.ozzie.pins.unpin(ids.SessionId(request.session_id), request.pin_id, by=call.principal.name)
    return await list_pins(call, PinsQuery(session_id=request.session_id))


class SessionNamed(msgspec.Struct, frozen=True, kw_only=True):
    session_id: SessionId


async def archive_session(call: Call, request: SessionNamed) -> Session:
    """Archive a session; a new message restores it."""
    session_id = ids.SessionId(request.session_id)
    await call.ozzie.sessions.archive(session_id, by=call.principal.name)
    return await session_of(call, await call.ozzie.sessions.get(session_id))


async def close_session(call: Call, request: SessionNamed) -> Session:
    """Close a session: it takes no messages until it is resumed. Running turns go on."""
    session_id = ids.SessionId(request.session_id)
    await call.ozzie.sessions.close(session_id, by=call.principal.name)
    return await session_of(call, await call.ozzie.sessions.get(session_id))


async def erase_session(call: Call, request: SessionNamed) -> Done:
    """Erase a session: all that was said and done in it, for good.

    Its log keeps that it was there, and what it cost. Sessions that were forked from it lose the history that they
    began with. The answer comes when no trace is left.
    """
    await call.ozzie.erasures.erase_session(ids.SessionId(request.session_id), call.principal.name)
    return Done()


class MessageNamed(msgspec.Struct, frozen=True, kw_only=True):
    message_id: Words


async def erase_message(call: Call, request: MessageNamed) -> Done:
    """Erase a message and its whole turn for good: the answer, the tool calls, and the artifacts that it made.

    What other turns quote of it stays. The answer comes when no trace is left.
    """
    await call.ozzie.erasures.erase_message(ids.MessageId(request.message_id), call.principal.name)
    return Done()


async def open_session(
    call: Call, name: str | None, *, title: str = "", project: str | None = None, channel: str = CHANNEL
) -> SessionInfo:
    """Return the session of that name; without a name, a new session that only its id finds. `project` is its folder,
    by default the caller's.

    Raises InputError if there is no such folder, Conflict if the session of that name works in another.
    """
    held = await call.ozzie.sessions.holder(name) if name else None
    if held is not None and project is None:
        return await call.ozzie.sessions.get(held)
    found = await call.project(folder=project)
    key, title = name or f"{channel}:{uuid4().hex}", title or name or ""
    by = call.principal.name
    info = await call.ozzie.sessions.open(key, title=title, channel=channel, by=by, project=found.root)
    if project is not None and (await call.project(info.session_id)).root != found.root:
        raise Conflict(
            f"The session of that name works in {info.project or call.ozzie.projects.own.root}.",
            hint="Choose another name for a session in this folder.",
            code="session.project",
        )
    return info


def info_of(session: Session) -> JsonObject:
    """Return the WebSocket's answer."""
    return encode(
        SessionInfo(
            session_id=ids.SessionId(session.id),
            title=session.title,
            channel=session.channel,
            status=session.status,
            model=session.chosen_model,
            base_url=session.chosen_base_url,
            message_count=session.message_count,
            project=session.project,
        )
    )


def session_shape(row: Row) -> Session:
    """Return a row of the table `sessions` as clients see it."""
    return Session(**_fields(row))


def _fields(row: Row) -> dict[str, Any]:
    values = cast("dict[str, Any]", row)
    made = {
        "id": values["session_id"],
        "name": values["key"],
        "token_usage": TokenUsage(input=values["input_tokens"], output=values["output_tokens"]),
        "cost": values["cost"] if values["cost_known"] else None,
        "parent": values["parent"] or None,
    }
    return {name: values[name] for name in Session.__struct_fields__ if name not in made} | made


async def session_of(call: Call, info: SessionInfo) -> Session:
    """Return a session as clients see it."""
    (row,) = await with_providers(call.ozzie.log, [await call.ozzie.sessions.row(info.session_id)])
    return session_shape(row)


def _message(row: Row) -> Message:
    values = cast("dict[str, Any]", row)
    labels: Any = loads(values["labels"])
    return Message(
        message_id=values["message_id"],
        task_id=values["task_id"],
        role=values["role"],
        content=values["text"],
        finish=values["finish"],
        ts=values["ts"],
        position=values["position"],
        labels=labels,
    )


MAX_WAIT_S = 600.0
_RESTS = FINAL_TYPES | {TaskWaitingInput.type, TaskWaitingApproval.type}


class MessageSend(msgspec.Struct, frozen=True, kw_only=True):
    """`session_id` or `session_name` chooses the session; without either, a new one is created. `model`: for this turn
    only. `wait`: answer at the end of the turn, or when it asks a question (only if `attended`). `answer_schema`: a
    JSON Schema that the answer must fit; the task's `answer` is then its value.

    A plain message answers the question that its session waits with, and without `wait` it is an update of the sender's
    running task: `became` says which."""

    content: Content
    session_id: SessionId | None = None
    session_name: SessionName | None = None
    model: Words = ""
    wait: bool = False
    attended: bool = True
    answer_schema: JsonObject | None = None


async def send_message(call: Call, request: MessageSend) -> Accepted | TaskWithSteps:
    """Send a message. Its turn goes on even if the client disconnects.

    The response comes at once (202), or with `wait` at the turn's end or when it asks a question (200). A turn that
    takes more than ten minutes gets a 202 then.
    """
    if request.session_id:
        session_id = ids.SessionId(request.session_id)
    else:
        session_id = (await open_session(call, request.session_name)).session_id
    name = call.principal.name
    origin = Origin(channel=Channel.REST, sender_id=name, sender_name=name)
    turn = NewTurn(
        session_id,
        request.content,
        origin,
        model=request.model,
        attended=request.attended,
        answer_schema=request.answer_schema,
        may_update=not request.wait,
    )
    sent = await call.ozzie.submit(turn)
    if request.wait and await _ended(call, sent):
        return await task_with_steps(call, sent.task_id)
    return Accepted(
        task_id=sent.task_id,
        message_id=sent.message_id,
        session_id=session_id,
        position=sent.position,
        ahead=sent.ahead,
        became=sent.became,
    )


async def _ended(call: Call, sent: Submitted) -> bool:
    """Wait for the turn's end or its question. Return False if the client is gone or it takes too long.

    Raises Unavailable if the gateway stops first.
    """
    async with call.ozzie.feed.subscribe(sent.position, types=_RESTS, task_id=sent.task_id) as feed:
        end = asyncio.ensure_future(anext(feed, None))
        gone = asyncio.ensure_future(call.gone.wait())
        try:
            await asyncio.wait({end, gone}, timeout=MAX_WAIT_S, return_when=asyncio.FIRST_COMPLETED)
            if end.done() and end.result() is None:
                raise Unavailable(
                    "The gateway stops.", hint=f"The task {sent.task_id} goes on as soon as a gateway runs."
                )
            return end.done()
        finally:
            end.cancel()
            gone.cancel()
