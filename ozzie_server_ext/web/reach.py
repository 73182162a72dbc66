"""Web access through a short-lived process for each request, which confines hostile content.

The gateway parses nothing of a page. It gets bounded text without markup, and errors in our own words.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol, TypeVar
from urllib.parse import urlencode

import msgspec

from ozzie_server_ext.domain.errors import InputError, OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.one_shot import ErrandEnded, ErrandFailed, run_errand
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads_object
from ozzie_server_ext.web.address import read_address
from ozzie_server_ext.web.port import MAX_HITS, MAX_QUERY, Fetched, Searched, web_error


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """Exceptions for tests, whose servers are on loopback. No configuration, variable or tool argument makes one.

    `addresses` are non-public IP addresses that may be reached, `ports` are additional ports. `names` replaces the
    resolver: the answers for each name's first lookup, second lookup and so on; the last one repeats. Missing names do
    not exist. `authorities` are PEM certificates that are trusted instead of the system's.
    """

    addresses: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    names: Mapping[str, tuple[tuple[str, ...], ...]] = msgspec.field(default_factory=dict)
    authorities: str = ""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one request. Times are in seconds, sizes in bytes. `wall_s` covers all redirects together, from the
    first lookup to the last byte, `connect_s` each connection; `body` counts unpacked bytes."""

    wall_s: float = 20.0
    connect_s: float = 10.0
    body: int = 5 * 1024 * 1024
    redirects: int = 5


class SearchEngine(Protocol):
    """A search engine that is queried by fetching a page. `programs/web.py` parses the page in its own process, with
    the function of `programs/web_pages.py` that `reader` names."""

    @property
    def name(self) -> str:
        """The name that people know."""
        ...

    @property
    def reader(self) -> str: ...

    def address(self, query: str) -> str:
        """Return the address of a query's results."""
        ...


PAGE = "https://html.duckduckgo.com/html/"


class DuckDuckGo:
    """Tests use another `page`."""

    name = "DuckDuckGo"
    reader = "duckduckgo"

    def __init__(self, page: str = PAGE) -> None:
        self._page = page

    def address(self, query: str) -> str:
        return f"{self._page}?{urlencode({'q': query})}"


log = logger(__name__)

T = TypeVar("T", Fetched, Searched)

PROGRAM = "ozzie_server_ext.programs.web"
MAX_PROCESSES = 4
"""Concurrent processes; further requests wait."""
READING_S = 25.0
"""Time for a process besides the network: its start, and parsing the page."""
_MAX_ANSWER = 16 << 20


class ErrandWeb:
    """The real web. `allowance` and `engine` differ in tests only, and only the constructor sets them."""

    def __init__(
        self, *, engine: SearchEngine | None = None, allowance: Allowance | None = None, limits: Limits | None = None
    ) -> None:
        self._engine = engine or DuckDuckGo()
        self._allowance = allowance or Allowance()
        self._limits = limits or Limits()
        self._free = asyncio.Semaphore(MAX_PROCESSES)

    async def fetch(self, url: str) -> Fetched:
        return await self._request(Fetched, url, {})

    async def search(self, query: str, max_results: int) -> Searched:
        if not query.strip() or len(query) > MAX_QUERY:
            raise InputError(f"A search query has 1 to {MAX_QUERY} characters.", hint="Use fewer words.")
        params: JsonObject = {
            "reader": self._engine.reader,
            "engine": self._engine.name,
            "max_results": max(1, min(max_results, MAX_HITS)),
        }
        return await self._request(Searched, self._engine.address(query), params)

    async def _request(self, kind: type[T], url: str, params: JsonObject) -> T:
        allowed = self._allowance
        # Refuse here what needs no request, and pass the address as it was parsed here.
        address = read_address(url, ports=allowed.ports, addresses=allowed.addresses)
        task = canonical_bytes(
            {**params, "url": address.url, "limits": encode(self._limits), "allowance": encode(allowed)}
        )
        try:
            async with self._free:
                raw = await run_errand(PROGRAM, task, wall_s=self._limits.wall_s + READING_S)
        except ErrandEnded as error:
            log.warning("a page of %s was too much: %s", address.name, error)
            raise web_error(
                "web.too_complex",
                f"A page of {address.name} takes too much time or memory to read.",
                "Look for the same on another page.",
            ) from None
        except ErrandFailed as error:
            log.error("a page of %s could not be read: %s", address.name, error)
            raise _broken() from None
        return await asyncio.to_thread(_read, kind, raw)


def _read(kind: type[T], raw: bytes) -> T:
    """Parse the process's output. Raises OzzieError, also if the process reports one."""
    try:
        answer = loads_object(raw, max_bytes=_MAX_ANSWER, surrogates="repair")
        refused = answer.get("error")
        if not isinstance(refused, dict):
            return decode(kind, answer)
    except OzzieError as error:
        log.error("the answer about a page can't be read: %s", error)
        raise _broken() from None
    raise web_error(str(refused.get("code")), str(refused.get("message")), str(refused.get("hint")))


def _broken() -> OzzieError:
    return web_error("web.failed", "The page could not be read; the log has the details.", "Try another page.")
