"""Patterns over names, paths and commands, and hosts in the form in which they are compared."""

import ipaddress
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar
from urllib.parse import urlsplit

import idna

T = TypeVar("T")

MANY = "**"
"""Any number of components of a path, or of words at the end of a command."""


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern over one text."""

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


@dataclass(frozen=True, slots=True)
class SequenceGlob:
    """A pattern over a sequence of texts, in which `**` stands for any number of them, also none.

    A run of patterns between two `**` is tried at each place until it stands: the work is at most the number of texts
    times the length of the longest run, and both are bounded (`MAX_PATH_COMPONENTS`, `MAX_COMPONENTS`).
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
    """The text as it is compared where the case of letters and the form of accents do not matter."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


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
