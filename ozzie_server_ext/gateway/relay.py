"""Relays requests from an attached server to the owner (ADR 11).

This server has authorized the caller by its own rules. The owner gets the token of its handshake, which never leaves
this process, and the user's name. Each request has its own connection: on one machine that costs little, and a request
that waits for minutes blocks no other.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec
from tornado.http1connection import HTTP1Connection, HTTP1ConnectionParameters
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, RequestStartLine, ResponseStartLine
from tornado.tcpclient import TCPClient
from tornado.websocket import WebSocketClientConnection, WebSocketError, websocket_connect

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.gateway.access import behalf_headers
from ozzie_server_ext.protocol.handshake import Handshake, find_other_versions, find_owner
from ozzie_server_ext.protocol.owner import owner_pid
from ozzie_server_ext.store.projections.sessions import session_gone
from ozzie_server_ext.tasks.sessions import unknown_session

T = TypeVar("T")

REACH_S = 10.0
"""How long a request waits for an owner: when one stops, another takes over within about a second."""
POLL_S = 0.1
CONNECT_S = 5.0
ANSWER_S = 30.0
"""How long the owner may take to start its answer."""
PING_S = 30.0
MAX_MESSAGE_BYTES = 64 << 20


class Forwarded(msgspec.Struct, frozen=True, kw_only=True):
    """A request to relay. `path`: below the server's base URL, with its original query. `waits_s`: extra seconds that
    its answer may take. `headers`: further ones that go along."""

    method: str
    path: str
    user: str
    body: bytes = b""
    waits_s: float = 0.0
    headers: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class Answer(HTTPMessageDelegate):
    """Receives the owner's answer. `began`: part of it has arrived."""

    began = False

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        self.began = True
        return None


class OwnerGone(Unavailable):
    """The owner went away during a request."""

    code = "gateway.lost"

    def __init__(self) -> None:
        super().__init__(
            "Ozzie's gateway went away before it had answered.",
            hint="Whether this was done is not known; look before you ask for it again.",
        )


class OwnerUnknown(Unavailable):
    """There is an owner, but no handshake of it here."""

    code = "gateway.unreachable"

    def __init__(self, pid: int | None, runtime_dir: Path) -> None:
        super().__init__(
            f"Ozzie's folder belongs to another server (process {pid or 'unknown'}), whose address is not known here.",
            hint="It may be starting: try again in a moment. If that does not help, start both with the same "
            f"JUPYTER_RUNTIME_DIR; here it is {runtime_dir}.",
        )


class OwnerSilent(Unavailable):
    """The owner doesn't answer at its address. `unsure`: it may have made the requested change."""

    code = "gateway.silent"

    def __init__(self, pid: int | None, *, unsure: bool = False) -> None:
        first = "Whether this was done is not known; look before you ask for it again." if unsure else ""
        super().__init__(
            f"Ozzie's folder belongs to another server (process {pid or 'unknown'}), which does not answer.",
            hint=f"{first or 'Try again in a moment.'} If that does not help, end that process: this server takes over "
            "then.",
        )


class Relay:
    """Connects an attached server to the current owner of `home`. The paths that the attached server's pages name are
    relative to `root`."""

    def __init__(self, home: Path, runtime_dir: Path, root: Path) -> None:
        self._home = home
        self._runtime_dir = runtime_dir
        self._root = root
        self._closed = False

    def close(self) -> None:
        """Stop relaying: this server has taken over, or stops."""
        self._closed = True

    async def exchange(self, forwarded: Forwarded, answer: Answer, gone: asyncio.Event) -> bool:
        """Relay a request, and stream the answer to `answer`; stop when `gone` is set.

        Return False if this server is no longer attached; nothing was sent then. Raises Unavailable, also in the middle
        of an answer.
        """
        may_be_repeated = forwarded.method in ("GET", "HEAD")
        # Bounded, because an owner that accepts and closes each connection counts as reachable for `_reach`.
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

    async def open_socket(self, user: str, session_id: str = "") -> WebSocketClientConnection | None:
        """Connect to the owner's WebSocket; None if this server is no longer attached. Raises Unavailable, and NotFound
        if the owner does not know the session."""
        query = f"?{urlencode({'session_id': session_id})}" if session_id else ""

        async def connect(handshake: Handshake) -> WebSocketClientConnection:
            request = HTTPRequest(
                f"ws{handshake.url.removeprefix('http')}ozzie/api/ws{query}",
                headers=self._headers(handshake, user),
                connect_timeout=CONNECT_S,
                request_timeout=CONNECT_S,
                validate_cert=False,
            )
            try:
                return await websocket_connect(
                    request, max_message_size=MAX_MESSAGE_BYTES, ping_interval=PING_S, ping_timeout=PING_S
                )
            except HTTPClientError as error:
                if session_id and error.code == 404:
                    raise unknown_session(session_id) from None
                if session_id and error.code == 410:
                    raise session_gone({}) from None
                raise

        return await self._reach(connect)

    def _headers(self, handshake: Handshake, user: str) -> dict[str, str]:
        return {"Authorization": f"token {handshake.token}", **behalf_headers(user, self._root)}

    async def _reach(self, connect: Callable[[Handshake], Awaitable[T]]) -> T | None:
        """Return the result of `connect` for the owner, waiting for one to appear; None once this relay is closed.

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
        ssl_options=trusting() if address.scheme == "https" else None,
        timeout=CONNECT_S,
    )
    return handshake, HTTP1Connection(stream, True, HTTP1ConnectionParameters(no_keep_alive=True))


async def _send(
    connection: HTTP1Connection, forwarded: Forwarded, handshake: Handshake, said: Mapping[str, str]
) -> None:
    address = urlsplit(handshake.url)
    headers = {**forwarded.headers, **said, "Host": address.netloc, "Connection": "close"}
    body = b""
    if forwarded.method == "POST":
        # A body without a length would be read as another request.
        body = forwarded.body
        headers = {"Content-Type": "application/json", **headers, "Content-Length": str(len(body))}
    connection.params.header_timeout = ANSWER_S + forwarded.waits_s
    line = RequestStartLine(forwarded.method, f"{address.path}{forwarded.path}", "HTTP/1.1")
    await connection.write_headers(line, HTTPHeaders(headers), body)
    connection.finish()


@cache
def trusting() -> ssl.SSLContext:
    """Trust any certificate: the address is local and came with the token from a private file, and users may make their
    own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _unless(gone: asyncio.Event, work: Awaitable[T]) -> T | None:
    """Return the result of `work`, or None if `gone` was set first."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone.wait())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        leaving.cancel()
