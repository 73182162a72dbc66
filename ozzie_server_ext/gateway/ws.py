"""The WebSocket at `/ozzie/api/ws`: requests in, responses and the feed out.

`routes.METHODS` names the operation of each method; that of `message.send` is `methods.send_message`.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Coroutine, Mapping
from typing import Any, Literal

import msgspec
from jupyter_server.auth.decorator import ws_authenticated
from tornado.web import HTTPError
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, WebSocketHandler

from ozzie_server_ext.domain.errors import InputError, OzzieError, PolicyError
from ozzie_server_ext.domain.events import FINAL_TYPES, Event, Transient
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.base import RESOURCE, AuthenticatedHandler, error_info
from ozzie_server_ext.gateway.methods import METHODS_OF_EVENTS
from ozzie_server_ext.gateway.operation import Call, Operation, read_params
from ozzie_server_ext.gateway.outbox import Followed, Outbox
from ozzie_server_ext.gateway.page_notebooks import NotebookAnswer, PageHas, PageLink
from ozzie_server_ext.gateway.rest import shapes
from ozzie_server_ext.gateway.rest.sessions import open_session
from ozzie_server_ext.gateway.services import Services
from ozzie_server_ext.gateway.state import SERVICE_RESTART
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.frames import (
    MAX_FRAME_BYTES,
    ErrorInfo,
    EventFrame,
    Request,
    Response,
    canonical_names,
    decode_request,
    encode_frame,
    id_of,
)

log = logger(__name__)

MAX_SUBSCRIPTIONS = 32
MAX_REQUESTS = 32
PING_S = 30.0
_ON_PURPOSE = frozenset({1000, 1001})
"""Close codes of a page that leaves on purpose (RFC 6455 §7.4.1)."""
_TO_COME = f"sess_{'0' * 26}"
"""It stands for the id of the session that a valid message begins."""


class WsHandler(AuthenticatedHandler, WebSocketHandler):
    """One client's connection, answered here or, if this server is attached, relayed to the owner."""

    auth_resource = RESOURCE

    def initialize(self, methods: Mapping[str, Operation]) -> None:
        self._methods = methods
        self._is_open = False
        self._outbox = Outbox(self._write)
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests = 0
        self._followed: dict[str, Followed] = {}
        self._subscription_ids = itertools.count(1)
        self._page = PageLink(self._outbox.put)
        self.session_id = ""
        """The session of the handshake or of the first message, for requests that name none. A kernel's is that of its
        token (`operation.read_params`)."""
        self._beginning = asyncio.Lock()

    async def prepare(self, **kwargs: Any) -> None:
        # A socket can't follow a redirect to a login page: refuse it.
        await super().prepare(_redirect_to_login=False)

    # The two base classes name the parameter differently.
    def check_origin(self, origin: str = "") -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Apply Jupyter's rule: tornado's ignores allow_origin."""
        return super().check_origin(origin)

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        # The base class checks the origin too, but only after the owner has been contacted.
        if not await _is_allowed(self) or not self.check_origin():
            raise HTTPError(403)
        relay = self.state.relay
        self._upstream: WebSocketClientConnection | None = None
        if relay is not None:
            self._upstream = await relay.open_socket(self.principal.name, self._requested_session)
        try:
            if self._upstream is None:
                self._ozzie: Services = self.services
                self.session_id = await self._session_of_handshake()
            await super().get(*args, **kwargs)
        finally:
            if self._upstream is not None:
                self._upstream.close()

    @property
    def _requested_session(self) -> str:
        """The session that the handshake's URL names; empty if none. Raises HTTPError if it names several."""
        named = self.get_query_arguments("session_id")
        if len(named) > 1:
            raise HTTPError(400, reason="The parameter session_id was given more than once")
        return named[0] if named else ""

    async def _session_of_handshake(self) -> SessionId | Literal[""]:
        """Return the session that the handshake names. Raises NotFound, and PolicyError if it is not this kernel's."""
        session_id = SessionId(self._requested_session)
        own = self.principal.session_id
        if own is not None and session_id not in ("", own):
            raise PolicyError("This kernel may use its own session only.", code="policy.session")
        return (await self._ozzie.sessions.get(session_id)).session_id if session_id else ""

    def set_default_headers(self) -> None:
        """Set none: a handshake's answer is no page."""

    def get_compression_options(self) -> None:
        return None

    @property
    def max_message_size(self) -> int:
        return MAX_FRAME_BYTES

    @property
    def ping_interval(self) -> float:
        """Seconds between pings, which keep proxies from closing idle connections and detect clients that are gone."""
        return PING_S

    @property
    def ping_timeout(self) -> float:
        return PING_S

    def open(self, *args: str, **kwargs: str) -> None:
        self._is_open = True
        # Disable Nagle's algorithm: the second of two small messages would wait 40 ms.
        self.set_nodelay(True)
        self.state.connections.add(self)
        if self._upstream is not None:
            self._spawn(self._pass_back(self._upstream))
        elif self.state.ozzie is self._ozzie:
            self._spawn(self._send_what_comes())
        else:  # it stopped while this client connected
            self.close(SERVICE_RESTART)

    def on_close(self) -> None:
        if self._is_open:
            self._outbox.close()
            self.state.pages.has_gone(self._page, on_purpose=self.close_code in _ON_PURPOSE)
            self.state.connections.discard(self)
            self.state.access.revoke(self.principal)
            for task in self._tasks:
                task.cancel()

    async def on_message(self, message: str | bytes) -> None:
        if self._upstream is not None:
            # The next message is read once this one is taken. If the owner goes, `_pass_back` ends the connection.
            with contextlib.suppress(WebSocketClosedError):
                await self._upstream.write_message(message, binary=isinstance(message, bytes))
            return
        try:
            frame = decode_request(message)
        except OzzieError as error:
            await self._outbox.put(encode_frame(_failed(id_of(message), error)))
            return
        request = _request_of(frame)
        if request is None:
            return
        if self._requests >= MAX_REQUESTS:
            error = InputError(
                f"A connection can have at most {MAX_REQUESTS} requests without an answer.",
                hint="Wait for answers before sending more.",
            )
            await self._outbox.put(encode_frame(_failed(request.id, error)))
            return
        self._requests += 1
        self._spawn(self._answer(request)).add_done_callback(self._answered)

    async def _answer(self, request: Request) -> None:
        try:
            response = Response(id=request.id, ok=True, payload=await self._payload(request.method, request.params))
        except Exception as error:
            response = _failed(request.id, error)
        if response.id or not response.ok:
            await self._outbox.put(encode_frame(response))

    def _answered(self, task: "asyncio.Task[None]") -> None:
        self._requests -= 1

    async def _payload(self, method: str, params: JsonObject) -> JsonObject:
        operation = self._methods.get(method)
        if operation is None:
            raise InputError(
                f"There is no method {method[:60]}.",
                hint=f"There are: {', '.join(sorted(self._methods))}.",
                code="input.method",
            )
        call = Call(self.state, self._ozzie, self.principal, socket=self)
        if method == "message.send" and params.get("content") and not params.get("session_id"):
            await self._begin_session(operation, call, params)
        return await operation.payload_for(call, params)

    async def _begin_session(self, operation: Operation, call: Call, params: JsonObject) -> None:
        """Give the connection a session of its own if it has none: a new connection is a new conversation. Raises as
        `read_params`, so that a message that can't be sent leaves no empty session."""
        async with self._beginning:
            if not self.session_id and self.principal.session_id is None:
                read_params(operation, call, {**params, "session_id": _TO_COME})
                self.session_id = (await open_session(call, None, channel="ws")).session_id

    async def subscribe(self, request: "FeedSubscribe") -> JsonObject:
        """Start a feed."""
        head = (await self._ozzie.log.head()).position
        start = head if request.from_position is None else request.from_position
        if start > head:
            raise InputError(f"Position {start} is not in the log, which ends at {head}.", hint="Start from 0.")
        if len(self._followed) >= MAX_SUBSCRIPTIONS:
            raise InputError(
                f"A connection can follow at most {MAX_SUBSCRIPTIONS} feeds.",
                hint="End one with feed.unsubscribe, or open another connection.",
            )
        if request.task_id:
            await self._ozzie.feed.expect_not_erased(TaskId(request.task_id))
        subscription = self._ozzie.feed.subscribe(
            start,
            types=canonical_names(request.types) if request.types is not None else None,
            session_id=SessionId(request.session_id) if request.session_id else None,
            task_id=TaskId(request.task_id) if request.task_id else None,
            on_news=self._outbox.notice,
        )
        subscription_id = str(next(self._subscription_ids))

        def ended() -> None:
            del self._followed[subscription_id]

        followed = Followed(subscription, last=_is_final if request.task_id else None, on_end=ended)
        self._followed[subscription_id] = followed
        self._outbox.follow(followed)
        return {"subscription": subscription_id, "position": head}

    def unsubscribe(self, subscription_id: str) -> None:
        """End a subscription; do nothing if it has ended meanwhile."""
        followed = self._followed.get(subscription_id)
        if followed is not None:
            self._outbox.unfollow(followed)

    @property
    def page(self) -> PageLink:
        return self._page

    async def _send_what_comes(self) -> None:
        try:
            await self._outbox.run()
        except OzzieError as error:
            log.exception("a feed ended")
            await self._write(encode_frame(_failed("", error)))
            # No request waits for this answer, but a client can't miss the end of the connection.
            self.close()

    async def _pass_back(self, upstream: WebSocketClientConnection) -> None:
        """Send what the owner sends until it closes. If this client doesn't read, the owner's feeds fall behind and
        catch up from the log: at most two messages are kept here."""
        while (message := await upstream.read_message()) is not None:
            await self.write_message(message, binary=isinstance(message, bytes))
        self.close(SERVICE_RESTART, "The gateway went.")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            if not isinstance(error, WebSocketClosedError):
                log.error("a connection broke", exc_info=error)
            self.close()

    async def _write(self, text: str) -> None:
        await self.write_message(text)


def _request_of(frame: Request | EventFrame) -> Request | None:
    """Return the request in a client's frame, with an empty id if it wants no answer; None for an unknown event."""
    if isinstance(frame, Request):
        return frame
    method = METHODS_OF_EVENTS.get(frame.event)
    return None if method is None else Request(id="", method=method, params=frame.payload)


def _is_final(item: Event | Transient) -> bool:
    return item.type in FINAL_TYPES


def _failed(request_id: str, error: BaseException) -> Response:
    _, info = error_info(error)
    return Response(id=request_id, ok=False, error=ErrorInfo(code=info.code, message=info.message, hint=info.hint))


async def _is_allowed(handler: AuthenticatedHandler) -> bool:
    """Ask Jupyter's authorizer about the handshake; `@authorized` can't wrap a WebSocket's `get`."""
    allowed = handler.authorizer.is_authorized(handler, handler.current_user, "execute", RESOURCE)
    return allowed if isinstance(allowed, bool) else await allowed


class FeedSubscribe(msgspec.Struct, frozen=True, kw_only=True):
    """`from_position`: events after it; None: only new ones. `types`: names as in frames, or canonical ones. With a
    `task_id` the feed ends with the task; to follow a retry, subscribe again."""

    from_position: int | None = None
    types: list[shapes.Words] | None = None
    session_id: shapes.SessionId | None = None
    task_id: shapes.TaskId | None = None


class FeedUnsubscribe(msgspec.Struct, frozen=True, kw_only=True):
    subscription: shapes.Words


async def subscribe(call: Call, request: FeedSubscribe) -> JsonObject:
    """Follow events after a position. They arrive as event frames after the answer."""
    return await _socket(call).subscribe(request)


async def unsubscribe(call: Call, request: FeedUnsubscribe) -> None:
    """Stop a feed."""
    _socket(call).unsubscribe(request.subscription)


async def notebook_opened(call: Call, request: PageHas) -> None:
    """A page has opened this notebook. Kernels can't call this: their code could then fake the answer to an edit."""
    await call.state.pages.has_opened(_socket(call).page, request)


async def notebook_closed(call: Call, request: PageHas) -> None:
    """A page has closed this notebook."""
    await call.state.pages.has_closed(_socket(call).page, request)


async def notebook_answered(call: Call, request: NotebookAnswer) -> None:
    """Answer a question of the gateway about a notebook that is open in this page."""
    _socket(call).page.answered(request)


def _socket(call: Call) -> WsHandler:
    assert call.socket is not None, "it is an operation of the WebSocket alone"
    return call.socket
