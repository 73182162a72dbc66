"""The WebSocket at `/ozzie/api/ws`: requests in, responses and the feed out (GW-2)."""

import asyncio
from dataclasses import dataclass
from typing import Any

from jupyter_server.auth.decorator import ws_authenticated
from tornado.web import HTTPError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from ozzie_server_ext.domain.errors import InputError, OzzieError, PolicyError
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.access import Principal
from ozzie_server_ext.gateway.base import RESOURCE, Caller, error_info
from ozzie_server_ext.gateway.methods import METHODS, Call, from_s0_event
from ozzie_server_ext.gateway.outbox import Outbox
from ozzie_server_ext.gateway.services import Services
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.codec import decode
from ozzie_server_ext.protocol.frames import (
    MAX_FRAME_BYTES,
    ErrorInfo,
    EventFrame,
    Response,
    decode_request,
    encode_frame,
)
from ozzie_server_ext.store.feed import Subscription

log = logger(__name__)

MAX_SUBSCRIPTIONS = 32
MAX_REQUESTS = 32
PING_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedSubscribe:
    """`from_position`: events after it; None means only what is new."""

    from_position: int | None = None
    types: list[str] | None = None
    session_id: str = ""
    task_id: str = ""


class WsHandler(Caller, WebSocketHandler):
    """One client's connection."""

    auth_resource = RESOURCE

    async def prepare(self, **kwargs: Any) -> None:
        # A socket can't follow a redirect to a login page: it is refused.
        await super().prepare(_redirect_to_login=False)

    # The two base classes do not agree on the name of the parameter.
    def check_origin(self, origin: str = "") -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Jupyter's rule, and not tornado's, which knows no allow_origin."""
        return super().check_origin(origin)

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        allowed = await _is_allowed(self)
        if not allowed:
            raise HTTPError(403)
        self._ozzie: Services = self.state.require()
        await super().get(*args, **kwargs)

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
        self._principal: Principal = self.principal
        self._outbox = Outbox(self._write)
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests = 0
        self._subscriptions = 0
        self.state.clients += 1
        self._spawn(self._outbox.run())

    def on_close(self) -> None:
        if "_tasks" in self.__dict__:
            self.state.clients -= 1
            self.state.access.revoke(self._principal)
            for task in self._tasks:
                task.cancel()

    async def on_message(self, message: str | bytes) -> None:
        try:
            frame = decode_request(message)
        except OzzieError as error:
            await self._outbox.put(encode_frame(_failed("", error)))
            return
        if isinstance(frame, EventFrame):
            translated = from_s0_event(frame.event, frame.payload)
            if translated is not None:
                self._spawn(self._answer("", *translated))
            return
        if self._requests >= MAX_REQUESTS:
            error = InputError("Too many requests at once.", hint="Wait for answers before sending more.")
            await self._outbox.put(encode_frame(_failed(frame.id, error)))
            return
        self._spawn(self._answer(frame.id, frame.method, frame.params))

    async def _answer(self, request_id: str, method: str, params: JsonObject) -> None:
        self._requests += 1
        try:
            if method == "feed.subscribe":
                payload = await self._subscribe(params)
            elif method in METHODS:
                payload = await METHODS[method](Call(self._ozzie, self._principal, params))
            else:
                raise InputError(
                    f"There is no method {method[:60]}.",
                    hint=f"There are: {', '.join(sorted([*METHODS, 'feed.subscribe']))}.",
                    code="input.method",
                )
            response = Response(id=request_id, ok=True, payload=payload)
        except Exception as error:
            response = _failed(request_id, error)
        finally:
            self._requests -= 1
        if request_id or not response.ok:
            await self._outbox.put(encode_frame(response))

    async def _subscribe(self, params: JsonObject) -> JsonObject:
        asked = decode(FeedSubscribe, params)
        own = self._principal.session_id
        if own is not None and asked.session_id and asked.session_id != own:
            raise PolicyError("This kernel may follow its own session only.", code="policy.session")
        if self._subscriptions >= MAX_SUBSCRIPTIONS:
            raise InputError(f"A connection can follow at most {MAX_SUBSCRIPTIONS} feeds.")
        head = (await self._ozzie.log.head()).position
        start = head if asked.from_position is None else asked.from_position
        session_id = own or (SessionId(asked.session_id) if asked.session_id else None)
        subscription = self._ozzie.feed.subscribe(
            start,
            types=frozenset(asked.types) if asked.types is not None else None,
            session_id=session_id,
            task_id=TaskId(asked.task_id) if asked.task_id else None,
        )
        self._subscriptions += 1
        self._spawn(self._follow(subscription))
        return {"position": head}

    async def _follow(self, subscription: Subscription) -> None:
        try:
            async with subscription:
                async for item in subscription:
                    await self._outbox.put(item)
        except OzzieError as error:
            log.exception("a feed ended")
            await self._outbox.put(encode_frame(_failed("", error)))
        finally:
            self._subscriptions -= 1

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            if not isinstance(error, WebSocketClosedError):
                log.error("a connection broke", exc_info=error)
            self.close()

    async def _write(self, text: str) -> None:
        await self.write_message(text)


def _failed(request_id: str, error: BaseException) -> Response:
    _, info = error_info(error)
    return Response(id=request_id, ok=False, error=ErrorInfo(code=info.code, message=info.message, hint=info.hint))


async def _is_allowed(handler: Caller) -> bool:
    """Jupyter's authorizer on the handshake; `@authorized` can't wrap a WebSocket's `get`."""
    allowed = handler.authorizer.is_authorized(handler, handler.current_user, "execute", RESOURCE)
    return allowed if isinstance(allowed, bool) else await allowed
