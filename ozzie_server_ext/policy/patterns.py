"""Patterns for names, paths, commands and hosts, and the normal form of hosts."""

import ipaddress
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias, TypeVar
from urllib.parse import urlsplit

import idna
import msgspec

T = TypeVar("T")

MANY = "**"
"""Any number of path components, or of words at the end of a command."""


class Glob(msgspec.Struct, frozen=True):
    """A pattern for one text, in which `*` stands for any characters."""

    pieces: tuple[str, ...]

    @classmethod
    def of(cls, pattern: str) -> "Glob":
        return cls(tuple(pattern.split("*")))

    def matches(self, text: str) -> bool:
        first, *middle = self.pieces
        if not middle:
            return text == first
        last = middle.pop()
        if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
            return False
        at, end = len(first), len(text) - len(last)
        for piece in middle:
            at = text.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return True


class SequenceGlob(msgspec.Struct, frozen=True):
    """A pattern for a sequence of texts, in which `**` stands for any number of them, including none.

    Each run of patterns between two `**` is tried at every place until it fits. The work is at most the number of texts
    times the length of the longest run; both are bounded (`MAX_PATH_COMPONENTS`, `MAX_COMPONENTS`).
    """

    runs: tuple[tuple[Glob, ...], ...]

    @classmethod
    def of(cls, patterns: Sequence[str]) -> "SequenceGlob":
        runs: list[list[Glob]] = [[]]
        for pattern in patterns:
            if pattern == MANY:
                runs.append([])
            else:
                runs[-1].append(Glob.of(pattern))
        return cls(tuple(map(tuple, runs)))

    def matches(self, texts: Sequence[str]) -> bool:
        first, *middle = self.runs
        if not middle:
            return len(texts) == len(first) and _stands(first, texts, 0)
        last = middle.pop()
        end = len(texts) - len(last)
        if end < len(first) or not _stands(first, texts, 0) or not _stands(last, texts, end):
            return False
        at = len(first)
        for run in middle:
            found = next((place for place in range(at, end - len(run) + 1) if _stands(run, texts, place)), None)
            if found is None:
                return False
            at = found + len(run)
        return True


def _stands(run: Sequence[Glob], texts: Sequence[str], at: int) -> bool:
    return all(glob.matches(texts[at + index]) for index, glob in enumerate(run))


def folded(text: str) -> str:
    """Normalize a text for comparison without regard to case and the form of accents."""
    if text.isascii():  # the same, in a tenth of the time
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Host: TypeAlias = str | IpAddress

MAX_HOST = 1024
"""Characters. In DNS a host has at most 253, and no more as people write it."""
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\]")
"""Characters that some URL parsers drop and others keep."""
_MAPPED_BITS = 96
"""The length of the prefix ::ffff:0:0 of IPv4 addresses written as IPv6."""


def host_of(url: str) -> Host | None:
    """Return the host of an address; None if URL parsers disagree about it."""
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
    """Return the normal form of a host; None for no host, or an IP address in an outdated notation."""
    return _canonical_host(name) if len(name) <= MAX_HOST else None


@lru_cache(maxsize=1024)
def _canonical_host(name: str) -> Host | None:
    """Cached, since the same few hosts are named again and again, and each takes long to read."""
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
    # 2130706433, 0x7f.1 and 127.1 look like names but are IP addresses to the system's resolver.
    last = plain.rsplit(".", 1)[-1]
    return None if last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last) else plain


def _ip_address(text: str) -> IpAddress | None:
    """Parse an IP address; an IPv6 address for an IPv4 address becomes that one (RFC 4291, section 2.5.5.2)."""
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


class HostPattern(msgspec.Struct, frozen=True):
    """`example.org`: that host; `*.example.org`: all below it, not itself; `10.0.0.0/8` or `::1`: IP addresses."""

    host: str
    below: bool
    network: IpNetwork | None

    @classmethod
    def of(cls, pattern: str) -> "HostPattern":
        """Raises ValueError with a message for the author of the pattern."""
        network = _ip_network(pattern.strip("[]"))
        if network is not None:
            return cls("", False, network)
        below = pattern.startswith("*.")
        found = canonical_host(pattern.removeprefix("*."))
        if found is not None and not isinstance(found, str) and not below:
            return cls("", False, ipaddress.ip_network(found))
        if not isinstance(found, str) or "*" in found:
            raise ValueError(
                f'"{pattern}" is not a host: write example.org, *.example.org for all below it, or an IP network'
            )
        return cls(found, below, None)

    def matches(self, host: Host) -> bool:
        if isinstance(host, str):
            return not self.network and (host.endswith(f".{self.host}") if self.below else host == self.host)
        return self.network is not None and host in self.network
