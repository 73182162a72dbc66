"""Which IP addresses belong to the public internet (THREATS 15, SX-2): what is not known to, does not.

The networks are those of IANA's registries of special-purpose addresses (RFC 6890 and its successors), and those that
clouds answer at from within. Python's own `is_global` differs between versions.
"""

import ipaddress
from collections.abc import Iterator

from ozzie_server_ext.policy.hosts import IpAddress

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
"""All that is given out as global unicast."""
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
    """Whether it is on the public internet, and so is each IPv4 address that it stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address.scope_id is not None or not all(map(is_public, _inner(address))):
        return False
    if address in _NAT64:
        return True  # a network without IPv4 reaches its public addresses so
    return address in _PUBLIC_6 and not any(address in network for network in _NOT_PUBLIC_6)


def _inner(address: ipaddress.IPv6Address) -> Iterator[ipaddress.IPv4Address]:
    """The IPv4 addresses that an IPv6 address stands for: mapped, NAT64, ISATAP."""
    last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.ipv4_mapped is not None or address in _NAT64:
        yield last
    if int(address) >> 32 & 0xFFFFFFFF in _ISATAP:
        yield last
