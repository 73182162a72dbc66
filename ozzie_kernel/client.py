"""The kernel's end of the WebSocket: requests, responses, and the frames of followed turns."""

import asyncio
import contextlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ozzie_server_ext.domain.errors import InputError, OzzieError, Unavailable
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.frames import MAX_FRAME_BYTES, EventFrame, Request, Response, decode_frames, encode_frame

if TYPE_CHECKING:
    from tornado.websocket import WebSocketClientConnection

REQUEST_TIMEOUT_S = 30.0
WHOLE_SESSION_TIMEOUT_S = 630.0
"""For requests that read a whole session. The gateway ends them itself, after ten minutes at the latest."""
CONNECT_TIMEOUT_S = 10.0
MAX_MESSAGE_BYTES = 64 << 20


class GatewayLost(Unavailable):
    """The connection ended."""

    code = "gateway.lost"

    def __init__(self, task_id: str = "", *, hint: str = "Run the cell again.") -> None:
        """With a `task_id`, say that this task goes on."""
        kept = f"Your message is kept: the task {task_id} goes on as soon as a gateway runs."
        super().__init__("The connection to Ozzie's gateway ended.", hint=kept if task_id else hint)


class GatewaySilent(Unavailable):
    """The connection is open, but no answer comes."""

    code = "gateway.silent"

    def __init__(self, *, hint: str = "Try again in a moment. If that does not help, restart Jupyter.") -> None:
        super().__init__("The gateway does not answer.", hint=hint)


class TooLong(InputError):
    """The request is larger than the gateway accepts; sending it would cost the connection."""

    code = "input.too_long"

    def __init__(self, size: int) -> None:
        super().__init__(
            f"The message has {size:,} bytes; at most {MAX_FRAME_BYTES:,} are allowed.",
            hint="Put the text into a file of the project and name the file.",
        )


class Refused(OzzieError):
    """The gateway refused a request; code, message and hint are its own."""


@dataclass(slots=True)
class _Followed:
    """A followed task; `subscription` is known once the gateway has answered."""

    frames: "asyncio.Queue[EventFrame | None]" = field(default_factory=asyncio.Queue)
    subscription: str = ""


async def open_websocket(url: str, token: str) -> "WebSocketClientConnection":
    """Open the WebSocket of a gateway at `url`. Raises Unavailable if no gateway answers there."""
    # These take 50 ms to load: not before the kernel has said that it is ready.
    from tornado.httpclient import HTTPClientError, HTTPRequest
    from tornado.websocket import websocket_connect

    request = HTTPRequest(
        f"ws{url.removeprefix('http')}ozzie/api/ws",  # http → ws, https → wss
        headers={"Authorization": f"token {token}"},
        connect_timeout=CONNECT_TIMEOUT_S,
        # A loopback address that came with the token from a private file.
        validate_cert=False,
    )
    try:
        return await websocket_connect(request, max_message_size=MAX_MESSAGE_BYTES)
    except (OSError, HTTPClientError, TimeoutError) as error:
        raise Unavailable(f"Ozzie's gateway does not answer: {error}.", code="gateway.unreachable") from None


class GatewayClient:
    """One connection. `connect` opens it; after `GatewayLost` open another."""

    def __init__(self, connection: "WebSocketClientConnection") -> None:
        self._connection = connection
        self._ids = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Response]] = {}
        self._followed: dict[str, _Followed] = {}
        self._unsubscribing: set[asyncio.Task[None]] = set()
        self._closed = False
        self._reader = asyncio.create_task(self._read(), name="ozzie gateway reader")

    @classmethod
    async def connect(cls, url: str, token: str) -> "GatewayClient":
        """Connect to `url`, a server's base with a slash at its end.

        Raises Unavailable if no gateway answers there.
        """
        return cls(await open_websocket(url, token))

    @property
    def closed(self) -> bool:
        """Whether the connection has ended, as after every GatewayLost."""
        return self._closed

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float | None = REQUEST_TIMEOUT_S
    ) -> JsonObject:
        """Send a request and return the response's payload; a `timeout_s` of None waits as long as the connection is
        open.

        Raises TooLong before anything is sent, Refused with the gateway's error, GatewayLost, or GatewaySilent.
        """
        request_id = str(next(self._ids))
        text = encode_frame(Request(id=request_id, method=method, params=dict(params)))
        if (size := len(text.encode())) > MAX_FRAME_BYTES:
            raise TooLong(size)
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = answer
        try:
            await self._send(text)
            response = await asyncio.wait_for(answer, timeout_s)
        except TimeoutError:
            raise GatewaySilent from None
        finally:
            self._waiting.pop(request_id, None)
        if response.error is not None:
            raise Refused(response.error.message, hint=response.error.hint, code=response.error.code)
        return response.payload

    async def follow(self, task_id: str, from_position: int) -> "asyncio.Queue[EventFrame | None]":
        """Follow a task after a position; None in the queue means that the connection ended.

        The gateway sends nothing after the task's end; `unfollow` it all the same. Raises as `request`.
        """
        followed = self._followed[task_id] = _Followed()
        try:
            answer = await self.request("feed.subscribe", {"from_position": from_position, "task_id": task_id})
        except BaseException:
            del self._followed[task_id]
            raise
        followed.subscription = str(answer["subscription"])
        return followed.frames

    def unfollow(self, task_id: str, *, ended: bool) -> None:
        """Stop following a task. Unless it has `ended`, tell the gateway, without waiting for the answer."""
        followed = self._followed.pop(task_id, None)
        if followed is not None and not ended:
            unsubscribing = asyncio.ensure_future(self._unsubscribe(followed.subscription))
            self._unsubscribing.add(unsubscribing)
            unsubscribing.add_done_callback(self._unsubscribing.discard)

    async def _unsubscribe(self, subscription: str) -> None:
        with contextlib.suppress(OzzieError):
            await self.request("feed.unsubscribe", {"subscription": subscription})

    async def close(self) -> None:
        self._connection.close()
        await self._reader

    async def _send(self, text: str) -> None:
        if self._closed:
            raise GatewayLost
        try:
            await self._connection.write_message(text)
        except Exception:  # tornado raises several kinds for a closing connection
            # The reader notices a little later; a caller that knows of the loss must not get this connection again.
            self._closed = True
            raise GatewayLost from None

    async def _read(self) -> None:
        try:
            while (message := await self._connection.read_message()) is not None:
                for frame in decode_frames(message):
                    self._deliver(frame)
        except OzzieError:
            self._connection.close()
        finally:
            self._closed = True
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(GatewayLost())
            for followed in self._followed.values():
                followed.frames.put_nowait(None)

    def _deliver(self, frame: object) -> None:
        if isinstance(frame, Response) and (answer := self._waiting.get(frame.id)) and not answer.done():
            answer.set_result(frame)
        elif isinstance(frame, EventFrame) and (followed := self._followed.get(frame.task_id or "")):
            followed.frames.put_nowait(frame)
