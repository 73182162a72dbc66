"""What is asked over the WebSocket alone, such as `message.send`, of which REST has a form of its own (`rest/`); and
`confirm_message`, which both have."""

from base64 import b64decode
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.approvals import ApprovalScope, AuthStrength
from ozzie_server_ext.domain.errors import InputError, OzzieError, PolicyError
from ozzie_server_ext.domain.events import ModelCallStarted, Origin
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.messages import Channel, GivenPicture
from ozzie_server_ext.gateway.access import Principal, answerer_of
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest import sessions
from ozzie_server_ext.gateway.rest.approval_shapes import ApprovalId, Binds, Comment
from ozzie_server_ext.gateway.rest.shapes import (
    MAX_CONTENT,
    Done,
    Limit,
    ProjectFolder,
    SessionId,
    SessionName,
    Title,
    Words,
)
from ozzie_server_ext.policy.words import Confirmation
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.frames import MAX_FRAME_BYTES
from ozzie_server_ext.protocol.jsontext import loads_object
from ozzie_server_ext.protocol.made_from import content_of
from ozzie_server_ext.skills.library import describe
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.tasks.budgets import Spent, costs_of
from ozzie_server_ext.tasks.completion import Completions
from ozzie_server_ext.tasks.confirmations import MOST_PARTS, Execution
from ozzie_server_ext.tasks.server_completion import prompts_of
from ozzie_server_ext.tasks.service import NewTurn, SkillRequest, Submitted
from ozzie_server_ext.tasks.sessions import SessionInfo


class SessionOpen(msgspec.Struct, frozen=True, kw_only=True):
    session_id: SessionId | None = None
    session_name: SessionName | None = None
    title: Title | None = None
    project: ProjectFolder | None = None


async def open_session(call: Call, request: SessionOpen) -> JsonObject:
    """Open a session by id, by name, or a kernel's own; return its title, its model, its project and its usage. A new
    one uses the files, rules and skills of the folder `project`."""
    if request.session_id is not None:
        info = await call.ozzie.sessions.get(ids.SessionId(request.session_id))
    elif request.session_name is not None:
        title = request.title or ""
        info = await sessions.open_session(
            call, request.session_name, title=title, project=request.project, channel="ws"
        )
    else:
        raise InputError("Which session? The parameter session_id is missing.", code="input.session")
    row = await call.ozzie.sessions.row(info.session_id)
    return {**encode(info), **encode(Spent.of_row(row)), "position": (await call.ozzie.log.head()).position}


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """With `archived`, only archived sessions."""

    limit: Limit = 50
    archived: bool = False


async def list_sessions(call: Call, request: SessionList) -> JsonObject:
    """List this home's sessions, the most recently active first."""
    rows = await call.ozzie.sessions.list(limit=request.limit, status="archived" if request.archived else None)
    return {"items": [dict(row) for row in rows]}


class SessionFind(msgspec.Struct, frozen=True, kw_only=True):
    text: Words


async def find_session(call: Call, request: SessionFind) -> SessionInfo:
    """Find the session that a person means, by its id, the end of its id, or its title."""
    return await call.ozzie.sessions.get(await call.ozzie.sessions.find(request.text))


class SessionEarlier(msgspec.Struct, frozen=True, kw_only=True):
    session_id: SessionId
    cell_id: Words


async def find_earlier_runs(call: Call, request: SessionEarlier) -> JsonObject:
    """Return what the session's cells did before, if this cell ran among them; else no `earlier`."""
    project = await call.project(request.session_id)
    found = await project.earlier.of_cell(ids.SessionId(request.session_id), request.cell_id)
    return {} if found is None else {"earlier": encode(found)}


class SessionCosts(msgspec.Struct, frozen=True, kw_only=True):
    session_id: SessionId


async def sum_session_costs(call: Call, request: SessionCosts) -> JsonObject:
    """Return the cost of the session's turns, and of all sessions today."""
    row = await call.ozzie.sessions.row(ids.SessionId(request.session_id))
    project = await call.project(request.session_id)
    budgets = (await project.configuration.refresh()).settings.budgets
    return encode(await costs_of(call.ozzie.log, call.ozzie.today, row, budgets=budgets, project=project.root))


class SentSkill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill and its input as typed: `key=value` each, or one text."""

    name: Words
    words: tuple[str, ...] = ()


PictureName = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$(?!\n)", max_length=120, title="a name without blanks and slashes")
]


class SentPicture(msgspec.Struct, frozen=True, kw_only=True):
    """A picture that comes with a message; `data` in base64."""

    name: PictureName
    data: Annotated[str, Meta(max_length=MAX_FRAME_BYTES)]


def _given(picture: SentPicture) -> GivenPicture:
    try:
        return GivenPicture(picture.name, b64decode(picture.data, validate=True))
    except ValueError:
        raise InputError(f"The data of {picture.name} is not base64.", code="message.picture") from None


MAX_MSG_ID: Final = 100
"""Of the ids of requests to Jupyter's kernels, in characters."""


class MessageSend(msgspec.Struct, frozen=True, kw_only=True):
    """`message_id`: a ULID of the sender's; a message sent again with the same one counts once. Unless `attended`,
    nobody can answer questions. `answer_schema`: a JSON Schema that the answer must fit. `skill`: run this skill in
    place of a turn; `content` is then the command as typed. `pictures`: the model sees them with the message.
    `named`: of the pictures of the project that `content` names with an @, only these, because the sender has put in
    texts of others; without it, all.
    `made_from`: the sources of a message that no person wrote, such as "web:example.org". `awaits_answer`: the sender
    shows the answer by itself, as `ozzie ask` does; then a running task does not take the message as an update. A
    kernel's message never is one. `execution`: for a cell's text, the `msg_id` of the request to the kernel that ran
    it; the page confirms it if a person did. `typed`: a person typed it at a terminal; counts only with the gateway's
    own token."""

    content: str
    session_id: SessionId
    cell_id: Words = ""
    model: Words = ""
    message_id: Words | None = None
    attended: bool = True
    answer_schema: JsonObject | None = None
    skill: SentSkill | None = None
    pictures: tuple[SentPicture, ...] = ()
    named: tuple[Words, ...] | None = None
    made_from: tuple[str, ...] = ()
    awaits_answer: bool = False
    execution: Annotated[str, Meta(max_length=MAX_MSG_ID)] = ""
    typed: bool = False


def _channel(principal: Principal) -> Channel:
    match principal.kind:
        case "kernel":
            return Channel.NOTEBOOK
        case "client":
            return Channel.MCP
        case "user":
            return Channel.PAGE
        case "local":
            # An attached server relays its pages with the gateway's own token and sends their root.
            return Channel.CLI if principal.root is None else Channel.PAGE


async def send_message(call: Call, request: MessageSend) -> Submitted:
    """Start a turn for a message; return its task, and the position from which a feed shows all of it. A plain message
    may instead answer the question that its session waits with, or be an update of the running task: see `became`."""
    origin = Origin(
        channel=_channel(call.principal),
        sender_id=call.principal.name,
        sender_name=call.principal.name,
        kernel_id=call.principal.kernel_id,
        cell_id=request.cell_id,
    )
    execution = _execution(call.principal, request)
    if execution is None:
        confirmation = await _typed_at_terminal(call, request)
    else:
        confirmation = call.ozzie.confirmations.confirmation_of(execution)
    turn = NewTurn(
        ids.SessionId(request.session_id),
        request.content,
        origin,
        model=request.model,
        message_id=None if request.message_id is None else ids.MessageId(request.message_id),
        attended=request.attended,
        answer_schema=request.answer_schema,
        content=content_of(request.made_from),
        pictures=tuple(map(_given, request.pictures)),
        named=request.named,
        skill=None if request.skill is None else SkillRequest(name=request.skill.name, words=request.skill.words),
        source="ws",
        confirmation=confirmation,
        may_update=not request.awaits_answer and call.principal.kind != "kernel",
    )
    if execution is not None and confirmation is None and await _waits_for_confirmation(call, turn):
        confirmation = await call.ozzie.confirmations.arrival(execution)
        turn = msgspec.structs.replace(turn, confirmation=confirmation)
    sent = await call.ozzie.submit(turn)
    if execution is not None and confirmation is None:
        await call.ozzie.confirmations.await_confirmation(execution, sent)
    return sent


async def _waits_for_confirmation(call: Call, turn: NewTurn) -> bool:
    """Whether the message makes calls at once for which it counts whether a person typed it."""
    return await (await call.project(turn.session_id)).message_calls.leave_this_machine(turn)


def _execution(principal: Principal, request: MessageSend) -> Execution | None:
    """Return the run of the cell that a kernel's message comes from; None for any other message."""
    is_run = request.skill is not None and ":" not in request.skill.name  # of a skill, not of a server's prompt
    if principal.kind != "kernel" or not request.execution or request.made_from or is_run:
        return None
    return Execution.of(request.execution, request.content)


async def _typed_at_terminal(call: Call, request: MessageSend) -> Confirmation | None:
    principal = call.principal
    if not request.typed or principal.kind != "local" or principal.root is not None or request.made_from:
        return None
    return await _confirmation(call, "terminal", request.content)


async def _confirmation(call: Call, way: Literal["cell", "terminal"], *parts: str) -> Confirmation:
    """Return what the caller is known to have typed of these parts. Whom they name is looked up in their contacts."""
    policy = await call.ozzie.projects.own.rules.refresh()
    return Confirmation.of(call.principal.name, way, *parts, people=policy.people)


Part: TypeAlias = Annotated[str, Meta(max_length=MAX_CONTENT)]


class MessageConfirm(msgspec.Struct, frozen=True, kw_only=True):
    """`execution`: the `msg_id` of the request to the kernel that ran the cell. `parts`: all of the cell's text, in
    parts that are in turn typed by the person and not: pasted, or there before. The first is typed, and may be
    empty."""

    execution: Annotated[str, Meta(min_length=1, max_length=MAX_MSG_ID)]
    parts: Annotated[tuple[Part, ...], Meta(min_length=1, max_length=MOST_PARTS)]


async def confirm_message(call: Call, request: MessageConfirm) -> Done:
    """Say that a person ran a cell with this text just now, by a key or a click of their own. Only for pages: what a
    kernel or a program sends is not known to be a person's."""
    if answerer_of(call.principal).way is not AuthStrength.BROWSER:
        raise PolicyError("Only a page can say that a person ran a cell.", code="policy.way")
    execution = Execution.of(request.execution, "".join(request.parts))
    await call.ozzie.confirmations.confirm(execution, await _confirmation(call, "cell", *request.parts))
    return Done()


class ApprovalAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`extent` and `binds` go with "approve", `comment` with "reject": see REST's `approvals/{approval_id}`."""

    approval_id: ApprovalId
    answer: Literal["approve", "reject", "renew"]
    extent: ApprovalScope = "once"
    comment: Comment = ""
    binds: Binds = ""


async def answer_approval(call: Call, request: ApprovalAnswer) -> None:
    """Answer an approval, or request it again. A kernel's yes is the weakest, and only for its own session."""
    by = answerer_of(call.principal)
    match request.answer:
        case "approve":
            await call.ozzie.approvals.approve(request.approval_id, by, extent=request.extent, binds=request.binds)
        case "reject":
            await call.ozzie.approvals.reject(request.approval_id, by, comment=request.comment)
        case "renew":
            await call.ozzie.approvals.renew(request.approval_id, by)


class SkillsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """No parameters."""


async def list_skills(call: Call, request: SkillsQuery) -> JsonObject:
    """List every skill: what it does, how to call it, and if unusable, why; and the prompts of trusted MCP servers."""
    project = await call.project()
    shelf = await project.skills.look()
    prompts = [*await prompts_of(project.server_tools)]
    return {"skills": [describe(found) for found in shelf.found], "prompts": [encode(each) for each in prompts]}


class ModelChoose(msgspec.Struct, frozen=True, kw_only=True):
    session_id: SessionId
    model: Words
    base_url: Annotated[str, Meta(max_length=2000, title="an address of at most 2,000 characters")] = ""


async def choose_model(call: Call, request: ModelChoose) -> JsonObject:
    """Use this model in the session from the next turn on; return what it stands for."""
    session_id = ids.SessionId(request.session_id)
    models = (await call.project(session_id)).models
    return await models.choose(session_id, request.model, request.base_url, by=call.principal.name)


class ConfigQuery(msgspec.Struct, frozen=True, kw_only=True):
    """No parameters."""


async def show_config(call: Call, request: ConfigQuery) -> JsonObject:
    """Return the configuration in force: its files, what they set, files that nobody has trusted, and why a newer state
    was rejected. Keys are never in it."""
    project = await call.project()
    config = await project.configuration.refresh()
    return {
        "files": list(config.files),
        "set": config.raw,
        "ignored": list(config.ignored),
        "error": project.configuration.error,
        "project": str(project.root),
        "config_file": str(call.ozzie.home.config_file),
    }


class PromptQuery(msgspec.Struct, frozen=True, kw_only=True):
    session_id: SessionId


async def show_prompt(call: Call, request: PromptQuery) -> JsonObject:
    """Return the latest request to a model in a session, exactly as it was sent, and when; without `request` if there
    was none, or `why` it is gone."""
    events = await call.ozzie.log.read(
        types=frozenset({ModelCallStarted.type}),
        session_id=ids.SessionId(request.session_id),
        newest_first=True,
        limit=_LATEST_CALLS,
    )
    for event in events:
        if isinstance(event.body, ModelCallStarted) and event.body.purpose == "answer":
            try:
                document = await call.ozzie.blobs.get(event.body.request_blob)
            except OzzieError as error:
                return {"why": str(error)}
            return {
                "request": loads_object(document, max_bytes=len(document)),
                "ts": time_text(event.ts),
                "task_id": event.task_id,
            }
    return {}


_LATEST_CALLS = 20
"""Calls of models to look through for one that answers a person."""


class TextAtCursor(msgspec.Struct, frozen=True, kw_only=True):
    """`cursor` counts characters (code points) of `text`; negative means behind its end."""

    text: Annotated[str, Meta(max_length=MAX_CONTENT, title=f"text of at most {MAX_CONTENT:,} characters")]
    cursor: int = -1

    @property
    def at(self) -> int:
        return len(self.text) if self.cursor < 0 else self.cursor


async def complete(call: Call, request: TextAtCursor) -> Completions:
    """Complete the text at the cursor: files and what MCP servers have after `@`; models, sessions, skills and prompts
    after their commands. A kernel sees only its own session."""
    own = call.principal.session_id
    completion = (await call.project()).completion
    return await completion.complete(request.text, request.at, own=own, sees_all=own is None)


async def inspect(call: Call, request: TextAtCursor) -> JsonObject:
    """Describe what is at the cursor: a tool, a model, a session, a file. Without `card` if it is unknown."""
    inspection = (await call.project()).inspection
    card = await inspection.inspect(request.text, request.at, sees_all=call.principal.session_id is None)
    return {} if card is None else {"card": encode(card)}


METHODS_OF_EVENTS = {"user.message": "message.send", "prompt.response": "task.answer"}
"""The methods that a client's event frames stand for."""
