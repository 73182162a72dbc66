"""The port to the web: requests, results and errors."""

from typing import Protocol

import msgspec

from ozzie_server_ext.domain.errors import InputError, OzzieError, RetryLater, Unavailable

MAX_URL = 2000
"""Characters of a requested address."""
MAX_QUERY = 400
"""Characters of a search query."""
MAX_HITS = 20
MAX_TEXT = 1_000_000
"""Characters of a page's text; the rest is cut."""
MAX_TAGS = 200_000
"""Tags of a page; the rest is cut."""
MAX_LINKS = 200
MAX_LINK = 500
"""Characters of a link. Longer links are dropped: they are made to carry data."""
MAX_TITLE = 300


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """A fetched page.

    `url` is the final address, `status` the server's status code, `type` the media type that it was parsed as. `text`
    is Markdown if the page was HTML, else the text itself, with nothing invisible in it. `links` are the page's own:
    absolute, without fragments or duplicates, in order. `hosts` are all hosts that were contacted, canonical. `size`
    counts the bytes read, unpacked. `cut`: the page was longer, or ended early. `leads_to`: the target of a redirect
    that was not followed; then there is no text.
    """

    url: str
    status: int
    type: str = ""
    title: str = ""
    text: str = ""
    links: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    size: int = 0
    cut: bool = False
    leads_to: str = ""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A search result, as the engine shows it."""

    title: str
    url: str
    snippet: str = ""


class Searched(msgspec.Struct, frozen=True, kw_only=True):
    """Search results, the best first, the engine's name, and the hosts that were contacted."""

    hits: tuple[Hit, ...]
    engine: str
    hosts: tuple[str, ...]


class NotFetchable(InputError):
    """The request can't succeed, now or later.

    `web.refused`: the address may not be reached. `web.too_large`: a decompression bomb. `web.type`: not text.
    `web.too_complex`: parsing takes too much time or memory.
    """

    code = "web.refused"


class NotAnswered(Unavailable):
    """The server gave no usable response. The error contains none of its words.

    `web.unreachable`: no host, or no secure connection. `web.timed_out`. `web.status`: an error status. `web.answer`:
    not HTTP. `web.changed`: a search engine's page has changed. `web.failed`: our own fault.
    """

    code = "web.unreachable"


class Challenged(RetryLater):
    """`web.challenged`: the server wants to see a person, or fewer requests."""

    code = "web.challenged"


_CLASSES: dict[str, type[OzzieError]] = {
    "web.refused": NotFetchable,
    "web.too_large": NotFetchable,
    "web.too_complex": NotFetchable,
    "web.type": NotFetchable,
    "web.challenged": Challenged,
}


def web_error(code: str, message: str, hint: str = "") -> OzzieError:
    """Return the error of that code, in the class that says who must react."""
    return _CLASSES.get(code, NotAnswered)(message, hint=hint, code=code)


class Web(Protocol):
    """Web access. Content from there may try to instruct the model: the caller labels it."""

    async def fetch(self, url: str) -> Fetched:
        """Fetch an absolute http or https address as text. Redirects are followed on the same host, with or without a
        leading `www.`. Raises NotFetchable, NotAnswered, Challenged."""
        ...

    async def search(self, query: str, max_results: int) -> Searched:
        """Search; an empty result is valid. Raises as `fetch`."""
        ...


class NoWeb:
    """No web access."""

    async def fetch(self, url: str) -> Fetched:
        raise _no_web()

    async def search(self, query: str, max_results: int) -> Searched:
        raise _no_web()


def _no_web() -> OzzieError:
    return web_error("web.unavailable", "The web can't be reached from here.", "Continue without it, or ask the user.")
