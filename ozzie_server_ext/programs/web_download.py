"""One page, by as many redirects as are allowed, each of which is read and checked like the first address (SX-2)."""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

import httpcore

from ozzie_server_ext import __version__
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.programs.web_body import BadPacking, Unpacking
from ozzie_server_ext.programs.web_text import Declared, expect_text, type_of
from ozzie_server_ext.programs.web_transport import Deadline, GuardedBackend, NoSuchHost, Resolver, trusted
from ozzie_server_ext.web.address import Address, read_address, redirected
from ozzie_server_ext.web.allowance import Allowance, Limits
from ozzie_server_ext.web.port import NotAnswered, web_error

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
