"""Reaches the web by a short-lived process for each request: what is hostile there is ended with it.

Nothing of a page is read in the gateway. It gets text, bounded and without markup, and errors in words of our own.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar
from urllib.parse import urlencode

from ozzie_server_ext.domain.errors import InputError, OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.one_shot import ErrandEnded, ErrandFailed, run_errand
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads_object
from ozzie_server_ext.web.address import read_address
from ozzie_server_ext.web.port import MAX_HITS, MAX_QUERY, Fetched, Searched, web_error


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """For tests, whose servers are on loopback. No configuration, variable or argument of a tool makes one.

    `addresses` are IP addresses that may be reached though they are not public, `ports` ports beside the usual ones.
    `names` takes the place of the resolver: what each name leads to the first time it is looked up, the second time,
    and so on; the last counts from then on. A name that is not there does not exist. `authorities` are certificates
    (PEM) that are believed instead of the system's.
    """

    addresses: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    names: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    authorities: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one request may take. Times are in seconds, sizes in bytes. `wall_s` is for all its redirects together, from
    the first look-up to the last byte, `connect_s` for each connection; `body` is of what was unpacked."""

    wall_s: float = 20.0
    connect_s: float = 10.0
    body: int = 5 * 1024 * 1024
    redirects: int = 5


class SearchEngine(Protocol):
    """A search engine that is asked by fetching a page. The page is read where all pages are, in a process of its own
    (`programs/web.py`), by the reader of that name in `programs/web_pages.py`."""

    @property
    def name(self) -> str:
        """As people call it."""
        ...

    @property
    def reader(self) -> str: ...

    def address(self, query: str) -> str:
        """Where the answer to a query stands."""
        ...


PAGE = "https://html.duckduckgo.com/html/"


class DuckDuckGo:
    """`page` is another one in tests only."""

    name = "DuckDuckGo"
    reader = "duckduckgo"

    def __init__(self, page: str = PAGE) -> None:
        self._page = page

    def address(self, query: str) -> str:
        return f"{self._page}?{urlencode({'q': query})}"


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
