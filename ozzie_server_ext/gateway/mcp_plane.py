"""The gateway's side of the process that speaks MCP to clients: it hands requests over, and answers what the process
asks for them.

Who a client is, the gateway knows from the request that it let in; the process only names the request.
"""

import asyncio
import itertools
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from ozzie_server_ext.domain.errors import InputError, NotFound, OzzieError, RetryLater, Unavailable
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.channel import CallDropped, Channel, ChannelLost, Inbox
from ozzie_server_ext.planes.supervisor import PlaneUnavailable, Supervisor
from ozzie_server_ext.protocol.codec import InvalidShape
from ozzie_server_ext.protocol.jsontext import dumps, loads
from ozzie_server_ext.protocol.mcp_server import (
    SERVING,
    Abort,
    Answer,
    Ask,
    Changed,
    Drop,
    End,
    Exchange,
    Output,
    Piece,
    Progress,
    Read,
    Serve,
    Start,
    Stop,
    message_json,
    parse_event,
    project_header,
)
from ozzie_server_ext.tasks.client_calls import Client, ClientCalls

log = logger(__name__)

PLANE_ARGV = (sys.executable, "-P", "-m", "ozzie_server_ext.programs.mcp_server")
MOST_EXCHANGES = 64
"""Requests at once of one identity, streams among them."""
LOOK_S = 2.0
"""How often it is looked whether other tools are offered, while a client could be told."""
STREAM_TYPE = "text/event-stream"
_PROGRESS_S = 0.05
"""The shortest time between two reports of a call."""
_LOST = (
    "The process that speaks MCP ended in the middle of it. Whether this was done is not known; look before you ask "
    "again."
)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A client's HTTP request that was let in: of `user`, for the folder `project` (None: the gateway's own). The names
    of `headers` are in small letters."""

    user: str
    project: Path | None
    method: str
    headers: tuple[tuple[str, str], ...]
    body: str = ""

    @property
    def identity(self) -> str:
        # In the form of the header, since a folder's name need not be UTF-8.
        return f"{self.user}\0{'' if self.project is None else project_header(self.project)}"


class Reply(Protocol):
    """What an answer is written to."""

    async def start(self, status: int, headers: tuple[tuple[str, str], ...]) -> None: ...

    async def write(self, text: str) -> None:
        """Write a piece; returns when the client has room for more."""
        ...


class McpPlane:
    """Serves MCP to clients, by a process that is started with the first of them."""

    def __init__(self, plane: Supervisor, calls: ClientCalls) -> None:
        self._plane = plane
        self._calls = calls
        self._numbers = itertools.count(1)
        self._requests: dict[str, Request] = {}
        self._open: Counter[str] = Counter()
        self._served: Channel | None = None
        self._serving: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._offered: dict[str, int] = {}

    async def stop(self) -> None:
        """Stop the process; calls in progress end."""
        for task in (self._looking, self._serving):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
        await self._plane.stop()

    async def exchange(self, request: Request, reply: Reply) -> None:
        """Serve one request; cancel this if its client is gone.

        Raises Unavailable if the process can't be used, RetryLater for too many requests at once.
        """
        if self._open[request.identity] >= MOST_EXCHANGES:
            raise RetryLater(
                f"{MOST_EXCHANGES} requests of yours are open already.",
                hint="Wait for some of them to end.",
                code="mcp.busy",
            )
        self._open[request.identity] += 1  # before it waits for anything: many come at once
        call_id = f"x{next(self._numbers)}"
        self._requests[call_id] = request
        inbox: Inbox | None = None
        channel: Channel | None = None
        started = Exchange(
            id=call_id, identity=request.identity, method=request.method, headers=request.headers, body=request.body
        )
        try:
            channel = await self._channel()
            inbox = channel.open_call(call_id, start=message_json(started), abort=message_json(Abort(id=call_id)))
            self._look_out()
            await self._pass_on(channel, inbox, request, reply)
        finally:
            if channel is not None and inbox is not None:
                channel.close_call(inbox)
            del self._requests[call_id]
            self._open[request.identity] -= 1
            if not self._open[request.identity]:
                del self._open[request.identity]

    def end(self, user: str) -> None:
        """End what this user has open, calls among it: its token is void."""
        identities = {request.identity for request in self._requests.values() if request.user == user}
        if self._served is not None:
            with suppress(ChannelLost):
                for identity in identities:
                    self._served.post(message_json(End(id=SERVING, identity=identity)))

    async def _pass_on(self, channel: Channel, inbox: Inbox, request: Request, reply: Reply) -> None:
        """Pass an answer on as it comes. If the process ends in the middle of a stream, the client is told there."""
        is_stream = False
        while True:
            try:
                event = parse_event(await inbox.get())
            except (ChannelLost, CallDropped, InvalidShape):
                if is_stream:
                    await reply.write(f"event: message\r\ndata: {lost_answer(request.body)}\r\n\r\n")
                    return
                raise Unavailable(_LOST, code="mcp.lost") from None
            match event:
                case Start(status=status, headers=headers):
                    is_stream = any(value.startswith(STREAM_TYPE) for name, value in headers if name == "content-type")
                    await reply.start(status, headers)
                case Piece(text=text):
                    await reply.write(text)
                    with suppress(ChannelLost):
                        channel.post(message_json(Read(id=inbox.call_id, chars=len(text))))
                case Stop():
                    return
                case _:
                    pass

    async def _channel(self) -> Channel:
        """Return the connection to the process, whose asks are answered."""
        try:
            channel = await self._plane.channel()
        except PlaneUnavailable as error:
            raise Unavailable(str(error), hint=error.hint, code=error.code) from None
        if channel is not self._served:
            self._served = channel
            opened = channel.open_call(
                SERVING, start=message_json(Serve(id=SERVING)), abort=message_json(Abort(id=SERVING))
            )
            self._serving = asyncio.create_task(self._serve(channel, opened), name="asks of MCP clients")
        return channel

    # --- what the process asks ------------------------------------------------------------------------------------

    async def _serve(self, channel: Channel, inbox: Inbox) -> None:
        """Answer asks until the process ends; then nobody waits for what it asked for."""
        asks: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                event = parse_event(await inbox.get())
                match event:
                    case Ask():
                        task = asyncio.create_task(self._answer(channel, event), name=f"ask {event.what}")
                        asks[event.ask] = task
                        task.add_done_callback(lambda _, ask=event.ask: asks.pop(ask, None))
                    case Drop(ask=ask) if ask in asks:
                        asks[ask].cancel()
                    case _:
                        pass
        except (ChannelLost, CallDropped):
            pass
        except InvalidShape as error:
            log.error("the process that speaks MCP sent nonsense: %s", error)
        finally:
            channel.close_call(inbox)
            if self._served is channel:
                self._served = None
            for task in (ending := list(asks.values())):
                task.cancel()
            if ending:
                await asyncio.wait(ending)

    async def _answer(self, channel: Channel, ask: Ask) -> None:
        request = self._requests.get(ask.exchange)
        if request is None:
            answer = Answer(id=SERVING, ask=ask.ask, error="Its client is gone.")
        else:
            client = Client(user=request.user, project=request.project, claimed=ask.client)
            answer = await self._answered(channel, ask, client, request.identity)
        with suppress(ChannelLost):
            await channel.send(message_json(answer))

    async def _answered(self, channel: Channel, ask: Ask, client: Client, identity: str) -> Answer:
        empty = Answer(id=SERVING, ask=ask.ask)
        try:
            match ask.what:
                case "tools":
                    tools = await self._calls.tools(client)
                    self._offered[identity] = hash(dumps([msgspec.to_builtins(each) for each in tools]))
                    return msgspec.structs.replace(empty, tools=tools)
                case "call":
                    note = _reports(channel, ask.ask)
                    return msgspec.structs.replace(
                        empty, output=await self._calls.call(client, ask.name, ask.arguments, note)
                    )
                case "resources":
                    return msgspec.structs.replace(empty, listed=await self._calls.resources(client))
                case "read":
                    return msgspec.structs.replace(empty, content=await self._calls.read(client, ask.name))
        except OzzieError as error:
            words = f"{error} {error.hint}".rstrip()
            is_unknown = isinstance(error, NotFound) and (ask.what == "read" or error.code == "tool.unknown")
            if ask.what == "call" and not is_unknown:
                return msgspec.structs.replace(empty, output=Output(text=words, is_error=True))
            return msgspec.structs.replace(empty, error=words, unknown=is_unknown)
        except Exception:
            log.exception("what an MCP client asked for broke")
            return msgspec.structs.replace(empty, error="Ozzie made a mistake of its own.")

    # --- other tools ----------------------------------------------------------------------------------------------

    def _look_out(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="tools of MCP clients")

    async def _look(self) -> None:
        """Tell the clients that are connected if they are offered other tools."""
        while self._requests:
            await asyncio.sleep(LOOK_S)
            connected = {request.identity: request for request in self._requests.values()}
            self._offered = {name: seen for name, seen in self._offered.items() if name in connected}
            for identity, request in connected.items():
                if identity not in self._offered:
                    continue
                with suppress(OzzieError):
                    tools = await self._calls.tools(Client(user=request.user, project=request.project))
                    now = hash(dumps([msgspec.to_builtins(each) for each in tools]))
                    channel = self._served  # the process may have ended meanwhile
                    if channel is not None and self._offered.get(identity) != now:
                        self._offered[identity] = now
                        with suppress(ChannelLost):
                            channel.post(message_json(Changed(id=SERVING, identity=identity)))


def lost_answer(body: str) -> str:
    """Return the error of JSON-RPC that tells a client of an answer that will not come."""
    try:
        value = loads(body)
    except InputError:
        value = None
    request_id = value.get("id") if isinstance(value, dict) else None
    return dumps({"jsonrpc": "2.0", "id": request_id, "error": {"code": -32603, "message": _LOST}})


def _reports(channel: Channel, ask: str) -> Callable[[str], None]:
    """Return what reports progress to the process, not more often than anybody can read."""
    last_text, last_at = "", 0.0

    def report(text: str) -> None:
        nonlocal last_text, last_at
        now = time.monotonic()
        if text == last_text or (now - last_at < _PROGRESS_S and not text.startswith("Waits")):
            return
        last_text, last_at = text, now
        with suppress(ChannelLost):
            channel.post(message_json(Progress(id=SERVING, ask=ask, text=text[:2000])))

    return report
