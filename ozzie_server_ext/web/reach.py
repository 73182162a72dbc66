"""Reaches the web by a short-lived process for each request: what is hostile there is ended with it (SX-2, THREATS 16).

Nothing of a page is read in the gateway. It gets text, bounded and without markup, and errors in words of our own.
"""

import asyncio
from typing import TypeVar

from ozzie_server_ext.domain.errors import InputError, OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.errand import ErrandEnded, ErrandFailed, run_errand
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads_object
from ozzie_server_ext.web.address import read_address
from ozzie_server_ext.web.allowance import Allowance, Limits
from ozzie_server_ext.web.duckduckgo import DuckDuckGo
from ozzie_server_ext.web.port import MAX_HITS, MAX_QUERY, Fetched, Searched, web_error
from ozzie_server_ext.web.search import SearchEngine

log = logger(__name__)

T = TypeVar("T", Fetched, Searched)

PROGRAM = "ozzie_server_ext.programs.web"
AT_ONCE = 4
"""How many of those processes there are at a time; further requests wait."""
READING_S = 25.0
"""What a process may take beside the network: its start, and reading the page."""
_MAX_ANSWER = 16 << 20


class ErrandWeb:
    """The web as it is reached in earnest. `allowance` and `engine` differ in tests only, and nothing but a constructor
    takes them."""

    def __init__(
        self, *, engine: SearchEngine | None = None, allowance: Allowance | None = None, limits: Limits | None = None
    ) -> None:
        self._engine = engine or DuckDuckGo()
        self._allowance = allowance or Allowance()
        self._limits = limits or Limits()
        self._free = asyncio.Semaphore(AT_ONCE)

    async def fetch(self, url: str) -> Fetched:
        return await self._done(Fetched, url, {})

    async def search(self, query: str, max_results: int) -> Searched:
        if not query.strip() or len(query) > MAX_QUERY:
            raise InputError(f"What is searched for has 1 to {MAX_QUERY} characters.", hint="Ask with fewer words.")
        asked: JsonObject = {
            "reader": self._engine.reader,
            "engine": self._engine.name,
            "max_results": max(1, min(max_results, MAX_HITS)),
        }
        return await self._done(Searched, self._engine.address(query), asked)

    async def _done(self, kind: type[T], url: str, asked: JsonObject) -> T:
        allowed = self._allowance
        # What can be refused without asking anybody is, and what is sent on is the address as it was read here.
        address = read_address(url, ports=allowed.ports, addresses=allowed.addresses)
        task = canonical_bytes(
            {**asked, "url": address.url, "limits": encode(self._limits), "allowance": encode(allowed)}
        )
        try:
            async with self._free:
                raw = await run_errand(PROGRAM, task, wall_s=self._limits.wall_s + READING_S)
        except ErrandEnded as error:
            log.warning("a page of %s was too much: %s", address.name, error)
            raise web_error(
                "web.too_complex",
                f"What stands on {address.name} takes too much time or memory to be read.",
                "Look for the same on another page.",
            ) from None
        except ErrandFailed as error:
            log.error("a page of %s could not be read: %s", address.name, error)
            raise _broken() from None
        return await asyncio.to_thread(_read, kind, raw)


def _read(kind: type[T], raw: bytes) -> T:
    """Raises OzzieError, also as the process says."""
    try:
        told = loads_object(raw, max_bytes=_MAX_ANSWER, surrogates="repair")
        refused = told.get("error")
        if not isinstance(refused, dict):
            return decode(kind, told)
    except OzzieError as error:
        log.error("the answer about a page can't be read: %s", error)
        raise _broken() from None
    raise web_error(str(refused.get("code")), str(refused.get("message")), str(refused.get("hint")))


def _broken() -> OzzieError:
    return web_error("web.failed", "The page could not be read; the log has the details.", "Try another page.")
