"""One page, by as many redirects as are allowed, each of which is read and checked like the first address."""

import ipaddress
import os
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

import certifi
import httpcore

from ozzie_server_ext import __version__
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.policy.patterns import IpAddress
from ozzie_server_ext.programs.web_text import Declared, expect_text, type_of
from ozzie_server_ext.web.address import Address, is_public, not_public, read_address, redirected
from ozzie_server_ext.web.port import NotAnswered, web_error
from ozzie_server_ext.web.reach import Allowance, Limits

_PIECE = 64 * 1024
MAX_RATIO = 100
_FREE = 1 << 20
"""In bytes: what is no larger unpacked is no bomb, however well it was packed."""


class BadPacking(Exception):
    """The body is not packed as its header says."""


class Unpacking:
    """Undoes one Content-Encoding. `is_whole` says whether what came had an end."""

    def __init__(self, encoding: str) -> None:
        """Raises NotFetchable for an encoding that was not asked for."""
        self._kind = _KINDS.get(encoding.strip().lower())
        if self._kind is None:
            raise web_error(
                "web.type", "It is packed in a way that was not asked for.", "Look for the same on another page."
            )
        self._unpack = zlib.decompressobj(self._kind) if self._kind else None
        self._took = self._gave = 0
        self._members = 0
        self.is_whole = self._unpack is None

    def feed(self, raw: bytes) -> Iterator[bytes]:
        """What more is known now. Raises BadPacking, and NotFetchable for what becomes far more than it is."""
        if self._unpack is None:
            yield raw
            return
        more = bool(raw)
        while more:
            piece, left = self._step(raw)
            self._took += len(raw) - len(left)
            raw = left
            more = bool(raw) or len(piece) == _PIECE  # then some of it may be held back
            self._gave += len(piece)
            if self._gave > _FREE and self._gave > MAX_RATIO * self._took:
                raise bomb()
            if piece:
                yield piece

    def _step(self, raw: bytes) -> tuple[bytes, bytes]:
        """A piece, and what of `raw` is left behind it."""
        assert self._unpack is not None
        try:
            piece = self._unpack.decompress(raw, _PIECE)
        except zlib.error:
            if self._kind == zlib.MAX_WBITS and not self._gave:
                # Some servers send "deflate" without the frame that RFC 9110, section 8.4.1.2, wants around it.
                self._kind = -zlib.MAX_WBITS
                self._unpack = zlib.decompressobj(self._kind)
                return b"", raw
            if self._members:
                return b"", b""  # something stands behind the end; browsers pass over it too
            raise BadPacking from None
        left = self._unpack.unconsumed_tail
        self.is_whole = self._unpack.eof
        if self._unpack.eof:
            left = self._unpack.unused_data
            self._members += 1
            assert self._kind is not None
            self._unpack = zlib.decompressobj(self._kind)
        return piece, left


_KINDS = {
    "": 0,
    "identity": 0,
    "gzip": 16 + zlib.MAX_WBITS,
    "x-gzip": 16 + zlib.MAX_WBITS,
    "deflate": zlib.MAX_WBITS,
}


def bomb() -> OzzieError:
    """What is said of it."""
    return web_error(
        "web.too_large",
        f"It unpacks to more than {MAX_RATIO} times its size, as what is made to do harm does.",
        "Leave that page alone.",
    )


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


_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEAD = 4096
"""In bytes: so much is looked at before the rest is fetched."""
_ACCEPTED = "text/html, application/xhtml+xml, text/markdown;q=0.9, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5"
_HEADERS = (
    (b"User-Agent", f"Ozzie/{__version__}".encode()),
    (b"Accept", _ACCEPTED.encode()),
    (b"Accept-Language", b"en, *;q=0.5"),
    (b"Accept-Encoding", b"gzip, deflate"),
    (b"Connection", b"close"),
)
"""All that is said of us: no cookie, no credential, no page that we come from."""


class RefusedByStatus(NotAnswered):
    """The server says no."""

    code = "web.status"

    def __init__(self, message: str, *, hint: str, status: int) -> None:
        super().__init__(message, hint=hint)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloaded:
    """What came: `type` and `charset` as the header and the first bytes say. The rest is `web.port.Fetched`'s."""

    url: str
    status: int
    hosts: tuple[str, ...]
    type: str = ""
    charset: str = ""
    body: bytes = b""
    cut: bool = False
    leads_to: str = ""


class Download:
    """One request of somebody's, with all that it leads to."""

    def __init__(self, limits: Limits, allowance: Allowance) -> None:
        self._limits = limits
        self._allowance = allowance
        self._deadline = Deadline(limits.wall_s)
        self._resolver = Resolver(allowance, self._deadline, limits.connect_s)
        self._trusted = trusted(allowance)
        self._hosts: list[str] = []

    def get(self, url: str) -> Downloaded:
        """Raises NotFetchable, NotAnswered. Their words are ours alone, as nobody labels them: of what others said,
        there is not even the name of a host in them that they lead to."""
        address = first = self._read(url)
        for _ in range(self._limits.redirects + 1):
            got = self._one(address, first)
            if not got.leads_to:
                return got
            further = self._further(address, got.leads_to, first)
            if not further.is_same_host(first):
                return Downloaded(url=got.url, status=got.status, hosts=got.hosts, leads_to=further.url)
            address = further
        raise web_error(
            "web.status",
            f"{first.name} redirects more than {self._limits.redirects} times.",
            "Look for the same on another page.",
        )

    def _read(self, url: str) -> Address:
        return read_address(url, ports=self._allowance.ports, addresses=self._allowance.addresses)

    def _further(self, address: Address, location: str, first: Address) -> Address:
        try:
            further = self._read(redirected(address, location))
        except OzzieError as error:
            raise web_error(
                error.code,
                f"{first.name} redirects to an address that is not fetched. {error}",
                "Look for the same on another page.",
            ) from None
        if address.scheme == "https" and further.scheme == "http":
            raise web_error(
                "web.refused",
                f"{first.name} redirects from https to http, which is not followed.",
                "Look for the same on another page.",
            )
        return further

    def _one(self, address: Address, first: Address) -> Downloaded:
        """What one address answers; a redirect with where it leads, as it says. Others' faults become our errors."""
        if address.name not in self._hosts:
            self._hosts.append(address.name)
        backend = GuardedBackend(self._resolver, self._deadline, self._limits.connect_s)
        patience = {"connect": self._limits.connect_s}
        try:
            # A pool of its own for each: no connection serves twice, so each is checked.
            with (
                httpcore.ConnectionPool(ssl_context=self._trusted, network_backend=backend) as pool,
                pool.stream(
                    "GET",
                    httpcore.URL(
                        scheme=address.scheme.encode(),
                        host=address.name.encode(),
                        port=address.port,
                        target=address.target.encode(),
                    ),
                    headers=[(b"Host", address.authority.encode()), *_HEADERS],
                    extensions={"timeout": patience},
                ) as response,
            ):
                return self._answer(address, first, response)
        except httpcore.TimeoutException as error:
            most = self._limits.wall_s
            if isinstance(error, httpcore.ConnectTimeout):
                most = min(most, self._limits.connect_s)
            raise web_error(
                "web.timed_out",
                f"{first.name} did not answer within {most:g} s.",
                "Try again later, or look for the same on another page.",
            ) from None
        except httpcore.ProtocolError:
            raise _no_http(first) from None
        except NoSuchHost:
            said = f"There is no host {first.name}." if address is first else f"{first.name} redirects to no host."
            raise web_error("web.unreachable", said, "Look whether the address is right.") from None
        except httpcore.NetworkError as error:
            if _is_tls(error):
                raise web_error(
                    "web.unreachable",
                    f"There is no secure way to {first.name}: its certificate or its encryption is not in order.",
                    "Don't go around this; tell the user where it matters.",
                ) from None
            raise web_error(
                "web.unreachable",
                f"{first.name} can't be reached, or ended the connection.",
                "Look whether the address is right, and try again later.",
            ) from None

    def _answer(self, address: Address, first: Address, response: httpcore.Response) -> Downloaded:
        headers = {name.decode("ascii", "replace").lower(): value.decode("latin-1") for name, value in response.headers}
        location = headers.get("location", "")
        if response.status in _REDIRECTS and location:
            return self._downloaded(address, response.status, leads_to=location)
        if not 200 <= response.status < 300:
            raise _refused_by(first, response.status)
        declared = Declared.of(headers.get("content-type", ""), headers.get("content-length", ""))
        expect_text(declared)
        body, cut = self._body(first, declared, headers.get("content-encoding", ""), response)
        return self._downloaded(
            address,
            response.status,
            type=type_of(declared, body),
            charset=declared.charset,
            body=body,
            cut=cut,
        )

    def _downloaded(self, address: Address, status: int, **more: object) -> Downloaded:
        return Downloaded(url=address.url, status=status, hosts=tuple(self._hosts), **more)  # pyright: ignore[reportArgumentType]

    def _body(
        self, first: Address, declared: Declared, encoding: str, response: httpcore.Response
    ) -> tuple[bytes, bool]:
        """What came, and whether that is not all: it was too much, it stopped, or its time was up."""
        unpacking, got, is_looked_at = Unpacking(encoding), bytearray(), False
        ended = False
        pieces = _pieces(unpacking, response)
        while not ended and len(got) <= self._limits.body:
            try:
                piece = next(pieces, None)
            except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, BadPacking) as error:
                if not got:
                    if isinstance(error, BadPacking):
                        raise _no_http(first) from None
                    raise
                unpacking.is_whole = False
                piece = None
            ended = piece is None
            got += piece or b""
            if not is_looked_at and (ended or len(got) >= _HEAD):
                is_looked_at = True
                expect_text(declared, bytes(got[:_HEAD]))
        return bytes(got[: self._limits.body]), len(got) > self._limits.body or not (ended and unpacking.is_whole)


def _pieces(unpacking: Unpacking, response: httpcore.Response) -> Iterator[bytes]:
    for raw in response.iter_stream():
        yield from unpacking.feed(raw)


def _is_tls(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, ssl.SSLError):
        seen = seen.__context__  # httpcore raises its own anew without a cause
    return seen is not None


def _no_http(first: Address) -> OzzieError:
    return web_error(
        "web.answer", f"What {first.name} answers is no proper HTTP.", "Look for the same on another page."
    )


def _refused_by(first: Address, status: int) -> OzzieError:
    try:
        said = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        said = str(status)
    match status:
        case 404 | 410:
            hint = "Look whether the address is right, or search for the page."
        case 401 | 403 | 407 | 451:
            hint = "It is not for everybody. Look for the same on another page, or ask the user for it."
        case 429 | 503:
            hint = "Try again in some minutes."
        case _:
            hint = "Try again later, or look for the same on another page."
    return RefusedByStatus(f"{first.name} answers {said}.", hint=hint, status=status)
