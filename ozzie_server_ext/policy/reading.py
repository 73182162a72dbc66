"""What was read before a call was asked for: where it came from, and which addresses came with it (TL-8, ADR 31)."""

from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.policy.hosts import host_of

MAX_ADDRESS = 2000
"""In characters. A longer one is taken for none that anybody gave."""
MOST_FOLLOWED = 10
"""How many links go unasked behind each other where more was read than the web: which of a page's links are taken can
spell what was read, and with each one more of it."""
_PORTS = {"http": 80, "https": 443}

Given: TypeAlias = Literal["address", "unread", ""]
"""Whether somebody gave an address: the user, a page or a search, to the letter; nobody, but nothing has been read that
it could carry away; or nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What stands in the conversation behind a call. `content`: what of it came from outside. `has_read`: whether tools
    told the model anything at all, `has_own`: whether anything of that was not from the web. `typed` are the addresses,
    as `plain_address` writes them, that the user gave or that were fetched before, `linked` those that the web gave;
    `followed` is how many of these were asked for since the user spoke last."""

    content: Content = CLEAN
    has_read: bool = False
    has_own: bool = False
    typed: frozenset[str] = frozenset()
    linked: frozenset[str] = frozenset()
    followed: int = 0

    def gave(self, url: str) -> Given:
        """Who gave that address."""
        address = plain_address(url)
        if address is not None and address in self.typed:
            return "address"
        if address is not None and address in self.linked and not (self.has_own and self.followed >= MOST_FOLLOWED):
            return "address"
        return "" if self.has_read or self.content else "unread"


UNREAD = Reading()


def plain_address(url: str) -> str | None:
    """An address of the web as it is compared: scheme and host in one form, without the fragment, which nobody sends;
    path and query to the letter. None for what leads nowhere on the web."""
    host = host_of(url) if len(url) <= MAX_ADDRESS else None
    if host is None:
        return None
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        return None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS:
        return None
    name = str(host) if isinstance(host, str) or host.version == 4 else f"[{host}]"
    place = name if port in (None, _PORTS[scheme]) else f"{name}:{port}"
    return urlunsplit((scheme, place, parts.path or "/", parts.query, ""))
