"""`/ozzie/mcp`: Ozzie as an MCP server, over streamable HTTP.

Only a token in the Authorization header lets a client in: no cookie, so that no page can use a browser's. What a page
sends is refused by its Origin, whatever Jupyter's own settings allow. Behind that door, `programs/mcp_server.py` speaks
the protocol.
"""

import asyncio
from typing import Any
from urllib.parse import urlsplit

from jupyter_server.auth.decorator import allow_unauthenticated, authorized
from tornado.iostream import StreamClosedError
from tornado.web import authenticated

from ozzie_server_ext.config.client_tokens import client_of
from ozzie_server_ext.config.home import find_home
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.gateway.access import Principal, account_name
from ozzie_server_ext.gateway.base import OzzieHandler, Refusal, is_made_up
from ozzie_server_ext.gateway.mcp_plane import STREAM_TYPE, Request, lost_answer
from ozzie_server_ext.gateway.relay import Forwarded, Relay
from ozzie_server_ext.gateway.rest.handler import Passed
from ozzie_server_ext.protocol.mcp_server import MAX_BODY_BYTES, PROJECT_HEADER, project_in
from ozzie_server_ext.tasks.client_calls import CLIENT

MCP_PATH = "/ozzie/mcp"
METHODS = "GET, POST, DELETE, OPTIONS"
LOOK_S = 2.0
"""How often it is looked whether the token of a client whose request is open still holds."""
STREAM_S = 24 * 3600.0
"""How long an answer may take that an attached server relays: a call waits for a person."""
_FORWARDED = (
    "accept",
    "content-type",
    "last-event-id",
    "mcp-session-id",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
)
_PARAMETERS = "mcp-param-"
_ANSWERED = frozenset({"content-type", "mcp-session-id", "cache-control", "allow"})
MOST_HEADERS, MOST_HEADER_CHARS = 64, 4096


class McpHandler(OzzieHandler):
    """Hands requests of MCP clients to the process that serves them, and its answers back as they come."""

    max_body_bytes = MAX_BODY_BYTES

    def initialize(self) -> None:
        self._gone = asyncio.Event()

    @property
    def granted(self) -> Principal | None:
        """The holder of one of Ozzie's tokens, or of a client's own, which opens nothing but this."""
        if "ozzie_client" not in self.__dict__:
            name = client_of(find_home(), self.request.headers.get("Authorization", ""))
            self.__dict__["ozzie_client"] = None if name is None else Principal(kind="client", name=f"{CLIENT}{name}")
        return self.__dict__["ozzie_client"] or super().granted

    async def _let_in(self, **kwargs: Any) -> None:
        origin = self.request.headers.get("Origin")
        if origin is not None and _place(origin) != (self.request.host or "").lower():
            raise Refusal(403, "Pages of other places are not let in.", hint="", code="http.origin")
        await super()._let_in(**kwargs)
        if self.request.method != "OPTIONS" and self.granted is None and not self.token_authenticated:
            raise Refusal(
                403,
                "MCP clients need a token in the Authorization header.",
                hint="ozzie mcp token NAME makes one for a client.",
                code="http.403",
            )

    @authenticated
    @authorized
    async def get(self) -> None:
        await self._serve()

    @authenticated
    @authorized
    async def post(self) -> None:
        await self._serve()

    @authenticated
    @authorized
    async def delete(self) -> None:
        await self._serve()

    @authenticated
    @authorized
    async def put(self) -> None:
        raise self._unsupported()

    head = patch = put

    @allow_unauthenticated
    def options(self) -> None:
        """Name the methods. No page of another place may use them, so there are no headers for preflights."""
        self.set_header("Allow", METHODS)
        self.set_status(204)

    def on_connection_close(self) -> None:
        self._gone.set()
        super().on_connection_close()

    def close(self, code: int | None = None, reason: str | None = None) -> None:
        """End the answer, as the gateway goes."""
        self._gone.set()

    async def _serve(self) -> None:
        """Answer, until the client is gone."""
        work = asyncio.ensure_future(self._answer())
        gone = asyncio.ensure_future(self._gone.wait())
        self.state.connections.add(self)
        looks_s = LOOK_S if self.principal.kind == "client" else None
        is_void = False
        try:
            while not (await asyncio.wait({work, gone}, timeout=looks_s, return_when=asyncio.FIRST_COMPLETED))[0]:
                if is_void := self._is_void():
                    self._gone.set()
                    break
        finally:
            self.state.connections.discard(self)
            gone.cancel()
            work.cancel()
        if not self._gone.is_set() or work.done():
            await work
            return
        if is_void and self.state.relay is None:
            self.services.mcp.end(self.principal.name)
        await asyncio.wait({work})
        if is_void and not self._headers_written:
            raise Refusal(
                403, "This client's token has ended.", hint="ozzie mcp token NAME makes one.", code="http.403"
            )

    def _is_void(self) -> bool:
        """Whether the client's token has ended since it was let in."""
        return client_of(find_home(), self.request.headers.get("Authorization", "")) is None

    @property
    def _user(self) -> str:
        """The name of the caller, the same in each request: it says whose a session of the protocol is."""
        return account_name() if self.granted is None and is_made_up(self.current_user) else self.principal.name

    async def _answer(self) -> None:
        if self.request.method != "POST" and self._body:
            raise Refusal(400, "Only a POST has a body.", hint="", code="http.400")
        if self.principal.kind == "client" and PROJECT_HEADER in self.request.headers:
            raise Refusal(
                403,
                "A client's token is for the gateway's own folder.",
                hint="ozzie mcp serve works in others.",
                code="policy.client",
            )
        if self.state.relay is not None and await self._handed_on(self.state.relay):
            return
        try:
            body = self.body.decode()
        except UnicodeDecodeError:
            raise Refusal(400, "The body is not UTF-8.", hint="Send JSON.", code="input.json") from None
        request = Request(
            user=self._user,
            project=project_in(self.request.headers.get(PROJECT_HEADER, "")),
            method=str(self.request.method),
            headers=tuple(self._of_protocol().items()),
            body=body,
        )
        answer = _Streamed(self)
        try:
            await self.services.mcp.exchange(request, answer)
        except StreamClosedError:
            self._gone.set()
            return
        except OzzieError as error:
            if isinstance(error, Unavailable) and error.code == "mcp.lost" and not answer.began:
                self.set_status(503)
                await self.finish(lost_answer(body))
                return
            raise
        await self.finish(set_content_type=answer.content_type or "application/json")

    def _of_protocol(self) -> dict[str, str]:
        """Return the headers that the protocol knows. Raises Refusal for one that came twice, since two programs could
        read different ones."""
        found: dict[str, str] = {}
        for name, value in self.request.headers.get_all():
            lower = name.lower()
            if lower not in _FORWARDED and not lower.startswith(_PARAMETERS):
                continue
            if lower in found or len(found) >= MOST_HEADERS or len(value) > MOST_HEADER_CHARS:
                raise Refusal(
                    400, "A header came twice, is too long, or there are too many.", hint="", code="http.header"
                )
            if not (value.isascii() and value.isprintable()):
                raise Refusal(400, "A header has characters that no header has.", hint="", code="http.header")
            found[lower] = value
        return found

    async def _handed_on(self, relay: Relay) -> bool:
        """Relay the request to the owner; return False if this server is now the owner. Raises Unavailable."""
        forwarded = Forwarded(
            method=str(self.request.method),
            path="ozzie/mcp",
            user=self._user,
            body=self.body,
            waits_s=STREAM_S,
            headers={**self._of_protocol(), **_named(self.request.headers.get(PROJECT_HEADER, ""))},
        )
        passed = Passed(self, self._gone, _ANSWERED)
        try:
            if not await relay.exchange(forwarded, passed, self._gone):
                return False
        except Unavailable:
            if not passed.began:
                raise
            self.detach().close()  # a part must not look complete
        else:
            if not self._gone.is_set():
                await self.finish(set_content_type=passed.content_type)
        return True

    def _unsupported(self) -> Refusal:
        return Refusal(
            405,
            f"{self.request.method} is not possible here.",
            hint=f"Possible are: {METHODS}.",
            code="http.405",
            allow=METHODS,
        )

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        if status_code == 405:
            kwargs["exc_info"] = (Refusal, self._unsupported(), None)
        super().write_error(status_code, **kwargs)


def _place(origin: str) -> str | None:
    """Return the host and port of an origin, or None if it is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _named(project: str) -> dict[str, str]:
    return {PROJECT_HEADER: project} if project else {}


class _Streamed:
    """An answer that is written as it comes."""

    def __init__(self, handler: McpHandler) -> None:
        self._handler = handler
        self.content_type = ""
        self.began = False

    async def start(self, status: int, headers: tuple[tuple[str, str], ...]) -> None:
        self.began = True
        self._handler.set_status(status)
        for name, value in headers:
            if name in _ANSWERED:
                self._handler.set_header(name, value)
            if name == "content-type":
                self.content_type = value
        if self.content_type.startswith(STREAM_TYPE):
            await self._handler.flush()  # the first event may come in a minute

    async def write(self, text: str) -> None:
        self._handler.write(text)
        await self._handler.flush()
