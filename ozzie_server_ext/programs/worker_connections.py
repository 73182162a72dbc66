"""Keeps the connection to a provider usable after an answer, so that the next call needs no new handshakes
(docs/adr/0062-connections-to-providers.md).

OpenAI's client, and litellm's of Anthropic, read no further than an answer's last event, when the end of the response's
body is still to come. Here the rest is read at once, for a bounded time. An answer that is broken off still closes its
connection, by which the provider learns that nobody reads any more.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress

import httpx

MOST_S = 1.0
"""How long the rest of a body may take. After that, the connection is closed."""
MOST_BYTES = 64 * 1024
_TAIL = 1024
_LAST_EVENT = re.compile(
    rb"(?:^|\n)"
    rb"(?:data: ?\[DONE\]\s*"  # of OpenAI, and those that follow it
    rb'|event: ?message_delta\r?\n[^\n]*"stop_reason": ?"[^\n]*\n\r?\n)$'  # of Anthropic, as far as litellm reads
)
"""The last server-sent event that is read. In the JSON of other events, a line break is written as two characters, so
no text can look like it."""


class WholeBody(httpx.AsyncByteStream):
    """A response's body, the rest of which is read in the background once its last event has come."""

    def __init__(self, body: httpx.AsyncByteStream) -> None:
        self._body = body
        self._pieces = aiter(body)
        self._rest: asyncio.Task[list[bytes]] | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        tail = b""
        async for piece in self._pieces:
            tail = (tail + piece[-_TAIL:])[-_TAIL:]
            if not _LAST_EVENT.search(tail):
                yield piece
                continue
            self._rest = asyncio.create_task(self._read_rest())
            yield piece
            for late in await asyncio.shield(self._rest):
                yield late
            return

    async def aclose(self) -> None:
        if self._rest is None:
            await self._body.aclose()

    async def _read_rest(self) -> list[bytes]:
        rest: list[bytes] = []
        try:
            with suppress(httpx.HTTPError, TimeoutError):
                async with asyncio.timeout(MOST_S):
                    async for piece in self._pieces:
                        rest.append(piece)
                        if sum(map(len, rest)) > MOST_BYTES:
                            break
        finally:
            await self._body.aclose()
        return rest


def keep_connections() -> None:
    """Have all of httpx's asynchronous connections in this process read their bodies to the end."""
    handle = httpx.AsyncHTTPTransport.handle_async_request

    async def wholly(self: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        response = await handle(self, request)
        assert isinstance(response.stream, httpx.AsyncByteStream), "the transport is asynchronous"
        response.stream = WholeBody(response.stream)
        return response

    httpx.AsyncHTTPTransport.handle_async_request = wholly
