"""Operations that only the WebSocket has, because a kernel or a terminal needs another answer than a program (SPEC)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.approvals import ApprovalScope
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import Origin
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.messages import Channel
from ozzie_server_ext.gateway.access import Principal, answerer_of
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest.approval_shapes import ApprovalId, Binds, Comment
from ozzie_server_ext.gateway.rest.shapes import MAX_CONTENT, Limit, SessionId, SessionName, Title, Words
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.made_from import content_of
from ozzie_server_ext.skills.library import told
from ozzie_server_ext.tasks.budgets import Spent, costs_of
from ozzie_server_ext.tasks.completion import Completions
from ozzie_server_ext.tasks.service import NewTurn, SkillRequest, Submitted
from ozzie_server_ext.tasks.sessions import SessionInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpen:
    session_id: SessionId | None = None
    session_name: SessionName | None = None
    title: Title | None = None


async def open_session(call: Call, asked: SessionOpen) -> JsonObject:
    """A session by id, by name, or a kernel's own; its title, its model, and what it has used."""
    if asked.session_id is not None:
        info = await call.ozzie.sessions.get(ids.SessionId(asked.session_id))
    elif asked.session_name is not None:
        title = asked.title or asked.session_name
        by = call.principal.name
        info = await call.ozzie.sessions.open(asked.session_name, title=title, channel="ws", by=by)
    else:
        raise InputError("Which session? The parameter session_id is missing.", code="input.session")
    row = await call.ozzie.sessions.row(info.session_id)
    return {**encode(info), **encode(Spent.of_row(row)), "position": (await call.ozzie.log.head()).position}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionList:
    """With `archived`, those that were put away and no others."""

    limit: Limit = 50
    archived: bool = False


async def list_sessions(call: Call, asked: SessionList) -> JsonObject:
    """The sessions of this home, those in which something happened last first."""
    rows = await call.ozzie.sessions.list(limit=asked.limit, status="archived" if asked.archived else None)
    return {"items": [dict(row) for row in rows]}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFind:
    text: Words


async def find_session(call: Call, asked: SessionFind) -> SessionInfo:
    """The session that a person means: by its id, the end of its id, or its title."""
    return await call.ozzie.sessions.get(await call.ozzie.sessions.find(asked.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEarlier:
    session_id: SessionId
    cell_id: Words


async def find_earlier_runs(call: Call, asked: SessionEarlier) -> JsonObject:
    """What the session's cells did before, where this one is among them; without `earlier` where it is not."""
    found = await call.ozzie.earlier.of_cell(ids.SessionId(asked.session_id), asked.cell_id)
    return {} if found is None else {"earlier": encode(found)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCosts:
    session_id: SessionId


async def sum_session_costs(call: Call, asked: SessionCosts) -> JsonObject:
    """What the session's turns have cost, and all sessions together today."""
    row = await call.ozzie.sessions.row(ids.SessionId(asked.session_id))
    budgets = call.ozzie.config.settings.budgets
    return encode(await costs_of(call.ozzie.log, call.ozzie.today, row, budgets=budgets, project=call.ozzie.project))


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillAsked:
    """A skill, and its input as it was typed: `key=value` each, or one text."""

    name: Words
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSend:
    """`message_id`, a ULID of the sender's: sent again with the same one, it is the same message. Where it is not
    `attended`, nobody is there to be asked. `answer_schema`: a JSON Schema that the answer has to fit. `skill`: the one
    that is run in place of a turn; `content` is how that was asked for. `made_from`: the sources of a message that is
    no person's own, such as "web:example.org"."""

    content: str
    session_id: SessionId
    cell_id: Words = ""
    model: Words = ""
    message_id: Words | None = None
    attended: bool = True
    answer_schema: JsonObject | None = None
    skill: SkillAsked | None = None
    made_from: tuple[str, ...] = ()


def _channel(principal: Principal) -> Channel:
    match principal.kind:
        case "kernel":
            return Channel.NOTEBOOK
        case "user":
            return Channel.PAGE
        case "local":
            # An attached server relays its pages with the gateway's own token, and says where their paths begin.
            return Channel.CLI if principal.root is None else Channel.PAGE


async def send_message(call: Call, asked: MessageSend) -> Submitted:
    """A message becomes a turn: its task, and the position from which a feed shows all of it."""
    origin = Origin(
        channel=_channel(call.principal),
        sender_id=call.principal.name,
        sender_name=call.principal.name,
        kernel_id=call.principal.kernel_id,
        cell_id=asked.cell_id,
    )
    turn = NewTurn(
        ids.SessionId(asked.session_id),
        asked.content,
        origin,
        model=asked.model,
        message_id=None if asked.message_id is None else ids.MessageId(asked.message_id),
        attended=asked.attended,
        answer_schema=asked.answer_schema,
        content=content_of(asked.made_from),
        skill=None if asked.skill is None else SkillRequest(name=asked.skill.name, words=asked.skill.words),
    )
    return await call.ozzie.submit(turn)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswer:
    """`extent` and `binds` go with "approve", `comment` with "reject": see REST's `approvals/{approval_id}`."""

    approval_id: ApprovalId
    answer: Literal["approve", "reject", "renew"]
    extent: ApprovalScope = "once"
    comment: Comment = ""
    binds: Binds = ""


async def answer_approval(call: Call, asked: ApprovalAnswer) -> None:
    """Answer an approval, or have an expired one asked anew; a kernel's yes is the weakest, and for its own session."""
    by = answerer_of(call.principal)
    match asked.answer:
        case "approve":
            await call.ozzie.approvals.approve(asked.approval_id, by, extent=asked.extent, binds=asked.binds)
        case "reject":
            await call.ozzie.approvals.reject(asked.approval_id, by, comment=asked.comment)
        case "renew":
            await call.ozzie.approvals.renew(asked.approval_id, by)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillsQuery:
    """Nothing."""


async def list_skills(call: Call, asked: SkillsQuery) -> JsonObject:
    """Every skill that was found: what it does, how it is called, and why it is not used, where it is not."""
    shelf = await call.ozzie.skills.look()
    return {"skills": [told(found) for found in shelf.found]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoose:
    session_id: SessionId
    model: Words
    base_url: Annotated[str, Meta(max_length=2000, title="an address of at most 2,000 characters")] = ""


async def choose_model(call: Call, asked: ModelChoose) -> JsonObject:
    """From the next turn on, this model answers in the session. Says what it stands for."""
    session_id = ids.SessionId(asked.session_id)
    return await call.ozzie.models.choose(session_id, asked.model, asked.base_url, by=call.principal.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """`cursor` counts characters (code points) of `text`; negative means behind its end."""

    text: Annotated[str, Meta(max_length=MAX_CONTENT, title=f"text of at most {MAX_CONTENT:,} characters")]
    cursor: int = -1

    @property
    def at(self) -> int:
        return len(self.text) if self.cursor < 0 else self.cursor


async def complete(call: Call, asked: Typed) -> Completions:
    """What may follow at the cursor: files behind `@`, models and sessions behind their commands. A kernel is named
    no other session than its own."""
    own = call.principal.session_id
    return await call.ozzie.completion.complete(asked.text, asked.at, own=own, sees_all=own is None)


async def inspect(call: Call, asked: Typed) -> JsonObject:
    """What stands at the cursor: a tool, a model, a session, a file. Without `card` where it is nothing known."""
    card = await call.ozzie.inspection.inspect(asked.text, asked.at, sees_all=call.principal.session_id is None)
    return {} if card is None else {"card": encode(card)}


def from_s0_event(event: str, payload: JsonObject) -> tuple[str, JsonObject] | None:
    """The method that an event frame of a client stands for; S0 lets one send `user.message` that way."""
    return ("message.send", dict(payload)) if event == "user.message" else None
