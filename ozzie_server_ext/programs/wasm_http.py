"""Web requests that plugins make through the host: to granted hosts, by granted methods.

Nothing is redirected: a plugin gets the answer with its `location`, and each further request is checked like the first.
The connection goes to the very addresses that were checked.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import httpcore
import msgspec
from httpcore import AnyIOBackend

from ozzie_server_ext import __version__
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.plugins.hosts import HostGrant
from ozzie_server_ext.programs.checked_hosts import NotPublic, checked_addresses
from ozzie_server_ext.programs.web_download import tls_context
from ozzie_server_ext.protocol.tool_host import CannedAnswer
from ozzie_server_ext.web.address import Address, not_public, read_address
from ozzie_server_ext.web.reach import Allowance

MAX_ANSWER = 2 << 20
MAX_BODY = 1 << 20
MAX_HEADERS = 50
MAX_HEADER_BYTES = 16 << 10
TIMEOUT_S = 60.0
_ALL_PORTS = range(1, 1 << 16)
"""A grant says which it is for."""
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect"})
"""Headers that say where a request goes or ends: a plugin can't set them."""


class Refused(Exception):
    """Something that nobody granted: `wish` in the words of grants, `words` for the plugin and for people."""

    def __init__(self, wish: str, words: str) -> None:
        super().__init__(words)
        self.wish = wish


class Failed(Exception):
    """A granted request or another wish came to nothing; the text is for the plugin."""


class Answer(msgspec.Struct, frozen=True):
    """An answer: its status, headers by their names in small letters, and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Request(msgspec.Struct, frozen=True):
    """A request as a plugin makes it. `has_secret`: a secret is in it, so it may not be sent in the clear; `shown` is
    its address without that secret."""

    method: str
    url: str
    headers: Mapping[str, str] = {}
    body: bytes = b""
    has_secret: bool = False
    shown: str = ""


class Requests(Protocol):
    """How a plugin's requests are answered."""

    async def send(self, request: Request) -> Answer:
        """Answer a request. Raises Refused, Failed."""
        ...

    async def close(self) -> None: ...


class Grants:
    """The hosts and methods that were granted: `http:GET api.example.org`, without the prefix."""

    def __init__(self, wishes: Iterable[str]) -> None:
        self._by_method: dict[str, list[HostGrant]] = {}
        for wish in wishes:
            method, _, host = wish.partition(" ")
            self._by_method.setdefault(method, []).append(HostGrant.of(host))

    @property
    def hosts(self) -> tuple[HostGrant, ...]:
        return tuple(grant for each in self._by_method.values() for grant in each)

    def checked(self, request: Request) -> Address:
        """Return where a request goes. Raises Refused for what was not granted, Failed for what is no address."""
        exact = [grant for grant in self.hosts if grant.is_exact]
        addresses = tuple(found for grant in exact if (found := _host_of(grant)))
        try:
            address = read_address(request.url, ports=_ALL_PORTS, addresses=addresses)
        except OzzieError as error:
            if str(error) == str(not_public()):  # a trick more often than a mistake
                raise Refused(f"http:{request.method} {request.shown or request.url}", str(error)) from None
            raise Failed(str(error)) from None
        if not any(grant.covers(address.name, address.port) for grant in self._by_method.get(request.method, [])):
            wish = f"http:{request.method} {address.authority}"
            raise Refused(wish, f"Nobody granted this plugin {request.method} requests to {address.authority}.")
        if (
            request.has_secret
            and address.scheme == "http"
            and not any(grant.is_exact and grant.covers(address.name, address.port) for grant in exact)
        ):
            raise Failed("A secret is sent over https alone.")
        return address


class WebRequests:
    """Sends the requests of one plugin."""

    def __init__(self, grants: Grants) -> None:
        self._grants = grants
        self._pool: httpcore.AsyncConnectionPool | None = None

    async def send(self, request: Request) -> Answer:
        """See `Requests`."""
        address = self._grants.checked(request)
        _expect_short(request)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._send(request, address)
        except NotPublic as error:
            raise Refused(
                f"http:{request.method} {address.authority}", f"Nobody granted this plugin {error}."
            ) from None
        except TimeoutError:
            raise Failed(f"{address.authority} did not answer within {TIMEOUT_S:g} s.") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError, ValueError) as error:
            raise Failed(f"{address.authority} can't be reached: {str(error) or type(error).__name__}.") from None

    async def _send(self, request: Request, address: Address) -> Answer:
        if self._pool is None:
            self._pool = httpcore.AsyncConnectionPool(
                ssl_context=await asyncio.to_thread(tls_context, Allowance()),
                network_backend=_CheckedBackend(self._grants.hosts),
                max_connections=16,
                keepalive_expiry=30,
            )
        sent = {name.lower(): value for name, value in request.headers.items() if name.lower() not in _OURS}
        sent = {"user-agent": f"Ozzie/{__version__}"} | sent | {"accept-encoding": "identity"}
        # The address as it was read and checked, so that no other reader of it finds another host.
        stream = self._pool.stream(
            request.method, address.url, headers=[*sent.items()], content=request.body if request.body else None
        )
        async with stream as response:
            named = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            if named.get("content-encoding", "identity") != "identity":
                raise Failed("The answer is packed, though that was not asked for.")
            got = bytearray()
            async for piece in response.aiter_stream():
                got += piece
                if len(got) > MAX_ANSWER:
                    raise Failed(f"The answer has more than {MAX_ANSWER >> 20} MiB.")
            return Answer(response.status, named, bytes(got))

    async def close(self) -> None:
        """Close the connections that are kept."""
        if self._pool is not None:
            await self._pool.aclose()


class CannedAnswers:
    """Answers a plugin's requests with given answers, each once and in any order; nothing is sent. Grants count as
    they do for real requests."""

    def __init__(self, grants: Grants, answers: Sequence[CannedAnswer]) -> None:
        self._grants = grants
        self._left = list(answers)

    async def send(self, request: Request) -> Answer:
        """See `Requests`."""
        self._grants.checked(request)
        _expect_short(request)
        for answer in self._left:
            if (answer.method, answer.url) == (request.method, request.url):
                self._left.remove(answer)
                return Answer(answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.body.encode())
        raise Failed(f"The example has no answer to {request.method} {request.url}")

    async def close(self) -> None:
        """There is nothing to close."""


def _expect_short(request: Request) -> None:
    size = sum(len(name) + len(value) for name, value in request.headers.items())
    if len(request.body) > MAX_BODY or len(request.headers) > MAX_HEADERS or size > MAX_HEADER_BYTES:
        raise Failed("The request is too long.")


def _host_of(grant: HostGrant) -> str:
    """Return the IP address or the name that a grant of one host is for."""
    pattern = grant.pattern
    if pattern is None:
        return ""
    return pattern.host if pattern.network is None else str(pattern.network.network_address)


class _CheckedBackend(httpcore.AsyncNetworkBackend):
    """Connects to the checked addresses of granted hosts. Raises NotPublic."""

    def __init__(self, grants: Iterable[HostGrant]) -> None:
        self._grants = tuple(grants)
        self._plain: httpcore.AsyncNetworkBackend = AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address that answers. Each request was checked before, so a grant covers its host."""
        covering = [grant for grant in self._grants if grant.covers(host, port)]
        for address in await checked_addresses(host, port, max(covering, key=lambda each: each.is_exact)):
            with contextlib.suppress(httpcore.NetworkError, httpcore.TimeoutException):
                return await self._plain.connect_tcp(str(address), port, timeout, local_address, socket_options)
        raise httpcore.ConnectError("none of its addresses answers")
