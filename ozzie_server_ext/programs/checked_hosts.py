"""The addresses of granted hosts: looked up once, and checked before anybody connects to them."""

import asyncio
import contextlib
import ipaddress

from ozzie_server_ext.plugins.hosts import HostGrant
from ozzie_server_ext.policy.patterns import IpAddress
from ozzie_server_ext.web.address import is_public


class NotPublic(Exception):
    """A host leads into a private network, which its grant does not cover; the text is for people."""


async def checked_addresses(host: str, port: int, grant: HostGrant) -> list[IpAddress]:
    """Return the addresses of a granted host, which were looked up once. One in a private network rejects all, unless
    the grant is for that very host and port: such names are served to reach somebody else's network. Raises OSError,
    NotPublic."""
    found = await _addresses(host, port)
    if not grant.is_exact and not all(map(is_public, found)):
        raise NotPublic(f"{host}:{port}, which leads into a private network")
    return found


async def _addresses(host: str, port: int) -> list[IpAddress]:
    with contextlib.suppress(ValueError):
        return [ipaddress.ip_address(host)]
    found = await asyncio.get_running_loop().getaddrinfo(host, port)
    return [ipaddress.ip_address(address) for address in dict.fromkeys(str(each[4][0]) for each in found)]
