"""The port behind which the web is reached, what goes through it, and the ways in which that fails."""

from dataclasses import dataclass
from typing import Protocol

from ozzie_server_ext.domain.errors import InputError, OzzieError, RetryLater, Unavailable

MAX_URL = 2000
"""In characters, of an address that is asked for."""
MAX_QUERY = 400
"""In characters, of what is searched for."""
MAX_HITS = 20
MAX_TEXT = 1_000_000
"""In characters, of a page's text. What comes behind that is cut."""
MAX_TAGS = 200_000
"""Of a page. What comes behind that is cut."""
MAX_LINKS = 200
MAX_LINK = 500
"""In characters. A longer link is none: it is made for carrying something."""
MAX_TITLE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What stands at an address.

    `url` is where it stood in the end, `status` the number that its server gave, `type` the media type that it was read
    as. `text` is Markdown where it was HTML, else the text itself, with nothing invisible in it. `links` are the page's
    own, absolute, without fragments, each once, in their order. `hosts` are all that were asked on the way, canonical.
    `size` counts the bytes that were read, unpacked. `cut`: it was longer, or its end did not come. `leads_to`: it is a
    redirect to there, which was not followed; there is no text then.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A page that a search found, with what the engine shows of it."""

    title: str
    url: str
    snippet: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What a search found, the best first, the name of who searched, and the hosts that were asked."""

    hits: tuple[Hit, ...]
    engine: str
    hosts: tuple[str, ...]


class NotFetchable(InputError):
    """What was asked for is not to be had, also the next time.

    `web.refused`: that address may not be reached. `web.too_large`: it unpacks to far more than it is. `web.type`: it
    is no text. `web.too_complex`: reading it takes too much time or memory."""

    code = "web.refused"


class NotAnswered(Unavailable):
    """The other side gave nothing that can be used. No word of these errors is the other side's own.

    `web.unreachable`: there is nobody, or no secure way. `web.timed_out`. `web.status`: it said no. `web.answer`: what
    came is not HTTP. `web.changed`: a search engine's page is not what it was. `web.failed`: the fault is ours."""

    code = "web.unreachable"


class Challenged(RetryLater):
    """`web.challenged`: the other side wants to see a person, or fewer requests."""

    code = "web.challenged"


_BRANCHES: dict[str, type[OzzieError]] = {
    "web.refused": NotFetchable,
    "web.too_large": NotFetchable,
    "web.too_complex": NotFetchable,
    "web.type": NotFetchable,
    "web.challenged": Challenged,
}


def web_error(code: str, message: str, hint: str = "") -> OzzieError:
    """The error of that code, in the branch that says who must react."""
    return _BRANCHES.get(code, NotAnswered)(message, hint=hint, code=code)


class Web(Protocol):
    """Reaches the web. Whatever comes from there may try to speak to the model: the caller labels it."""

    async def fetch(self, url: str) -> Fetched:
        """What stands at an absolute address of http or https, as text. Redirects are followed on the same host, which
        is also that host with or without a leading `www.`. Raises NotFetchable, NotAnswered, Challenged."""
        ...

    async def search(self, query: str, max_results: int) -> Searched:
        """At most so many pages that a search engine finds; none is a result too. Raises as `fetch`."""
        ...


class NoWeb:
    """Where the web is not reached."""

    async def fetch(self, url: str) -> Fetched:
        raise _nobody()

    async def search(self, query: str, max_results: int) -> Searched:
        raise _nobody()


def _nobody() -> OzzieError:
    return web_error("web.unavailable", "The web can't be reached from here.", "Go on without it, or ask the user.")
