"""Web addresses, parsed once by strict rules, so that no two parsers can read them differently."""

import ipaddress
import re
from collections.abc import Container, Iterator
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.policy.patterns import Host, IpAddress, host_of
from ozzie_server_ext.web.port import MAX_URL, web_error

_NOT_PUBLIC_4 = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carriers' own, and a cloud's metadata
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # Azure's own services, within each of its machines
        "169.254.0.0/16",  # link-local, with the metadata of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_PUBLIC_6 = ipaddress.IPv6Network("2000::/3")
"""All of global unicast."""
_NOT_PUBLIC_6 = tuple(
    ipaddress.IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, with Teredo, ORCHID and benchmarks
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which leads through a relay to an IPv4 address
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_ISATAP = (0x00005EFE, 0x02005EFE)


def is_public(address: IpAddress) -> bool:
    """Return whether the address, and each IPv4 address that it embeds, is on the public internet."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address.scope_id is not None or not all(map(is_public, _inner(address))):
        return False
    if address in _NAT64:
        return True  # how a network without IPv4 reaches public IPv4 addresses
    return address in _PUBLIC_6 and not any(address in network for network in _NOT_PUBLIC_6)


def _inner(address: ipaddress.IPv6Address) -> Iterator[ipaddress.IPv4Address]:
    """Yield the IPv4 addresses that an IPv6 address embeds: mapped, NAT64, ISATAP."""
    last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.ipv4_mapped is not None or address in _NAT64:
        yield last
    if int(address) >> 32 & 0xFFFFFFFF in _ISATAP:
        yield last


PORTS = {"http": 80, "https": 443}
_MORE_PORTS = frozenset({80, 443, 8080, 8443})
_LOCAL_SUFFIXES = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "arpa", "onion", "invalid")
"""Suffixes of local and special-use names (RFC 6761, RFC 6762, ICANN)."""
_KEPT = "!#$%&'()*+,/:;=?@[]~"
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_AMBIGUOUS = re.compile(r"[\x00-\x1f\x7f\\]")
_PORT = re.compile(r"[0-9]{0,5}")


class Address(msgspec.Struct, frozen=True):
    """A parsed address. `host` is canonical; `target` is path and query, in ASCII, as in a request."""

    scheme: str
    host: Host
    port: int
    target: str

    @property
    def name(self) -> str:
        """The host as in certificates and the Host header, an IPv6 address without brackets."""
        return str(self.host)

    @property
    def authority(self) -> str:
        """The host, and the port unless it is the default."""
        host = f"[{self.host}]" if ":" in self.name else self.name
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    def is_same_host(self, other: "Address") -> bool:
        return self.name.removeprefix("www.") == other.name.removeprefix("www.")


def read_address(url: str, *, ports: Container[int] = (), addresses: tuple[str, ...] = ()) -> Address:
    """Parse an address that may be requested. `ports` and `addresses`: see `Allowance`; `addresses` may also have local
    names. Raises NotFetchable."""
    if len(url) > MAX_URL:
        raise _refused(f"The address has {len(url):,} characters, and at most {MAX_URL:,} are allowed.")
    host = host_of(url)
    if host is None:
        raise _refused(_why_invalid(url))
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    if scheme not in PORTS:
        raise _refused("Only addresses that begin with http:// or https:// are fetched.")
    if "%" in parts.netloc or ("[" in parts.netloc and ":" not in str(host)):
        raise _refused(_why_invalid(url))
    port = _port(parts.netloc, PORTS[scheme])
    if port not in _MORE_PORTS and port not in ports:
        raise _refused("Only the ports 80, 443, 8080 and 8443 are reached.")
    address = Address(scheme, host, port, _target(parts.path, parts.query))
    _expect_public(address, addresses)
    return address


def redirected(base: Address, location: str) -> str:
    """Return a redirect's target, unchecked, or "" if it is invalid. `location` is as received, each byte a character.
    Reject characters that parsers drop or convert: no honest target contains them."""
    if _AMBIGUOUS.search(location):
        return ""
    try:
        return urljoin(base.url, quote(location.strip(" ").encode("latin-1"), safe=_KEPT)).split("#", 1)[0]
    except ValueError:
        return ""


def joined(base: str, href: str, *, longest: int) -> str:
    """Return a link as an absolute http or https address without fragment; "" if it is none, too long, or ambiguous."""
    href = href.strip(" \t\r\n\f")
    if not href or href.startswith("#") or len(href) > 4 * longest:
        return ""
    try:
        url = urljoin(base, href).split("#", 1)[0]
        parts = urlsplit(url)
    except ValueError:
        return ""
    # Browsers read a space as %20, so the meaning is clear.
    url = _percent(url.replace(" ", "%20")) if parts.scheme.lower() in PORTS else ""
    # A bracket or a parenthesis would end the link within Markdown.
    for character, code in (("(", "%28"), (")", "%29"), ("<", "%3C"), (">", "%3E")):
        url = url.replace(character, code)
    return url if url and len(url) <= longest and host_of(url) is not None else ""


def _port(netloc: str, usual: int) -> int:
    """Parse the port, because `urlsplit` accepts signs, spaces and digits of other scripts."""
    written = netloc.rpartition("]")[2].partition(":")[2]
    if not _PORT.fullmatch(written):
        raise _refused("Its port is not a number.")
    return int(written) if written else usual


def _target(path: str, query: str) -> str:
    target = quote(path or "/", safe=_KEPT.replace("?", "").replace("#", "")) + (f"?{_percent(query)}" if query else "")
    return _BAD_PERCENT.sub("%25", target)


def _percent(text: str) -> str:
    return _BAD_PERCENT.sub("%25", quote(text, safe=_KEPT, errors="replace"))


def _expect_public(address: Address, allowed: tuple[str, ...]) -> None:
    host = address.host
    if not isinstance(host, str):
        if not is_public(host) and str(host) not in allowed:
            raise not_public()
        return
    last = host.rsplit(".", 1)[-1]
    if host not in allowed and ("." not in host or last in _LOCAL_SUFFIXES):
        raise not_public()


def not_public() -> OzzieError:
    """Return the error for an address that is not on the public web."""
    return _refused(
        "That address is not on the public web: it belongs to this machine or a private network, or is reserved.",
        "Such addresses are never fetched. Ask the user for the content.",
    )


def _why_invalid(url: str) -> str:
    if "@" in url.split("//", 1)[-1].split("/", 1)[0].split("?", 1)[0].split("#", 1)[0]:
        return "An address with a user or a password in it is not fetched."
    return "That is not an address with one clear meaning."


def _refused(message: str, hint: str = "Give an absolute address, such as https://example.org/page.") -> OzzieError:
    return web_error("web.refused", message, hint)
