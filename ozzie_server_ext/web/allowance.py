"""What may be reached beyond the public web: nothing, unless the program that makes the port says so itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
