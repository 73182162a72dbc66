"""Tornado's side of the REST interface: one handler class for all paths, given their operations."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Protocol

import msgspec
from jupyter_server.auth.decorator import allow_unauthenticated, authorized
from tornado.httputil import HTTPHeaders, RequestStartLine, ResponseStartLine
from tornado.iostream import StreamClosedError
from tornado.web import authenticated

from ozzie_server_ext.domain.errors import InputError, Unavailable
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.base import OzzieHandler, Refusal
from ozzie_server_ext.gateway.operation import Call, Operation, read
from ozzie_server_ext.gateway.relay import Answer, Forwarded, Relay
from ozzie_server_ext.gateway.rest.shapes import Download
from ozzie_server_ext.protocol.jsontext import dumps, loads_object

_HEADERS = ("Content-Type", "Content-Length", "Content-Disposition", "Allow")
"""Headers that are relayed; the others are this server's own."""
MAX_COLLECTED_BYTES = 1 << 20


class Responder(Protocol):
    """What an answer is written to."""

    def set_status(self, status_code: int, reason: str | None = None) -> None: ...
    def set_header(self, name: str, value: str) -> None: ...
    def write(self, chunk: bytes) -> None: ...
    def flush(self) -> Awaitable[None]: ...


class Passed(Answer):
    """Streams the owner's answer to the page as fast as the page takes it; sets `gone` when the page disconnects."""

    def __init__(self, page: Responder, gone: asyncio.Event, names: Iterable[str] = _HEADERS) -> None:
        """`names` are the headers that are passed on."""
        self._page = page
        self._gone = gone
        self._names = tuple(names)
        self.content_type = ""

    def headers_received(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> None:
        super().headers_received(start_line, headers)
        assert isinstance(start_line, ResponseStartLine)
        self._page.set_status(start_line.code)
        self.content_type = headers.get("Content-Type", "")
        for name in self._names:
            if name in headers:
                self._page.set_header(name, headers[name])

    async def data_received(self, chunk: bytes) -> None:
        self._page.write(chunk)
        try:
            await self._page.flush()
        except StreamClosedError:
            self._gone.set()


class Collected(Answer):
    """Collects a small answer, to change it before it goes on."""

    def __init__(self) -> None:
        self.status = 503
        self._body = bytearray()

    def headers_received(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> None:
        super().headers_received(start_line, headers)
        assert isinstance(start_line, ResponseStartLine)
        self.status = start_line.code

    def data_received(self, chunk: bytes) -> None:
        self._body += chunk[: MAX_COLLECTED_BYTES - len(self._body)]

    def object(self) -> JsonObject:
        """Return the answer's JSON object. Raises Unavailable if it is no answer of a gateway: that is not the
        request's fault."""
        try:
            return loads_object(bytes(self._body))
        except InputError:
            raise Unavailable(
                "What answers at the address of Ozzie's gateway is none.",
                hint="Try again in a moment. If that does not help, restart Jupyter.",
                code="gateway.unreachable",
            ) from None


class RestHandler(OzzieHandler):
    """Answers the operations of one path, by method. HEAD is GET without a body; OPTIONS lists the methods."""

    def initialize(self, operations: Mapping[str, Operation]) -> None:
        self._operations = operations
        self._gone = asyncio.Event()

    @authenticated
    @authorized
    async def get(self, **path: str) -> None:
        await self._answer("GET", path)

    @authenticated
    @authorized
    async def head(self, **path: str) -> None:
        await self._answer("GET", path)

    @authenticated
    @authorized
    async def post(self, **path: str) -> None:
        await self._answer("POST", path)

    @authenticated
    @authorized
    async def put(self, **path: str) -> None:
        raise self._unsupported()

    @authenticated
    @authorized
    async def patch(self, **path: str) -> None:
        raise self._unsupported()

    @authenticated
    @authorized
    async def delete(self, **path: str) -> None:
        await self._answer("DELETE", path)

    @allow_unauthenticated
    def options(self, *args: Any, **path: str) -> None:
        """Answer a preflight request: Jupyter's own answer, without a body."""
        super().options(*args, **path)
        self.set_header("Allow", self.allowed)
        self.set_status(204)

    @property
    def allowed(self) -> str:
        """The methods of this path, as in the header Allow."""
        return ", ".join([*self._operations, *(["HEAD"] if "GET" in self._operations else []), "OPTIONS"])

    def on_connection_close(self) -> None:
        self._gone.set()
        super().on_connection_close()

    async def _answer(self, method: str, path: Mapping[str, str]) -> None:
        operation = self._operations.get(method)
        if operation is None:
            raise self._unsupported()
        body = self.body_object() if method == "POST" else {}
        if operation.downloads:
            self._forbid_to_run()
        if self.state.relay is not None and await self._handed_on(self.state.relay, operation):
            return
        request = read(operation, path, self.request.query_arguments, body)
        answer = await operation.perform(Call(self.state, self.services, self.principal, self._gone), request)
        self.set_status(operation.status_of(type(answer)))
        if isinstance(answer, Download):
            self.set_header("Content-Disposition", answer.disposition)
            self.finish(answer.content, set_content_type=answer.media_type)
            return
        self.finish(None if answer is None else msgspec.json.encode(answer))

    async def _handed_on(self, relay: Relay, operation: Operation) -> bool:
        """Relay the request to the owner; return False if this server is now the owner. Raises Unavailable."""
        forwarded = Forwarded(
            # The whole answer is needed to change it, also for its size.
            method=operation.method if operation.attached else str(self.request.method),
            path=str(self.request.uri).removeprefix(self.base_url),
            user=self.principal.name,
            body=self.body,
            waits_s=operation.waits_s,
        )
        if operation.attached is not None:
            collected = Collected()
            if not await relay.exchange(forwarded, collected, self._gone):
                return False
            said = collected.object()
            self.set_status(collected.status)
            self.finish(dumps(operation.attached(self.state, said) if collected.status == 200 else said))
            return True
        passed = Passed(self, self._gone)
        try:
            if not await relay.exchange(forwarded, passed, self._gone):
                return False
        except Unavailable:
            if not passed.began:
                raise
            self.detach().close()  # a part must not look complete
        else:
            self.finish(set_content_type=passed.content_type)
        return True

    def _forbid_to_run(self) -> None:
        """Keep the content from running, even if a browser shows it: it is not a page of Jupyter's."""
        self.set_header("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
        self.set_header("X-Content-Type-Options", "nosniff")

    def _unsupported(self) -> Refusal:
        return Refusal(
            405,
            f"{self.request.method} is not possible here.",
            hint=f"Possible are: {self.allowed}.",
            code="http.405",
            allow=self.allowed,
        )

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        if status_code == 405:  # a method that tornado doesn't know
            kwargs["exc_info"] = (Refusal, self._unsupported(), None)
        super().write_error(status_code, **kwargs)


class NothingHandler(OzzieHandler):
    """Answers 404 for every other path below the prefix, in the shape of all refusals."""

    @authenticated
    @authorized
    async def get(self, rest: str) -> None:
        raise Refusal(
            404,
            "There is nothing at this address.",
            hint="GET /ozzie/api/openapi.json says what there is.",
            code="http.404",
        )

    head = post = put = patch = delete = get

    @allow_unauthenticated
    def options(self, *args: Any, **path: str) -> None:
        """Answer 404."""
        self.set_status(404)
