"""The WebSocket at `/ozzie/api/ws`: requests in, responses and the feed out."""

import asyncio
import contextlib
import itertools
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from jupyter_server.auth.decorator import ws_authenticated
from tornado.web import HTTPError
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, WebSocketHandler

from ozzie_server_ext.domain.errors import InputError, OzzieError, PolicyError
from ozzie_server_ext.domain.events import FINAL_TYPES, Event, Transient
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.base import RESOURCE, Caller, error_info
from ozzie_server_ext.gateway.methods import METHODS, Call, from_s0_event
from ozzie_server_ext.gateway.page_notebooks import NotebookAnswer, PageHas, PageLink
from ozzie_server_ext.gateway.services import Services
from ozzie_server_ext.gateway.state import SERVICE_RESTART
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.codec import decode
from ozzie_server_ext.protocol.frames import (
    MAX_FRAME_BYTES,
    ErrorInfo,
    EventFrame,
    Request,
    Response,
    decode_request,
    encode_frame,
    event_frame,
)
from ozzie_server_ext.store.feed import Item, Subscription

MAX_READY = 256
"""Frames that wait beside the feeds; who adds more waits too."""
MAX_ITEMS = 512
"""Items of one feed that are sent in one go."""
ENOUGH_CHARACTERS = 1 << 20
"""Of one message: clients refuse what is much larger, and it lies here until they take it. A single frame may be."""
CACHED_CHARACTERS = 4 << 20


class FrameCache:
    """The texts of frames that went out lately: what goes to many clients is encoded once."""

    def __init__(self, budget: int = CACHED_CHARACTERS) -> None:
        self._budget = budget
        self._size = 0
        # By identity: all who follow get the same objects. Each is kept with its text, so that its id stays its own.
        self._texts: OrderedDict[int, tuple[Item, str]] = OrderedDict()

    def text(self, item: Item) -> str:
        """The frame of `item`."""
        found = self._texts.get(id(item))
        if found is not None:
            return found[1]
        text = encode_frame(event_frame(item))
        self._texts[id(item)] = (item, text)
        self._size += len(text)
        while self._size > self._budget:
            self._size -= len(self._texts.popitem(last=False)[1][1])
        return text


_cache = FrameCache()


@dataclass(slots=True, eq=False)
class Followed:
    """A feed that goes to the client; behind an item that is `last`, it ends (None: it goes on)."""

    subscription: Subscription
    last: Callable[[Item], bool] | None
    on_end: Callable[[], None]


class Outbox:
    """Sends in order. `send` writes one message and returns when the socket has taken it; while a client does not
    read, its feeds fall behind and later read on from the log, and nobody waits for it."""

    def __init__(self, send: Callable[[str], Awaitable[None]]) -> None:
        self._send = send
        self._ready: list[str] = []
        self._feeds: list[Followed] = []
        self._room = asyncio.Event()
        self._room.set()
        self._news = asyncio.Event()
        self._closed = False

    async def put(self, text: str) -> None:
        """Send a ready frame; waits while the client is far behind. Once closed, it is dropped."""
        await self._room.wait()
        if self._closed:
            return
        self._ready.append(text)
        if len(self._ready) >= MAX_READY:
            self._room.clear()
        self.notice()

    def follow(self, followed: Followed) -> None:
        """Send what the feed brings, from now on."""
        self._feeds.append(followed)
        self.notice()

    def unfollow(self, followed: Followed) -> None:
        """Send nothing more of it, also of what it has brought already; `on_end` is called."""
        if followed in self._feeds:
            self._feeds.remove(followed)
            followed.subscription.close()
            followed.on_end()

    def close(self) -> None:
        """End all feeds, and let go of who waits to send something."""
        self._closed = True
        self._room.set()
        for followed in list(self._feeds):
            self.unfollow(followed)

    def notice(self) -> None:
        """There is something to send; for the feeds."""
        self._news.set()

    async def run(self) -> None:
        """Send until cancelled. Raises what `send` raises, and OzzieError where a feed breaks."""
        while True:
            await self._news.wait()
            self._news.clear()
            texts, self._ready = self._ready, []
            self._room.set()
            try:
                for followed in list(self._feeds):
                    await self._gather(followed, texts)
                    if _size(texts) >= ENOUGH_CHARACTERS:  # what else there is waits in its feed
                        await self._send_all(texts)
                        texts = []
            except OzzieError:
                await self._send_all(texts)  # what was ready before the feed broke
                raise
            await self._send_all(texts)

    async def _send_all(self, texts: list[str]) -> None:
        begin = size = 0
        for end, text in enumerate(texts, start=1):
            size += len(text)
            if size >= ENOUGH_CHARACTERS or end == len(texts):
                part = texts[begin:end]
                await self._send(part[0] if len(part) == 1 else f"[{','.join(part)}]")
                begin, size = end, 0

    async def _gather(self, followed: Followed, texts: list[str]) -> None:
        """Add frames of what is there now, as many as are enough for a message."""
        size = 0
        for _ in range(MAX_ITEMS):
            items = await followed.subscription.take(1)
            if not items or followed not in self._feeds:  # ended while it read
                return
            text = _cache.text(items[0])
            texts.append(text)
            if followed.last is not None and followed.last(items[0]):
                self.unfollow(followed)
                return
            size += len(text)
            if size >= ENOUGH_CHARACTERS:
                return


def _size(texts: list[str]) -> int:
    return sum(map(len, texts))


log = logger(__name__)

MAX_SUBSCRIPTIONS = 32
MAX_REQUESTS = 32
PING_S = 30.0
FEED_METHODS = ("feed.subscribe", "feed.unsubscribe")
NOTEBOOK_METHODS = ("notebook.opened", "notebook.closed", "notebook.answer")
"""With those of the feed, the methods that are the connection's own."""
_ON_PURPOSE = frozenset({1000, 1001})
"""The codes with which a page closes its connection because it goes (RFC 6455 §7.4.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedSubscribe:
    """`from_position`: events after it; None means only what is new. With a `task_id`, the feed ends by itself behind
    the task's end; who follows a retry subscribes again."""

    from_position: int | None = None
    types: list[str] | None = None
    session_id: str = ""
    task_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedUnsubscribe:
    subscription: str


class WsHandler(Caller, WebSocketHandler):
    """One client's connection: answered here, or, while this server is attached, passed on to the owner and back."""

    auth_resource = RESOURCE

    def initialize(self) -> None:
        self._is_open = False
        self._outbox = Outbox(self._write)
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests = 0
        self._feeds: dict[str, Followed] = {}
        self._feed_ids = itertools.count(1)
        self._page = PageLink(self._outbox.put)

    async def prepare(self, **kwargs: Any) -> None:
        # A socket can't follow a redirect to a login page: it is refused.
        await super().prepare(_redirect_to_login=False)

    # The two base classes do not agree on the name of the parameter.
    def check_origin(self, origin: str = "") -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Jupyter's rule, and not tornado's, which knows no allow_origin."""
        return super().check_origin(origin)

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        # The origin is asked about by the base class too, but only after the owner would have been reached.
        if not await _is_allowed(self) or not self.check_origin():
            raise HTTPError(403)
        relay = self.state.relay
        self._upstream: WebSocketClientConnection | None = None
        if relay is not None:
            self._upstream = await relay.open_socket(self.principal.name)
        try:
            if self._upstream is None:
                self._ozzie: Services = self.services
            await super().get(*args, **kwargs)
        finally:
            if self._upstream is not None:
                self._upstream.close()

    def set_default_headers(self) -> None:
        """A handshake answer carries no headers of a page."""

    def get_compression_options(self) -> None:
        return None

    @property
    def max_message_size(self) -> int:
        return MAX_FRAME_BYTES

    @property
    def ping_interval(self) -> float:
        """Seconds; keeps proxies from closing an idle connection, and finds a client that is gone."""
        return PING_S

    @property
    def ping_timeout(self) -> float:
        return PING_S

    def open(self, *args: str, **kwargs: str) -> None:
        self._is_open = True
        # Otherwise TCP keeps the second of two small messages back until the first is acknowledged, 40 ms.
        self.set_nodelay(True)
        self.state.connections.add(self)
        if self._upstream is not None:
            self._spawn(self._pass_back(self._upstream))
        elif self.state.ozzie is self._ozzie:
            self._spawn(self._send_what_comes())
        else:  # it stopped as this client came
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
            # The next message is read when this one has been taken. Where the owner went, `_pass_back` ends this.
            with contextlib.suppress(WebSocketClosedError):
                await self._upstream.write_message(message, binary=isinstance(message, bytes))
            return
        try:
            frame = decode_request(message)
        except OzzieError as error:
            await self._outbox.put(encode_frame(_failed("", error)))
            return
        asked = _asked(frame)
        if asked is None:
            return
        if self._requests >= MAX_REQUESTS:
            error = InputError(
                f"A connection can have at most {MAX_REQUESTS} requests without an answer.",
                hint="Wait for answers before sending more.",
            )
            await self._outbox.put(encode_frame(_failed(asked.id, error)))
            return
        self._requests += 1
        self._spawn(self._answer(asked)).add_done_callback(self._answered)

    async def _answer(self, asked: Request) -> None:
        try:
            response = Response(id=asked.id, ok=True, payload=await self._payload(asked.method, asked.params))
        except Exception as error:
            response = _failed(asked.id, error)
        if response.id or not response.ok:
            await self._outbox.put(encode_frame(response))

    def _answered(self, task: "asyncio.Task[None]") -> None:
        self._requests -= 1

    async def _payload(self, method: str, params: JsonObject) -> JsonObject:
        if method == "feed.subscribe":
            return await self._subscribe(params)
        if method == "feed.unsubscribe":
            return self._unsubscribe(params)
        if method in NOTEBOOK_METHODS:
            return await self._of_a_page(method, params)
        if method in METHODS:
            return await METHODS[method](Call(self._ozzie, self.principal, params))
        raise InputError(
            f"There is no method {method[:60]}.",
            hint=f"There are: {', '.join(sorted([*METHODS, *FEED_METHODS, *NOTEBOOK_METHODS]))}.",
            code="input.method",
        )

    async def _of_a_page(self, method: str, params: JsonObject) -> JsonObject:
        """What a page tells of the notebooks that it has open, and answers about them: under the user's own identity,
        and never a kernel, whose code could say that an edit was made."""
        if self.principal.session_id is not None:
            raise PolicyError("A kernel has no notebooks open.", code="policy.session")
        if method == "notebook.answer":
            self._page.answered(decode(NotebookAnswer, params))
        elif method == "notebook.opened":
            await self.state.pages.has_opened(self._page, decode(PageHas, params))
        else:
            await self.state.pages.has_closed(self._page, decode(PageHas, params))
        return {}

    async def _subscribe(self, params: JsonObject) -> JsonObject:
        asked = decode(FeedSubscribe, params)
        own = self.principal.session_id
        if own is not None and asked.session_id and asked.session_id != own:
            raise PolicyError("This kernel may follow its own session only.", code="policy.session")
        head = (await self._ozzie.log.head()).position
        start = head if asked.from_position is None else asked.from_position
        if start > head:
            raise InputError(f"Position {start} is not in the log, which ends at {head}.", hint="Start from 0.")
        if len(self._feeds) >= MAX_SUBSCRIPTIONS:
            raise InputError(
                f"A connection can follow at most {MAX_SUBSCRIPTIONS} feeds.",
                hint="End one with feed.unsubscribe, or open another connection.",
            )
        session_id = own or (SessionId(asked.session_id) if asked.session_id else None)
        subscription = self._ozzie.feed.subscribe(
            start,
            types=frozenset(asked.types) if asked.types is not None else None,
            session_id=session_id,
            task_id=TaskId(asked.task_id) if asked.task_id else None,
            on_news=self._outbox.notice,
        )
        feed_id = str(next(self._feed_ids))

        def ended() -> None:
            del self._feeds[feed_id]

        followed = Followed(subscription, last=_is_final if asked.task_id else None, on_end=ended)
        self._feeds[feed_id] = followed
        self._outbox.follow(followed)
        return {"subscription": feed_id, "position": head}

    def _unsubscribe(self, params: JsonObject) -> JsonObject:
        followed = self._feeds.get(decode(FeedUnsubscribe, params).subscription)
        # One that is not there has ended by itself meanwhile.
        if followed is not None:
            self._outbox.unfollow(followed)
        return {}

    async def _send_what_comes(self) -> None:
        try:
            await self._outbox.run()
        except OzzieError as error:
            log.exception("a feed ended")
            await self._write(encode_frame(_failed("", error)))
            # No request waits for this answer: the end of the connection is what a client can't miss.
            self.close()

    async def _pass_back(self, upstream: WebSocketClientConnection) -> None:
        """Send what the owner sends, to its end. What this client does not take stays with the owner, whose feeds fall
        behind and read on from the log: here lie two messages at most."""
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


def _asked(frame: Request | EventFrame) -> Request | None:
    """The request that a client's frame stands for, without an id where it wants no answer; None for an event that
    means nothing here."""
    if isinstance(frame, Request):
        return frame
    translated = from_s0_event(frame.event, frame.payload)
    return Request(id="", method=translated[0], params=translated[1]) if translated else None


def _is_final(item: Event | Transient) -> bool:
    return item.type in FINAL_TYPES


def _failed(request_id: str, error: BaseException) -> Response:
    _, info = error_info(error)
    return Response(id=request_id, ok=False, error=ErrorInfo(code=info.code, message=info.message, hint=info.hint))


async def _is_allowed(handler: Caller) -> bool:
    """Jupyter's authorizer on the handshake; `@authorized` can't wrap a WebSocket's `get`."""
    allowed = handler.authorizer.is_authorized(handler, handler.current_user, "execute", RESOURCE)
    return allowed if isinstance(allowed, bool) else await allowed
