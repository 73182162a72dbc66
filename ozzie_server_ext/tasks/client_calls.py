"""What MCP clients do with Ozzie: call tools, send messages to sessions, and read them.

A call is a task of the client's session, with a thread of its own, so that a call that waits for a person holds up no
other. It passes the one gate like a step's call, is listed, stopped and recorded like any task, and bears the label of
a remote agent: nothing that a client sends counts as a person's own words. A client answers no question and no request
for approval.
"""

import asyncio
import base64
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.artifacts import Artifact
from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.errors import (
    Conflict,
    InputError,
    NotFound,
    OzzieError,
    PolicyError,
    RetryLater,
    Unavailable,
)
from ozzie_server_ext.domain.events import (
    FINAL_TYPES,
    HUB,
    ApprovalGranted,
    ApprovalRequested,
    Draft,
    Event,
    GivenCall,
    MessageCompleted,
    Origin,
    PromptRequested,
    TaskCancelled,
    TaskCancelRequested,
    TaskCreated,
    TaskFailed,
    TaskQueued,
    TaskSucceeded,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    Transient,
)
from ozzie_server_ext.domain.ids import GATEWAY, ArtifactId, MessageId, SessionId, TaskId, is_ulid, task_stream
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.messages import Channel
from ozzie_server_ext.domain.tasks import TaskStatus
from ozzie_server_ext.domain.toolmeta import Category, SideEffect
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.policy.decision import Caller
from ozzie_server_ext.protocol import mcp_server as protocol
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.render.text import cut_end, visible_label
from ozzie_server_ext.store.feed import Feed
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.shielded import shielded
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.budgets import limits_under
from ozzie_server_ext.tasks.projects import Project, Projects
from ozzie_server_ext.tasks.rows import open_tasks, session_of, task_of, user_recorder
from ozzie_server_ext.tasks.service import NewTurn, Submitted, TaskQueue, TaskService
from ozzie_server_ext.tasks.sessions import Sessions, unknown_session
from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.builtin.sessions import MOST_MESSAGES

log = logger(__name__)

Note = Callable[[str], None]
"""Receives how far a call is, in words."""

ASK, SESSIONS, READ, READ_ARTIFACT = "ozzie_ask", "ozzie_sessions", "ozzie_session_read", "ozzie_artifact_read"
CLIENT = "mcp:"
"""How the names of users begin that are clients with a token of their own."""
MOST_CALLS = 16
"""Calls at once of one identity."""
MOST_CLIENTS = 32
"""Names of clients of one identity that get sessions of their own."""
MOST_CHARS = 200_000
MOST_LISTED = 50
_MOST_NAME = 40
_URI = "ozzie://"


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP client: the authenticated `user`, the folder that it works in (None: the gateway's own), and what it calls
    itself, which nobody has checked."""

    user: str
    project: Path | None = None
    claimed: str = ""

    @property
    def name(self) -> str:
        return cut_end(visible_label(self.claimed), _MOST_NAME) or "a client"

    @property
    def content(self) -> Content:
        """The provenance of what it sends. What it calls itself is no part of that, since rules can name places; the
        name that a person gave its token is."""
        return Content.of(Label.REMOTE, [f"mcp/{self.user.removeprefix(CLIENT)}" if self.has_token else "mcp"])

    @property
    def has_token(self) -> bool:
        """Whether it has a token of its own."""
        return self.user.startswith(CLIENT)


class Clients(msgspec.Struct):
    """The calls and the names of one identity."""

    running: int = 0
    names: dict[str, None] = msgspec.field(default_factory=dict[str, None])


class ClientCalls:
    """Carries out what clients want. `submit` takes messages to sessions; `leaving`: the gateway stops."""

    def __init__(
        self,
        log_: EventLog,
        feed: Feed,
        ids: IdSource,
        projects: Projects,
        sessions: Sessions,
        artifacts: ArtifactStore,
        tasks: TaskService,
        queue: TaskQueue,
        submit: Callable[[NewTurn], Coroutine[Any, Any, Submitted]],
        leaving: Callable[[], bool],
    ) -> None:
        self._log = log_
        self._feed = feed
        self._ids = ids
        self._projects = projects
        self._sessions = sessions
        self._artifacts = artifacts
        self._tasks = tasks
        self._queue = queue
        self._submit = submit
        self._leaving = leaving
        self._clients: dict[str, Clients] = {}

    async def end_left(self) -> None:
        """End the calls and turns whose gateway is gone, and with it the connections of their clients. Call it before
        any task is recovered, which would make them again."""
        for row in await open_tasks(self._log, channel=str(Channel.MCP), parent_id=None):
            await self._end_left(row)

    async def _end_left(self, row: Row) -> None:
        """End a task, and those that it delegated."""
        for below in await open_tasks(self._log, parent_id=row["task_id"]):
            await self._end_left(below)
        reason = "Its client is gone."
        with suppress(Conflict):
            if row["status"] == TaskStatus.RUNNING:  # recovery finds out how far it got, and ends it
                recorder = user_recorder(self._log, session_of(row), task_of(row))
                await recorder.append(TaskCancelRequested(by=GATEWAY, reason=reason))
            else:
                await self._tasks.cancel(task_of(row), by=GATEWAY, reason=reason)

    # --- tools ----------------------------------------------------------------------------------------------------

    async def tools(self, client: Client) -> tuple[protocol.OfferedTool, ...]:
        """Return the tools that a client may call, by name."""
        project = await self._projects.at(client.project)
        found = {tool.meta.name: _offered(tool) for tool in await project.client_tools(_caller(client, project))}
        found |= {ASK: _ASK}
        found.pop(READ_ARTIFACT, None)  # artifacts are resources, and this stands for reading one
        return tuple(found[name] for name in sorted(found))

    async def call(self, client: Client, name: str, args: JsonObject, note: Note) -> protocol.Output:
        """Call a tool, and wait for what comes of it. `note` receives progress. Cancelling it stops the call.

        Raises OzzieError, with a message for the client, if there is no such tool or nothing could be recorded.
        """
        with self._counted(client):
            match name:
                case "ozzie_ask":
                    return await self._ask(client, args, note)
                case "ozzie_sessions":
                    return await self._list(client, args, note)
                case "ozzie_session_read":
                    return await self._read(client, args, note)
                case _:
                    return await self._call(client, name, args, note)

    @contextmanager
    def _counted(self, client: Client) -> Iterator[None]:
        """Count a call. Raises RetryLater for too many at once."""
        clients = self._clients.setdefault(client.user, Clients())
        if clients.running >= MOST_CALLS:
            raise RetryLater(
                f"{MOST_CALLS} calls are running already.", hint="Wait for one of them to end.", code="mcp.busy"
            )
        clients.running += 1
        try:
            yield
        finally:
            clients.running -= 1

    async def _call(self, client: Client, name: str, args: JsonObject, note: Note) -> protocol.Output:
        project = await self._projects.at(client.project)
        tools = {tool.meta.name: tool for tool in await project.client_tools(_caller(client, project))}
        if (tool := tools.get(name)) is None:
            raise NotFound(f"There is no tool {visible_label(name)[:64]}.", hint="List the tools.", code="tool.unknown")
        session_id = await self._session(client, project)
        task_id = TaskId(self._ids.new())
        created = TaskCreated(
            title=f"{tool.meta.delegates_to or tool.meta.name}, for {client.name}",
            mode="FREE",
            mode_reason="An MCP client calls a tool.",
            message_id=MessageId(task_id),
            limits=limits_under(project.config.settings),
            thread_id=str(task_id),
            scope_id=f"mcp:{session_id}",
            channel=Channel.MCP,
            sender_id=client.user,
            call=GivenCall(tool=tool.meta.tool_id, args=args),
        )
        content = client.content
        drafts = [
            Draft(
                body=body,
                actor="user",
                source=HUB,
                session_id=session_id,
                task_id=task_id,
                labels=content.labels,
                sources=content.sources,
            )
            for body in (created, TaskQueued(reason="created"))
        ]

        async def begin() -> int:
            events = await self._log.append(task_stream(task_id), drafts, expected_version=0)
            self._queue.enqueue(task_id, session_id, delegated=True)
            return events[0].position

        own = _calls(tool.meta.name)
        try:
            position = await shielded(begin())
            events = await self._end_of(task_id, position, lambda text: None if text == own else note(text))
        except asyncio.CancelledError:
            await self._stop(task_id, client)
            raise
        return await self._output(task_id, events, content)

    async def _end_of(self, task_id: TaskId, position: int, note: Note) -> Sequence[Event]:
        """Follow a task to its end; return its events. Raises Unavailable if the gateway stops first."""
        async with self._feed.subscribe(position - 1, task_id=task_id) as items:
            async for item in items:
                if words := _news(item):
                    note(words)
                if item.type in FINAL_TYPES:
                    return await self._log.read_stream(task_stream(task_id))
        raise Unavailable("Ozzie stops.", hint="Look at what was done before you call again.", code="gateway.stops")

    async def _stop(self, task_id: TaskId, client: Client) -> None:
        """Stop what a client does not wait for any more, unless the gateway stops: the next one ends it."""
        if self._leaving():
            return
        with suppress(Conflict, NotFound):  # it has ended
            await shielded(self._tasks.cancel(task_id, by=client.user, reason=f"{client.name} does not wait for it."))

    async def _output(self, task_id: TaskId, events: Sequence[Event], own: Content) -> protocol.Output:
        """Return what came of a call. The end of its task says it if the call has no outcome."""
        outcome, end = _last(events, ToolCallCompleted, ToolCallFailed), events[-1]
        sources = tuple(each for event in events for each in event.sources if each not in own.sources)
        sources = tuple(sorted(set(sources)))
        match outcome and outcome.body:
            case ToolCallCompleted(data=data, ok=ok, artifacts=artifacts):
                text = data if isinstance(data, str) else dumps(data)
                pictures, kept = await self._made(artifacts)
                return protocol.Output(
                    text=text,
                    data=data if isinstance(data, dict) else None,
                    is_error=not ok,
                    pictures=pictures,
                    kept=kept,
                    sources=sources,
                )
            case ToolCallFailed(message=message):
                return protocol.Output(text=message, is_error=True, sources=sources)
            case _:
                is_done = end.type == TaskSucceeded.type  # a person said of a call in doubt what came of it
                return protocol.Output(text=_why(end), is_error=not is_done, sources=sources)

    async def _made(
        self, artifacts: Sequence[ArtifactId]
    ) -> tuple[tuple[protocol.Picture, ...], tuple[protocol.Kept, ...]]:
        pictures: list[protocol.Picture] = []
        kept: list[protocol.Kept] = []
        for each in artifacts:
            with suppress(OzzieError):  # it may be erased by now
                found = await self._artifacts.get(each)
                is_shown = found.mime in _PICTURES and found.size <= protocol.MAX_PICTURE_BYTES
                if is_shown and len(pictures) < protocol.MOST_PICTURES:
                    data = base64.b64encode(await self._artifacts.content(found)).decode()
                    pictures.append(protocol.Picture(mime=found.mime, data=data))
                else:
                    kept.append(
                        protocol.Kept(uri=f"{_URI}artifacts/{each}", name=found.name, mime=found.mime, size=found.size)
                    )
        return tuple(pictures), tuple(kept)

    # --- sessions -------------------------------------------------------------------------------------------------

    async def _ask(self, client: Client, args: JsonObject, note: Note) -> protocol.Output:
        _expect_message(args)
        if named := str(args.get("session", "")):
            session_id = SessionId(str((await self._visible(client, named))["session_id"]))
        else:
            session_id = await self._session(client, await self._projects.at(client.project))
        origin = Origin(channel=Channel.MCP, sender_id=client.user, sender_name=client.name)
        message_id = MessageId(self._ids.new())  # it becomes the task's id
        turn = NewTurn(
            session_id, str(args["message"]), origin, message_id=message_id, content=client.content, named=()
        )
        try:
            sent = await shielded(self._submit(turn))
            if sent.ahead:
                note(f"Waits for {sent.ahead} before it in the session.")
            events = await self._end_of(sent.task_id, sent.position, note)
        except asyncio.CancelledError:
            await self._stop(TaskId(message_id), client)
            raise
        answer = _last(events, MessageCompleted)
        is_done = events[-1].type == TaskSucceeded.type
        text = answer.body.text if answer is not None and isinstance(answer.body, MessageCompleted) else ""
        words = text if is_done else "\n\n".join(filter(None, [_why(events[-1]), text and f"Until then: {text}"]))
        sources = {each for event in events for each in event.sources} - set(client.content.sources)
        return protocol.Output(
            text=words,
            data={"session": str(session_id), "task": str(sent.task_id), "answer": text} if is_done else None,
            is_error=not is_done,
            sources=tuple(sorted(sources)),
        )

    async def _list(self, client: Client, args: JsonObject, note: Note) -> protocol.Output:
        done = await self._call(client, SESSIONS, args, note)
        if done.is_error:
            return done
        found = [_session_json(row) for row in await self._rows(client)]
        return protocol.Output(text=dumps(found), data={"sessions": list[Json](found)})

    async def _read(self, client: Client, args: JsonObject, note: Note) -> protocol.Output:
        session = str(args.get("session", ""))
        if session:
            await self._visible(client, session)  # nobody is asked about one that there is not
        done = await self._call(client, READ, args, note)
        if done.is_error or done.data is None:
            return done
        text, sources = await self._told(client, session, int(str(done.data["messages"])))
        return protocol.Output(text=text, sources=sources)

    async def _told(self, client: Client, session: str, most: int) -> tuple[str, tuple[str, ...]]:
        """Return the last messages of a session as a text, and the labels of what is quoted."""
        row = await self._visible(client, session)
        newest = await self._log.rows(
            "messages",
            where={"session_id": row["session_id"]},
            order_by="position",
            descending=True,
            limit=most,
        )
        parts = [f"{'Ozzie' if each['role'] == 'assistant' else 'User'}:\n{each['text']}" for each in reversed(newest)]
        text = "\n\n".join(parts) or "It has no messages yet."
        labels = {label for each in newest for label in _labels(each)}
        return text[-MOST_CHARS:], tuple(f"{label}:" for label in sorted(labels))

    async def _rows(self, client: Client) -> list[Row]:
        """Return the sessions that a client may see, last used first."""
        own = await self._own_key(client)
        rows = await self._sessions.list(limit=4 * MOST_LISTED)
        return [row for row in rows if self._is_visible(client, row, own)][:MOST_LISTED]

    async def _visible(self, client: Client, session: str) -> Row:
        row = await self._sessions.row(SessionId(session))
        if not self._is_visible(client, row, await self._own_key(client)):
            raise unknown_session(session)
        return row

    def _is_visible(self, client: Client, row: Row, own_key: str) -> bool:
        """Whether a client may see a session: none of other clients, and with a token of its own, none of other
        folders."""
        if row["channel"] == Channel.MCP and row["key"] != own_key:
            return False
        return not client.has_token or not row["project"] or row["project"] == str(self._projects.own.root)

    async def _own_key(self, client: Client) -> str:
        return self._key(client, await self._projects.at(client.project))

    async def _session(self, client: Client, project: Project) -> SessionId:
        """Return the session of a client in a project."""
        key = self._key(client, project)
        if (held := await self._sessions.holder(key)) is not None:
            await self._sessions.expect_open(held)
            return held
        title = f"{client.name} (MCP)"
        info = await self._sessions.open(
            key, title=title, channel=Channel.MCP, by=client.user, project=client.project and project.root
        )
        return info.session_id

    def _key(self, client: Client, project: Project) -> str:
        """Return the key of a client's session. Those with too many names share one: a client could name itself anew
        for each call."""
        names = self._clients.setdefault(client.user, Clients()).names
        if client.name not in names and len(names) < MOST_CLIENTS:
            names[client.name] = None
        name = client.name if client.name in names else "others"
        return f"mcp:{client.user}:{name}:{project.root}"

    # --- resources ------------------------------------------------------------------------------------------------

    async def resources(self, client: Client) -> tuple[protocol.Listed, ...]:
        """Return the sessions as resources. Raises PolicyError if it may not see them."""
        await self._expect_allowed(client, SESSIONS, {})
        return tuple(
            protocol.Listed(
                uri=f"{_URI}sessions/{row['session_id']}",
                title=visible_label(str(row["title"])) or "A session",
                about=f"{row['message_count']} messages, last used {row['updated_at']}",
            )
            for row in await self._rows(client)
        )

    async def read(self, client: Client, uri: str) -> protocol.Content:
        """Return a session's last messages, or an artifact. Raises NotFound, InputError if it is too large, PolicyError
        if the client may not read it."""
        kind, _, name = uri.removeprefix(_URI).partition("/")
        if uri.startswith(_URI) and kind == "sessions":
            await self._visible(client, name)
            await self._expect_allowed(client, READ, {"session": name, "messages": MOST_MESSAGES})
            text, sources = await self._told(client, name, MOST_MESSAGES)
            return protocol.Content(mime="text/plain", text=text, sources=sources)
        if uri.startswith(_URI) and kind == "artifacts" and is_ulid(name):
            return await self._artifact(client, ArtifactId(name))
        raise NotFound(f"There is no resource {visible_label(uri)[:200]}.", code="mcp.resource")

    async def _expect_allowed(self, client: Client, tool: str, args: JsonObject) -> None:
        """Have a call decided, which stands for reading a resource. Raises PolicyError if nothing comes of it."""
        try:
            with self._counted(client):
                done = await self._call(client, tool, args, lambda _: None)
        except NotFound:  # it is not even offered
            raise PolicyError("The user's rules deny agents this.") from None
        if done.is_error:
            raise PolicyError(done.text)

    async def _artifact(self, client: Client, artifact_id: ArtifactId) -> protocol.Content:
        found: Artifact = await self._artifacts.get(artifact_id)
        if found.session_id is not None:
            await self._visible(client, str(found.session_id))
        elif client.has_token:  # it may be of any folder
            raise NotFound(f"There is no artifact {artifact_id}.", code="mcp.resource")
        if found.size > protocol.MAX_PICTURE_BYTES:
            raise InputError(f"It has {found.size:,} bytes; at most {protocol.MAX_PICTURE_BYTES:,} are given.")
        await self._expect_allowed(client, READ_ARTIFACT, {"artifact": str(artifact_id)})
        content = await self._artifacts.content(found)
        with suppress(UnicodeDecodeError):
            return protocol.Content(mime=found.mime, text=content.decode(), sources=found.sources)
        return protocol.Content(mime=found.mime, data=base64.b64encode(content).decode(), sources=found.sources)


_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def _caller(client: Client, project: Project) -> Caller:
    return Caller(project=str(project.root), channel=Channel.MCP, user=client.user)


def _offered(tool: Tool) -> protocol.OfferedTool:
    meta = tool.meta
    reads_only = meta.side_effect is SideEffect.NONE and not meta.delegates_to
    leaves = meta.is_outbound or Category.EXTERNAL_SEND in meta.categories
    return protocol.OfferedTool(
        name=meta.name,
        title=meta.delegates_to or meta.name,
        description=tool.spec.description,
        schema=tool.spec.parameters,
        reads_only=reads_only,
        destroys=meta.side_effect is SideEffect.IRREVERSIBLE or Category.DELETE in meta.categories,
        is_idempotent=reads_only or meta.takes_key,
        is_open_world=leaves or bool(meta.delegates_to) or meta.brings in (Label.WEB, Label.MCP, Label.REMOTE),
    )


_ASK = protocol.OfferedTool(
    name=ASK,
    title="Ask Ozzie",
    description="Send a message to Ozzie, an agent in JupyterLab that knows the user's notebooks, files and skills, "
    "and wait for its answer. It asks the user before it changes anything.",
    schema={
        "type": "object",
        "properties": {
            "message": {"type": "string", "description": "What to ask or to do"},
            "session": {"type": "string", "description": "A session to go on in; by default your own"},
        },
        "required": ["message"],
        "additionalProperties": False,
    },
    reads_only=False,
    destroys=False,
    is_idempotent=False,
    is_open_world=True,
)


def _expect_message(args: JsonObject) -> None:
    """Raise InputError, with a message for the client, for arguments that `ozzie_ask` does not have."""
    for name, value in args.items():
        if name not in ("message", "session"):
            raise InputError(f"There is no argument {visible_label(name)[:64]}.")
        if not isinstance(value, str):
            raise InputError(f"{name} is a text.")
    if "message" not in args:
        raise InputError("The argument message is missing.")


def _calls(name: str) -> str:
    return f"Calls {name}."


def _news(item: Event | Transient) -> str:
    """Return what a client should hear of its call, or ""."""
    match item:
        case Event(body=ApprovalRequested(sentence=sentence)):
            return f"Waits for your yes in Ozzie: {sentence}"
        case Event(body=ApprovalGranted()):
            return "The yes has come."
        case Event(body=PromptRequested(question=question)):
            return f"Waits for your answer in Ozzie: {question}"
        case Event(body=ToolCallRequested(name=name)):
            return _calls(name)
        case Transient(type="task.progress", payload={"step": str(step)}):
            return step
        case Transient(type="task.progress", payload={"ahead": int(ahead)}) if ahead:
            return f"{ahead} before it."
        case Transient(type="tool.call.progressed", payload={"summary": str(message)}):
            return message
        case _:
            return ""


def _last(events: Sequence[Event], *kinds: type) -> Event | None:
    return next((event for event in reversed(events) if isinstance(event.body, kinds)), None)


def _why(end: Event) -> str:
    match end.body:
        case TaskFailed(message=message, hint=hint):
            return f"{message} {hint}".rstrip()
        case TaskCancelled(by=by, reason=reason):
            return f"It was stopped by {by}. {reason}".rstrip()
        case _:
            return "It ended without a result."


def _session_json(row: Row) -> JsonObject:
    return {
        "session": str(row["session_id"]),
        "title": visible_label(str(row["title"])),
        "channel": str(row["channel"]),
        "messages": int(str(row["message_count"])),
        "last_used": str(row["updated_at"]),
        "project": str(row["project"]),
    }


def _labels(row: Row) -> list[str]:
    found: Any = msgspec.json.decode(str(row["labels"]))
    return [str(each) for each in found]
