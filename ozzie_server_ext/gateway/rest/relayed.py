"""The owner's answers as an attached server gives them: piece by piece, or with a word of its own (ADR 11)."""

import asyncio
from collections.abc import Awaitable
from typing import Protocol

from tornado.httputil import HTTPHeaders, RequestStartLine, ResponseStartLine
from tornado.iostream import StreamClosedError

from ozzie_server_ext.domain.errors import InputError, Unavailable
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.relay import Answer
from ozzie_server_ext.protocol.jsontext import loads_object

_HEADERS = ("Content-Type", "Content-Length", "Content-Disposition", "Allow")
"""Those that are handed on; the others are this server's own."""
MAX_COLLECTED_BYTES = 1 << 20


class Page(Protocol):
    """What a handler gives an answer to."""

    def set_status(self, status_code: int, reason: str | None = None) -> None: ...
    def set_header(self, name: str, value: str) -> None: ...
    def write(self, chunk: bytes) -> None: ...
    def flush(self) -> Awaitable[None]: ...


class Passed(Answer):
    """The answer goes on as it comes, and no faster than the page takes it; `gone` is set where that is there no
    more."""

    def __init__(self, page: Page, gone: asyncio.Event) -> None:
        self._page = page
        self._gone = gone
        self.content_type = ""

    def headers_received(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> None:
        super().headers_received(start_line, headers)
        assert isinstance(start_line, ResponseStartLine)
        self._page.set_status(start_line.code)
        self.content_type = headers.get("Content-Type", "")
        for name in _HEADERS:
            if name in headers:
                self._page.set_header(name, headers[name])

    async def data_received(self, chunk: bytes) -> None:
        self._page.write(chunk)
        try:
            await self._page.flush()
        except StreamClosedError:
            self._gone.set()


class Collected(Answer):
    """The answer as a whole, to be changed before it goes on. It is a small one of ours."""

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
        """Raises Unavailable for what is no answer of a gateway: it is not the request's fault."""
        try:
            return loads_object(bytes(self._body))
        except InputError:
            raise Unavailable(
                "What answers at the address of Ozzie's gateway is none.",
                hint="Try again in a moment. If that does not help, restart Jupyter.",
                code="gateway.unreachable",
            ) from None
