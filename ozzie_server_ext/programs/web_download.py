"""Downloading one page. Each redirect is parsed and checked like the first address."""

import ipaddress
import os
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus

import certifi
import httpcore

from ozzie_server_ext import __version__
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.policy.patterns import IpAddress
from ozzie_server_ext.programs.web_text import Declared, Downloaded, expect_text, type_of
from ozzie_server_ext.web.address import Address, is_public, not_public, read_address, redirected
from ozzie_server_ext.web.port import NotAnswered, web_error
from ozzie_server_ext.web.reach import Allowance, Limits

_PIECE = 64 * 1024
MAX_RATIO = 100
_SAFE_SIZE = 1 << 20
"""In bytes. Unpacked content up to this size is never treated as a bomb."""


class BadPacking(Exception):
    """The body is not encoded as its header says."""


class Unpacking:
    """Decodes one Content-Encoding. `is_whole`: the stream reached its end."""

    def __init__(self, encoding: str) -> None:
        """Raises NotFetchable for an encoding that was not requested."""
        self._kind = _KINDS.get(encoding.strip().lower())
        if self._kind is None:
            raise web_error(
                "web.type", "The content has an encoding that was not requested.", "Look for the same on another page."
            )
        self._unpack = zlib.decompressobj(self._kind) if self._kind else None
        self._bytes_in = self._bytes_out = 0
        self._members = 0
        self.is_whole = self._unpack is None

    def feed(self, raw: bytes) -> Iterator[bytes]:
        """Yield decoded pieces. Raises BadPacking, and NotFetchable for a decompression bomb."""
        if self._unpack is None:
            yield raw
            return
        more = bool(raw)
        while more:
            piece, left = self._step(raw)
            self._bytes_in += len(raw) - len(left)
            raw = left
            more = bool(raw) or len(piece) == _PIECE  # then some output may be held back
            self._bytes_out += len(piece)
            if self._bytes_out > _SAFE_SIZE and self._bytes_out > MAX_RATIO * self._bytes_in:
                raise web_error(
                    "web.too_large",
                    f"It unpacks to more than {MAX_RATIO} times its size, like content made to do harm.",
                    "Leave that page alone.",
                )
            if piece:
                yield piece

    def _step(self, raw: bytes) -> tuple[bytes, bytes]:
        """Return a decoded piece, and the rest of `raw`."""
        assert self._unpack is not None
        try:
            piece = self._unpack.decompress(raw, _PIECE)
        except zlib.error:
            if self._kind == zlib.MAX_WBITS and not self._bytes_out:
                # Some servers send "deflate" without the zlib header that RFC 9110, section 8.4.1.2, requires.
                self._kind = -zlib.MAX_WBITS
                self._unpack = zlib.decompressobj(self._kind)
                return b"", raw
            if self._members:
                return b"", b""  # trailing data, which browsers ignore too
            raise BadPacking from None
        left = self._unpack.unconsumed_tail
        self.is_whole = self._unpack.eof
        if self._unpack.eof:
            left = self._unpack.unused_data
            self._members += 1
            assert self._kind is not None
            self._unpack = zlib.decompressobj(self._kind)
        return piece, left


_KINDS = {"": 0, "identity": 0, "gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


_MOST_TRIED = 4
"""Addresses of one name to try."""


class Deadline:
    """The deadline of a request with all its redirects."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self, most: float | None = None) -> float:
        """Return the seconds left, at most `most`. Raises httpcore.ReadTimeout if none are left."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout
        return left if most is None else min(left, most)


class NoSuchHost(httpcore.ConnectError):
    """The name does not resolve."""


class Resolver:
    """Resolves names, by the system or, in tests, by an allowance. A lookup takes at most `patience_s`."""

    def __init__(self, allowance: Allowance, deadline: Deadline, patience_s: float) -> None:
        self._allowance = allowance
        self._deadline = deadline
        self._patience_s = patience_s
        self._lookups: dict[str, int] = {}

    def checked(self, name: str, port: int) -> list[IpAddress]:
        """Return all addresses of a host. One non-public address rejects all: such names are served to reach somebody
        else's network. Raises NotFetchable, NoSuchHost."""
        found = self._addresses(name, port)
        if not all(is_public(address) or str(address) in self._allowance.addresses for address in found):
            raise not_public()
        return found

    def _addresses(self, name: str, port: int) -> list[IpAddress]:
        try:
            return [ipaddress.ip_address(name)]
        except ValueError:
            pass
        written = self._scripted(name) if self._allowance.names else self._looked_up(name, port)
        if not written:
            raise NoSuchHost
        return [ipaddress.ip_address(address) for address in dict.fromkeys(written)]

    def _looked_up(self, name: str, port: int) -> list[str]:
        """Use the system's resolver, which can't be stopped: abandon it when the time is up."""
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

    def _scripted(self, name: str) -> list[str]:
        answers = self._allowance.names.get(name, ((),))
        number = self._lookups.get(name, 0)
        self._lookups[name] = number + 1
        return list(answers[min(number, len(answers) - 1)])


class GuardedBackend(httpcore.NetworkBackend):
    """The network backend of httpcore, which connects to checked addresses only."""

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
                # A literal address, so that nothing is resolved a second time.
                stream = self._plain.connect_tcp(str(address), port, patience, None, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if is_last:
                    raise
                continue
            return _DeadlineStream(stream, self._deadline)
        raise httpcore.ConnectError

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None
    ) -> httpcore.NetworkStream:
        raise httpcore.ConnectError("The web has no Unix sockets.")


class _DeadlineStream(httpcore.NetworkStream):
    """A connection on which no operation outlasts the whole request: a byte a second is no progress."""

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
        return _DeadlineStream(
            self._stream.start_tls(ssl_context, server_hostname, self._deadline.left(timeout)), self._deadline
        )

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)


def tls_context(allowance: Allowance) -> ssl.SSLContext:
    """Return the TLS context: authorities of SSL_CERT_FILE and SSL_CERT_DIR, else Mozilla's. Names are checked."""
    if allowance.authorities:
        return ssl.create_default_context(cadata=allowance.authorities)
    if os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        return ssl.create_default_context()
    return ssl.create_default_context(cafile=certifi.where())


_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEAD = 4096
"""Bytes to look at before the rest is fetched."""
_ACCEPTED = "text/html, application/xhtml+xml, text/markdown;q=0.9, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5"
_HEADERS = (
    (b"User-Agent", f"Ozzie/{__version__}".encode()),
    (b"Accept", _ACCEPTED.encode()),
    (b"Accept-Language", b"en, *;q=0.5"),
    (b"Accept-Encoding", b"gzip, deflate"),
    (b"Connection", b"close"),
)
"""Everything that we send about us: no cookie, no credential, no referrer."""


class RefusedByStatus(NotAnswered):
    """The server refused with an error status."""

    code = "web.status"

    def __init__(self, message: str, *, hint: str, status: int) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class Download:
    """A request with its redirects."""

    def __init__(self, limits: Limits, allowance: Allowance) -> None:
        self._limits = limits
        self._allowance = allowance
        self._deadline = Deadline(limits.wall_s)
        self._resolver = Resolver(allowance, self._deadline, limits.connect_s)
        self._tls = tls_context(allowance)
        self._hosts: list[str] = []

    def get(self, url: str) -> Downloaded:
        """Download a page. Raises NotFetchable, NotAnswered. Their texts are ours alone, because nobody labels errors:
        they contain nothing that a server sent, not even the host name of a redirect."""
        address = first = self._parse(url)
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

    def _parse(self, url: str) -> Address:
        return read_address(url, ports=self._allowance.ports, addresses=self._allowance.addresses)

    def _further(self, address: Address, location: str, first: Address) -> Address:
        try:
            further = self._parse(redirected(address, location))
        except OzzieError as error:
            raise web_error(
                error.code,
                f"{first.name} redirects to an address that may not be fetched. {error}",
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
        """Request one address; return a redirect unfollowed. Turn network errors into ours."""
        if address.name not in self._hosts:
            self._hosts.append(address.name)
        backend = GuardedBackend(self._resolver, self._deadline, self._limits.connect_s)
        patience = {"connect": self._limits.connect_s}
        try:
            # A new pool for each request: no connection is reused, so each is checked.
            with (
                httpcore.ConnectionPool(ssl_context=self._tls, network_backend=backend) as pool,
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
            message = f"There is no host {first.name}." if address is first else f"{first.name} redirects to no host."
            raise web_error("web.unreachable", message, "Check the address.") from None
        except httpcore.NetworkError as error:
            if _is_tls(error):
                raise web_error(
                    "web.unreachable",
                    f"There is no secure connection to {first.name}: its certificate or its encryption is invalid.",
                    "Don't work around this; tell the user if it matters.",
                ) from None
            raise web_error(
                "web.unreachable",
                f"{first.name} can't be reached, or ended the connection.",
                "Check the address, and try again later.",
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
            address, response.status, type=type_of(declared, body), charset=declared.charset, body=body, cut=cut
        )

    def _downloaded(self, address: Address, status: int, **more: object) -> Downloaded:
        return Downloaded(url=address.url, status=status, hosts=tuple(self._hosts), **more)  # pyright: ignore[reportArgumentType]

    def _body(
        self, first: Address, declared: Declared, encoding: str, response: httpcore.Response
    ) -> tuple[bytes, bool]:
        """Return the body, and whether it is incomplete: too large, cut off, or out of time."""
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
        seen = seen.__context__  # httpcore raises its own errors without a cause
    return seen is not None


def _no_http(first: Address) -> OzzieError:
    return web_error(
        "web.answer", f"The answer of {first.name} is not valid HTTP.", "Look for the same on another page."
    )


def _refused_by(first: Address, status: int) -> OzzieError:
    try:
        answer = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        answer = str(status)
    match status:
        case 404 | 410:
            hint = "Check the address, or search for the page."
        case 401 | 403 | 407 | 451:
            hint = "Access is restricted. Look for the same on another page, or ask the user for it."
        case 429 | 503:
            hint = "Try again in some minutes."
        case _:
            hint = "Try again later, or look for the same on another page."
    return RefusedByStatus(f"{first.name} answered {answer}.", hint=hint, status=status)
