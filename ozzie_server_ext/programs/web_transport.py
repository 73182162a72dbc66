"""Connections to the public internet and to nothing else: each name is looked up once, and what was checked is what is
connected to (SX-2, THREATS 10)."""

import ipaddress
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterable
from contextlib import suppress

import certifi
import httpcore

from ozzie_server_ext.policy.hosts import IpAddress
from ozzie_server_ext.web.address import not_public
from ozzie_server_ext.web.allowance import Allowance
from ozzie_server_ext.web.public import is_public

_MOST_TRIED = 4
"""Addresses of one name."""


class Deadline:
    """When a request has to be done, with all its redirects."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self, most: float | None = None) -> float:
        """Seconds, at most so many. Raises httpcore.ReadTimeout where there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout
        return left if most is None else min(left, most)


class NoSuchHost(httpcore.ConnectError):
    """The name leads nowhere."""


class Resolver:
    """What names lead to: as the system says, or as an allowance does, for tests. Looking one up takes `patience_s` at
    the most."""

    def __init__(self, allowance: Allowance, deadline: Deadline, patience_s: float) -> None:
        self._allowance = allowance
        self._deadline = deadline
        self._patience_s = patience_s
        self._asked: dict[str, int] = {}

    def checked(self, name: str, port: int) -> list[IpAddress]:
        """All addresses of that host. One that is not public spoils the others: who serves such names does it to be
        taken for somebody else. Raises NotFetchable, NoSuchHost."""
        found = self._addresses(name, port)
        if not all(is_public(address) or str(address) in self._allowance.addresses for address in found):
            raise not_public()
        return found

    def _addresses(self, name: str, port: int) -> list[IpAddress]:
        try:
            return [ipaddress.ip_address(name)]
        except ValueError:
            pass
        written = self._told(name) if self._allowance.names else self._looked_up(name, port)
        if not written:
            raise NoSuchHost
        return [ipaddress.ip_address(address) for address in dict.fromkeys(written)]

    def _looked_up(self, name: str, port: int) -> list[str]:
        """By the system's resolver, which can't be stopped: it is left alone when the time is up."""
        found: list[str] = []

        def look_up() -> None:
            with suppress(OSError, UnicodeError):
                found.extend(str(info[4][0]) for info in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM))

        looking = threading.Thread(target=look_up, daemon=True)
        looking.start()
        looking.join(self._deadline.left(self._patience_s))
        if looking.is_alive():
            raise httpcore.ConnectTimeout
        return found

    def _told(self, name: str) -> list[str]:
        answers = self._allowance.names.get(name, ((),))
        number = self._asked.get(name, 0)
        self._asked[name] = number + 1
        return list(answers[min(number, len(answers) - 1)])


class GuardedBackend(httpcore.NetworkBackend):
    """Where httpcore has its connections from."""

    def __init__(self, resolver: Resolver, deadline: Deadline, connect_s: float) -> None:
        self._resolver = resolver
        self._deadline = deadline
        self._connect_s = connect_s
        self._plain = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        addresses = self._resolver.checked(host, port)[:_MOST_TRIED]
        for number, address in enumerate(addresses, 1):
            is_last = number == len(addresses)
            patience = self._deadline.left(self._connect_s if is_last else self._connect_s / 2)
            try:
                # A literal address: nothing is looked up a second time.
                stream = self._plain.connect_tcp(str(address), port, patience, None, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if is_last:
                    raise
                continue
            return _InTime(stream, self._deadline)
        raise httpcore.ConnectError

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None
    ) -> httpcore.NetworkStream:
        raise httpcore.ConnectError("There are no such sockets on the web.")


class _InTime(httpcore.NetworkStream):
    """A connection on which nothing waits longer than the whole request may take: a byte a second is no progress."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _InTime(
            self._stream.start_tls(ssl_context, server_hostname, self._deadline.left(timeout)), self._deadline
        )

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)


def trusted(allowance: Allowance) -> ssl.SSLContext:
    """Whose certificates are believed: those that SSL_CERT_FILE and SSL_CERT_DIR name, else those of Mozilla's list.
    Names are always checked."""
    if allowance.authorities:
        return ssl.create_default_context(cadata=allowance.authorities)
    if os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        return ssl.create_default_context()
    return ssl.create_default_context(cafile=certifi.where())
