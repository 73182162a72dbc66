"""Hosts of addresses as they are compared: names by IDNA 2008, IP addresses by their value (THREATS 15)."""

import ipaddress
import re
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

import idna

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Host: TypeAlias = str | IpAddress

_UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\]")
"""What one reader of an address drops, and another one takes for a part of it."""
_MAPPED_BITS = 96
"""How long the prefix ::ffff:0:0 of IPv4 addresses written as IPv6 is."""


def host_of(url: str) -> Host | None:
    """The host that an address leads to; None where readers of addresses do not agree on one."""
    if _UNSAFE.search(url):
        return None
    try:
        parts = urlsplit(url)
        name = parts.hostname
    except ValueError:
        return None
    if not name or not parts.scheme or parts.username is not None or parts.password is not None:
        return None
    return canonical_host(name)


def canonical_host(name: str) -> Host | None:
    """A host as it is compared; None for what is no host, or an IP address in one of the forms of old."""
    found = _ip_address(name.strip("[]"))
    if found is not None:
        return found
    try:
        plain = idna.encode(name, uts46=True, std3_rules=True).decode().lower()
    except (idna.IDNAError, UnicodeError):
        return None
    # Only now are all dots and digits plain ones: U+3002 is a dot to UTS 46 (section 4.5), and U+FF11 a 1.
    plain = plain.removesuffix(".")
    found = _ip_address(plain)
    if found is not None:
        return found
    # 2130706433, 0x7f.1 and 127.1 are names to us and IP addresses to the system's resolver.
    last = plain.rsplit(".", 1)[-1]
    return None if last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last) else plain


def _ip_address(text: str) -> IpAddress | None:
    """An IPv6 address that stands for an IPv4 address is that one (RFC 4291, section 2.5.5.2)."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


def _ip_network(text: str) -> IpNetwork | None:
    try:
        found = ipaddress.ip_network(text)
    except ValueError:
        return None
    mapped = found.network_address.ipv4_mapped if isinstance(found, ipaddress.IPv6Network) else None
    if mapped is None or found.prefixlen < _MAPPED_BITS:
        return found
    return ipaddress.IPv4Network((mapped, found.prefixlen - _MAPPED_BITS))


@dataclass(frozen=True, slots=True)
class HostPattern:
    """`example.org`, that host; `*.example.org`, all below it and not itself; `10.0.0.0/8` or `::1`, IP addresses."""

    host: str
    below: bool
    network: IpNetwork | None

    @classmethod
    def of(cls, pattern: str) -> "HostPattern":
        """Raises ValueError, whose words say what is wrong with it."""
        network = _ip_network(pattern.strip("[]"))
        if network is not None:
            return cls("", False, network)
        below = pattern.startswith("*.")
        found = canonical_host(pattern.removeprefix("*."))
        if found is not None and not isinstance(found, str) and not below:
            return cls("", False, ipaddress.ip_network(found))
        if not isinstance(found, str) or "*" in found:
            raise ValueError(
                f'"{pattern}" is no host: write example.org, *.example.org for all below it, or an IP network'
            )
        return cls(found, below, None)

    def matches(self, host: Host) -> bool:
        if isinstance(host, str):
            return not self.network and (host.endswith(f".{self.host}") if self.below else host == self.host)
        return self.network is not None and host in self.network
