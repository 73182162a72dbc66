"""Handing on to the owner what is asked of a server that is attached to it (ADR 11).

Who asks has been let in by this server's own rules; the owner is asked with the token of its handshake, which stays
here, and is told the user's name. One connection for each request: on one machine that costs little, and a request that
waits for minutes holds up no other.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from tornado.http1connection import HTTP1Connection, HTTP1ConnectionParameters
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, RequestStartLine, ResponseStartLine
from tornado.tcpclient import TCPClient
from tornado.websocket import WebSocketClientConnection, WebSocketError, websocket_connect

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.gateway.access import behalf_headers
from ozzie_server_ext.protocol.handshake import Handshake, find_other_versions, find_owner
from ozzie_server_ext.protocol.owner import owner_pid

T = TypeVar("T")

REACH_S = 10.0
"""How long a request waits for an owner to be there: as one goes, another takes over within about a second."""
POLL_S = 0.1
CONNECT_S = 5.0
ANSWER_S = 30.0
"""How long the owner may take to begin its answer."""
PING_S = 30.0
MAX_MESSAGE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarded:
    """A request on its way. `path`: below the server's base URL, with the query as it came. `waits_s`: how much longer
    than others its answer may take."""

    method: str
    path: str
    user: str
    body: bytes = b""
    waits_s: float = 0.0


class Answer(HTTPMessageDelegate):
    """What takes the owner's answer. `began`: something of it has come."""

    began = False

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        self.began = True
        return None


class OwnerGone(Unavailable):
    """The owner went away in the middle of a request."""

    code = "gateway.lost"

    def __init__(self) -> None:
        super().__init__(
            "Ozzie's gateway went away before it had answered.",
            hint="Whether this was done is not known; look before you ask for it again.",
        )


class OwnerUnknown(Unavailable):
    """There is an owner, and no handshake of it here."""

    code = "gateway.unreachable"

    def __init__(self, pid: int | None, runtime_dir: Path) -> None:
        super().__init__(
            f"Ozzie's folder belongs to another server (process {pid or 'unknown'}), whose address is not known here.",
            hint="It may be starting: try again in a moment. If that does not help, start both with the same "
            f"JUPYTER_RUNTIME_DIR; here it is {runtime_dir}.",
        )


class OwnerSilent(Unavailable):
    """The owner does not answer at its address. `unsure`: it was given something to change, and may have done it."""

    code = "gateway.silent"

    def __init__(self, pid: int | None, *, unsure: bool = False) -> None:
        first = "Whether this was done is not known; look before you ask for it again." if unsure else ""
        super().__init__(
            f"Ozzie's folder belongs to another server (process {pid or 'unknown'}), which does not answer.",
            hint=f"{first or 'Try again in a moment.'} If that does not help, end that process: this server takes over "
            "then.",
        )


class Relay:
    """The way from an attached server to the owner of `home`, whichever server that is at the moment. `root` is the
    folder in which the paths begin that the attached server's pages name."""

    def __init__(self, home: Path, runtime_dir: Path, root: Path) -> None:
        self._home = home
        self._runtime_dir = runtime_dir
        self._root = root
        self._closed = False

    def close(self) -> None:
        """Hand on nothing more: this server has taken over, or stops."""
        self._closed = True

    async def exchange(self, forwarded: Forwarded, answer: Answer, gone: asyncio.Event) -> bool:
        """Hand a request on, and its answer to `answer` as fast as that takes it; ends when `gone` is set.

        False, and nothing was sent, where this server is attached no more. Raises Unavailable, also in mid-answer.
        """
        may_be_repeated = forwarded.method in ("GET", "HEAD")
        # One that takes connections and closes them is there to be reached: `_reach` alone would ask it for ever.
        left = max(1, round(REACH_S / POLL_S))
        while (found := await self._reach(_connect)) is not None:
            handshake, connection = found
            try:
                await _send(connection, forwarded, handshake, self._headers(handshake, forwarded.user))
                whole = await _unless(gone, connection.read_response(answer))
                if whole or whole is None:
                    return True
                raise OwnerGone if answer.began else OwnerSilent(handshake.pid, unsure=not may_be_repeated)
            except OSError:  # the owner closed the connection
                if answer.began or not may_be_repeated:
                    raise OwnerGone from None
            finally:
                connection.close()
            left -= 1
            if left == 0:
                raise OwnerSilent(handshake.pid)
            await asyncio.sleep(POLL_S)
        return False

    async def open_socket(self, user: str) -> WebSocketClientConnection | None:
        """The owner's WebSocket; None where this server is attached no more. Raises Unavailable."""

        async def connect(handshake: Handshake) -> WebSocketClientConnection:
            request = HTTPRequest(
                f"ws{handshake.url.removeprefix('http')}ozzie/api/ws",
                headers=self._headers(handshake, user),
                connect_timeout=CONNECT_S,
                request_timeout=CONNECT_S,
                validate_cert=False,
            )
            return await websocket_connect(
                request, max_message_size=MAX_MESSAGE_BYTES, ping_interval=PING_S, ping_timeout=PING_S
            )

        return await self._reach(connect)

    def _headers(self, handshake: Handshake, user: str) -> dict[str, str]:
        return {"Authorization": f"token {handshake.token}", **behalf_headers(user, self._root)}

    async def _reach(self, connect: Callable[[Handshake], Awaitable[T]]) -> T | None:
        """What `connect` makes of the owner, waiting for one that can be had; None once this relay is closed.

        Raises Unavailable.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + REACH_S
        while not self._closed:
            handshake = find_owner(self._runtime_dir, self._home)
            if handshake is not None:
                try:
                    return await connect(handshake)
                except (OSError, TimeoutError, HTTPClientError, WebSocketError):
                    pass
            if loop.time() >= end:
                raise self._unreachable()
            await asyncio.sleep(POLL_S)
        return None

    def _unreachable(self) -> Unavailable:
        owner = owner_pid(self._home)
        if owner in find_other_versions(self._runtime_dir, self._home):
            return Unavailable(
                f"Ozzie's folder belongs to a server with another version of Ozzie (process {owner}).",
                hint="Stop that server: this one takes over then.",
                code="gateway.version",
            )
        if find_owner(self._runtime_dir, self._home) is None:
            return OwnerUnknown(owner, self._runtime_dir)
        return OwnerSilent(owner)


async def _connect(handshake: Handshake) -> tuple[Handshake, HTTP1Connection]:
    address = urlsplit(handshake.url)
    stream = await TCPClient().connect(
        str(address.hostname),
        address.port or {"http": 80, "https": 443}[address.scheme],
        ssl_options=_trusting() if address.scheme == "https" else None,
        timeout=CONNECT_S,
    )
    return handshake, HTTP1Connection(stream, True, HTTP1ConnectionParameters(no_keep_alive=True))


async def _send(
    connection: HTTP1Connection, forwarded: Forwarded, handshake: Handshake, said: Mapping[str, str]
) -> None:
    address = urlsplit(handshake.url)
    headers = {**said, "Host": address.netloc, "Connection": "close"}
    body = b""
    if forwarded.method == "POST":
        # Bytes without a length would stand on the connection as another request.
        body = forwarded.body
        headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    connection.params.header_timeout = ANSWER_S + forwarded.waits_s
    line = RequestStartLine(forwarded.method, f"{address.path}{forwarded.path}", "HTTP/1.1")
    await connection.write_headers(line, HTTPHeaders(headers), body)
    connection.finish()


@cache
def _trusting() -> ssl.SSLContext:
    """The address is this machine's own and came with the token from a private file: its certificate may be made by
    the user."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _unless(gone: asyncio.Event, work: Awaitable[T]) -> T | None:
    """The result of `work`; None where `gone` was set first."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone.wait())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        leaving.cancel()
