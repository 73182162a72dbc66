"""What was read before a call was asked for: where it came from, and which addresses came with it (TL-8, ADR 31)."""

from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.policy.hosts import Host, host_of

MAX_ADDRESS = 2000
"""In characters. A longer one is taken for none that anybody gave."""
_PORTS = {"http": 80, "https": 443}

Given: TypeAlias = Literal["address", "host", "unread", ""]
"""Whether somebody gave an address: the user, a page or a search, to the letter; the user, its host; nobody, but
nothing has been read that it could carry away; or nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What stands in the conversation behind a call. `content`: what of it came from outside. `has_read`: whether tools
    told the model anything at all. `addresses` are those, as `plain_address` writes them, that the user or the web
    gave; `hosts` are of those that the user did."""

    content: Content = CLEAN
    has_read: bool = False
    addresses: frozenset[str] = frozenset()
    hosts: frozenset[Host] = frozenset()

    def gave(self, url: str) -> Given:
        """Who gave that address. What a page says may make a model put anything into an address on a host that its
        author reads the logs of, so a host alone counts only as long as nothing came from outside."""
        address = plain_address(url)
        if address is not None and address in self.addresses:
            return "address"
        if not self.content:
            host = host_of(url)
            if host is not None and host in self.hosts:
                return "host"
            if not self.has_read:
                return "unread"
        return ""


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
