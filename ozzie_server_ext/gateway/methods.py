"""The methods of the WebSocket protocol: parameters in, payload out, nothing else."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from ozzie_server_ext.domain.approvals import ApprovalScope, AuthStrength
from ozzie_server_ext.domain.errors import InputError, PolicyError
from ozzie_server_ext.domain.events import Origin
from ozzie_server_ext.domain.ids import MessageId, PromptId, SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.messages import Channel
from ozzie_server_ext.gateway.access import Principal
from ozzie_server_ext.gateway.services import Services
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.protocol.made_from import content_of
from ozzie_server_ext.skills.library import told
from ozzie_server_ext.tasks.answers import ALL_SCOPES, OWN_SCOPES
from ozzie_server_ext.tasks.approvals import Answerer
from ozzie_server_ext.tasks.budgets import Spent, costs_of


def answerer_of(principal: Principal) -> Answerer:
    """Who answers an approval: a kernel for its own session alone, anybody else for all of them."""
    return Answerer(name=principal.name, way=_way(principal), session_id=principal.session_id)


def _way(principal: Principal) -> AuthStrength:
    match principal.kind:
        case "kernel":
            return AuthStrength.RELAY
        case "user":
            return AuthStrength.BROWSER
        case "local":
            # An attached server relays its pages with the gateway's own token, and says where their paths begin.
            return AuthStrength.CLI if principal.root is None else AuthStrength.BROWSER


@dataclass(frozen=True, slots=True)
class Call:
    """A request with its caller."""

    ozzie: Services
    principal: Principal
    params: JsonObject

    def session(self, asked: str) -> SessionId:
        """The session meant. Raises PolicyError where it is not the caller's, InputError where none is named."""
        own = self.principal.session_id
        if own is not None and asked and asked != own:
            raise PolicyError("This kernel may use its own session only.", code="policy.session")
        if not (own or asked):
            raise InputError("Which session? The parameter session_id is missing.", code="input.session")
        return own or SessionId(asked)

    def expect_all_sessions(self) -> None:
        """Raises PolicyError for a caller who may know of its own session only."""
        if self.principal.session_id is not None:
            raise PolicyError("This kernel may use its own session only.", code="policy.session")

    async def expect_own(self, task_id: TaskId, to: str) -> None:
        """Raises PolicyError for a kernel and a task of another session; NotFound."""
        row = await self.ozzie.tasks.get(task_id)
        if self.principal.session_id not in (None, row["session_id"]):
            raise PolicyError(f"This kernel may {to} tasks of its own session only.", code="policy.session")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNamed:
    task_id: str


async def task_retry(call: Call) -> JsonObject:
    """Try a task again that failed or was stopped; a kernel may those of its own session."""
    task_id = TaskId(decode(TaskNamed, call.params).task_id)
    await call.expect_own(task_id, "retry")
    return encode(await call.ozzie.control.retries.retry(task_id, by=call.principal.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPause:
    task_id: str
    reason: str = ""


async def task_pause(call: Call) -> JsonObject:
    """Hold a task; a kernel may those of its own session."""
    asked = decode(TaskPause, call.params)
    await call.expect_own(TaskId(asked.task_id), "pause")
    await call.ozzie.control.pauses.pause(TaskId(asked.task_id), by=call.principal.name, reason=asked.reason)
    return {}


async def task_resume(call: Call) -> JsonObject:
    """Let a task go on that is held; a kernel may those of its own session."""
    task_id = TaskId(decode(TaskNamed, call.params).task_id)
    await call.expect_own(task_id, "resume")
    await call.ozzie.control.pauses.resume(task_id, by=call.principal.name)
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTell:
    task_id: str
    event: str
    data: JsonObject | None = None
    key: str = ""


async def task_tell(call: Call) -> JsonObject:
    """Tell a run of something that happened outside; a kernel may those of its own session."""
    asked = decode(TaskTell, call.params)
    task_id = TaskId(asked.task_id)
    await call.expect_own(task_id, "tell")
    by = call.principal.name
    return {"heard": await call.ozzie.control.tells.tell(task_id, asked.event, asked.data, by=by, key=asked.key)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUpdate:
    task_id: str
    text: str
    key: str = ""


async def task_update(call: Call) -> JsonObject:
    """Say something more to a task; a kernel may to those of its own session."""
    asked = decode(TaskUpdate, call.params)
    await call.expect_own(TaskId(asked.task_id), "update")
    by = call.principal.name
    await call.ozzie.control.updates.update(TaskId(asked.task_id), asked.text, by=by, key=asked.key)
    return {}


TASK_METHODS: dict[str, Callable[[Call], Awaitable[JsonObject]]] = {
    "task.retry": task_retry,
    "task.pause": task_pause,
    "task.resume": task_resume,
    "task.tell": task_tell,
    "task.update": task_update,
}


MAX_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpen:
    session_id: str = ""
    session_name: str = ""
    title: str = ""


async def session_open(call: Call) -> JsonObject:
    """A session by id, by name, or a kernel's own; its title, its model, and what it has used."""
    asked = decode(SessionOpen, call.params)
    if asked.session_name and not asked.session_id and call.principal.session_id is None:
        title = asked.title or asked.session_name
        by = call.principal.name
        info = await call.ozzie.sessions.open(asked.session_name, title=title, channel="ws", by=by)
    else:
        info = await call.ozzie.sessions.get(call.session(asked.session_id))
    row = await call.ozzie.sessions.row(info.session_id)
    return {**encode(info), **encode(Spent.of_row(row)), "position": (await call.ozzie.log.head()).position}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionList:
    """`limit` at most 500; with `archived`, those that were put away and no others."""

    limit: int = 50
    archived: bool = False


async def session_list(call: Call) -> JsonObject:
    """The sessions of this home, those in which something happened last first."""
    asked = decode(SessionList, call.params)
    call.expect_all_sessions()
    limit = min(max(asked.limit, 1), MAX_PAGE)
    rows = await call.ozzie.sessions.list(limit=limit, status="archived" if asked.archived else None)
    return {"items": [dict(row) for row in rows]}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFind:
    text: str


async def session_find(call: Call) -> JsonObject:
    """The session that a person means: by its id, the end of its id, or its title."""
    asked = decode(SessionFind, call.params)
    call.expect_all_sessions()
    return encode(await call.ozzie.sessions.get(await call.ozzie.sessions.find(asked.text)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRename:
    title: str
    session_id: str = ""


async def session_rename(call: Call) -> JsonObject:
    asked = decode(SessionRename, call.params)
    session_id = call.session(asked.session_id)
    await call.ozzie.sessions.rename(session_id, asked.title, by=call.principal.name)
    return encode(await call.ozzie.sessions.get(session_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionNamed:
    session_id: str = ""


async def session_archive(call: Call) -> JsonObject:
    """Put a session away; a message in it brings it back."""
    session_id = call.session(decode(SessionNamed, call.params).session_id)
    await call.ozzie.sessions.archive(session_id, by=call.principal.name)
    return encode(await call.ozzie.sessions.get(session_id))


async def session_close(call: Call) -> JsonObject:
    """The session takes no more messages until it is resumed; what runs in it goes on."""
    session_id = call.session(decode(SessionNamed, call.params).session_id)
    await call.ozzie.sessions.close(session_id, by=call.principal.name)
    return encode(await call.ozzie.sessions.get(session_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEarlier:
    cell_id: str
    session_id: str = ""


async def session_earlier(call: Call) -> JsonObject:
    """What the session's cells did before, where this one is among them; without `earlier` where it is not."""
    asked = decode(SessionEarlier, call.params)
    found = await call.ozzie.earlier.of_cell(call.session(asked.session_id), asked.cell_id)
    return {} if found is None else {"earlier": encode(found)}


async def session_costs(call: Call) -> JsonObject:
    """What the session's turns have cost, and all sessions together today."""
    session_id = call.session(decode(SessionNamed, call.params).session_id)
    row, budgets = await call.ozzie.sessions.row(session_id), call.ozzie.config.settings.budgets
    found = await costs_of(call.ozzie.log, call.ozzie.today, row, budgets=budgets, project=call.ozzie.project)
    return encode(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillAsked:
    """A skill, and its input as it was typed: `key=value` each, or one text."""

    name: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSend:
    """`message_id`, a ULID of the sender's: sent again with the same one, it is the same message. Where it is not
    `attended`, nobody is there to be asked. `answer_schema`: a JSON Schema that the answer has to fit. `skill`: the one
    that is run in place of a turn; `content` is how that was asked for. `made_from`: the sources of a message that is
    no person's own, such as "web:example.org"."""

    content: str
    session_id: str = ""
    cell_id: str = ""
    model: str = ""
    message_id: str = ""
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


async def message_send(call: Call) -> JsonObject:
    """A message becomes a turn: its task, and the position from which a feed shows all of it."""
    asked = decode(MessageSend, call.params)
    origin = Origin(
        channel=_channel(call.principal),
        sender_id=call.principal.name,
        sender_name=call.principal.name,
        kernel_id=call.principal.kernel_id,
        cell_id=asked.cell_id,
    )
    session_id = call.session(asked.session_id)
    message_id = MessageId(asked.message_id) if asked.message_id else None
    content = content_of(asked.made_from)
    if asked.skill is not None:
        begun = await call.ozzie.run_skill(
            session_id,
            asked.skill.name,
            asked.skill.words,
            origin,
            text=asked.content,
            model=asked.model,
            message_id=message_id,
            attended=asked.attended,
            content=content,
        )
        return encode(begun)
    sent = await call.ozzie.submit(
        session_id,
        asked.content,
        origin,
        model=asked.model,
        message_id=message_id,
        attended=asked.attended,
        answer_schema=asked.answer_schema,
        content=content,
    )
    return encode(sent)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCancel:
    task_id: str
    reason: str = ""


async def task_cancel(call: Call) -> JsonObject:
    """Stop a task; a kernel may stop those of its own session."""
    asked = decode(TaskCancel, call.params)
    await call.expect_own(TaskId(asked.task_id), "stop")
    await call.ozzie.tasks.cancel(TaskId(asked.task_id), by=call.principal.name, reason=asked.reason)
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAnswer:
    """See REST's `tasks/{task_id}/answer`."""

    task_id: str
    option: str
    amount: int | None = None
    text: str = ""
    prompt_id: str = ""


async def task_answer(call: Call) -> JsonObject:
    """Answer what a task waits to be told; a kernel may answer those of its own session."""
    asked = decode(TaskAnswer, call.params)
    await call.expect_own(TaskId(asked.task_id), "answer")
    await call.ozzie.answers.answer(
        TaskId(asked.task_id),
        asked.option,
        by=call.principal.name,
        prompt_id=PromptId(asked.prompt_id) if asked.prompt_id else None,
        amount=asked.amount,
        text=asked.text,
        scopes=ALL_SCOPES if call.principal.session_id is None else OWN_SCOPES,
    )
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswer:
    """`extent` and `binds` go with "approve", `comment` with "reject": see REST's `approvals/{approval_id}`."""

    approval_id: str
    answer: Literal["approve", "reject", "renew"]
    extent: ApprovalScope = "once"
    comment: str = ""
    binds: str = ""


async def approval_answer(call: Call) -> JsonObject:
    """Answer an approval, or have an expired one asked anew; a kernel's yes is the weakest, and for its own session."""
    asked = decode(ApprovalAnswer, call.params)
    by = answerer_of(call.principal)
    match asked.answer:
        case "approve":
            await call.ozzie.approvals.approve(asked.approval_id, by, extent=asked.extent, binds=asked.binds)
        case "reject":
            await call.ozzie.approvals.reject(asked.approval_id, by, comment=asked.comment)
        case "renew":
            await call.ozzie.approvals.renew(asked.approval_id, by)
    return {}


async def skills_list(call: Call) -> JsonObject:
    """Every skill that was found: what it does, how it is called, and why it is not used, where it is not."""
    shelf = await call.ozzie.skills.look()
    return {"skills": [told(found) for found in shelf.found]}


async def models_list(call: Call) -> JsonObject:
    """Every model that can be chosen, the default, and what was found on this machine and is not used yet."""
    return await call.ozzie.models.listing()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoose:
    model: str
    session_id: str = ""
    base_url: str = ""


async def model_choose(call: Call) -> JsonObject:
    """From the next turn on, this model answers in the session. Says what it stands for."""
    asked = decode(ModelChoose, call.params)
    session_id = call.session(asked.session_id)
    return await call.ozzie.models.choose(session_id, asked.model, asked.base_url, by=call.principal.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """`cursor` counts characters (code points) of `text`; negative means behind its end."""

    text: str
    cursor: int = -1

    @property
    def at(self) -> int:
        return len(self.text) if self.cursor < 0 else self.cursor


async def complete(call: Call) -> JsonObject:
    """What may follow at the cursor: files behind `@`, models and sessions behind their commands. A kernel is named
    no other session than its own."""
    asked = decode(Typed, call.params)
    own = call.principal.session_id
    return encode(await call.ozzie.completion.complete(asked.text, asked.at, own=own, sees_all=own is None))


async def inspect(call: Call) -> JsonObject:
    """What stands at the cursor: a tool, a model, a session, a file. Without `card` where it is nothing known."""
    asked = decode(Typed, call.params)
    card = await call.ozzie.inspection.inspect(asked.text, asked.at, sees_all=call.principal.session_id is None)
    return {} if card is None else {"card": encode(card)}


METHODS: dict[str, Callable[[Call], Awaitable[JsonObject]]] = {
    "session.open": session_open,
    "session.list": session_list,
    "session.find": session_find,
    "session.rename": session_rename,
    "session.archive": session_archive,
    "session.close": session_close,
    "session.costs": session_costs,
    "session.earlier": session_earlier,
    "message.send": message_send,
    "task.cancel": task_cancel,
    "task.answer": task_answer,
    **TASK_METHODS,
    "approval.answer": approval_answer,
    "skills.list": skills_list,
    "models.list": models_list,
    "model.choose": model_choose,
    "complete": complete,
    "inspect": inspect,
}
"""All methods but those of the feed, which are the connection's own."""


def from_s0_event(event: str, payload: JsonObject) -> tuple[str, dict[str, Any]] | None:
    """The method that an event frame of a client stands for; S0 lets one send `user.message` that way."""
    return ("message.send", dict(payload)) if event == "user.message" else None
