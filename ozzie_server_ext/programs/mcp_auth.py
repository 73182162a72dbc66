"""Signing in to MCP servers at an address (OAuth 2.1, by the `mcp` package), and renewing what that brought.

A server names the authorization server, and that one names the rest: each may be hostile. So every request goes through
`Careful`: a host is met only after a person was told its name, over TLS, and at an address that was looked up once and
that the server itself may lead to. Answers are short, and nothing of them is shown without being quoted as theirs.
"""

import asyncio
import ipaddress
import json
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from enum import IntEnum
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import is_valid_client_metadata_url
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl, ValidationError

from ozzie_server_ext import __version__
from ozzie_server_ext.policy.patterns import IpAddress, host_of
from ozzie_server_ext.programs.mcp_transports import Ask, BoundedStream, rights, scope_of
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads_object
from ozzie_server_ext.protocol.tool_host import Client, ErrorCode, Grant, Meet, Refresh, SignIn, Visit
from ozzie_server_ext.render.text import cut_end, quoted, visible_label
from ozzie_server_ext.web.address import is_public

MAX_ANSWER = 256 * 1024
MAX_URL = 4096
MAX_TOKEN = 16 * 1024
_MAX_NAME = 1024
"""Characters of a client's id and secret, an issuer, an endpoint or a scope."""
_MAX_WORDS = 300
_LONGEST_S = 10 * 365 * 86_400
_PORTS = {"https": 443, "http": 80}
_CONNECT_S = 15.0


class SignInFailed(Exception):
    """Why there is no token; the text is a sentence for people. `code`: see `ErrorCode`."""

    def __init__(self, message: str, code: ErrorCode = "mcp.auth") -> None:
        super().__init__(message)
        self.code: ErrorCode = code


# --- where a server may lead to ---------------------------------------------------------------------------------------


class _Near(IntEnum):
    """How near an address is. Each kind leads to itself and to the public internet; loopback also to private ones."""

    PUBLIC = 0
    PRIVATE = 1
    LOOPBACK = 2
    OTHER = 3
    """Link-local and reserved ones, such as those that give a cloud's keys."""


def _near(address: IpAddress) -> _Near:
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if is_public(address):
        return _Near.PUBLIC
    if address.is_loopback:
        return _Near.LOOPBACK
    is_other = address.is_link_local or address.is_multicast or address.is_reserved or address.is_unspecified
    return _Near.PRIVATE if address.is_private and not is_other else _Near.OTHER


def _may_lead(base: _Near, to: _Near) -> bool:
    return to in (_Near.PUBLIC, base) or (base is _Near.LOOPBACK and to is _Near.PRIVATE)


async def _addresses(host: str, port: int) -> list[IpAddress]:
    """Return the addresses of a host. Raises SignInFailed."""
    try:
        async with asyncio.timeout(_CONNECT_S):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError):
        raise SignInFailed(f"The host {quoted(host)} can't be found.") from None
    return [ipaddress.ip_address(each) for each in dict.fromkeys(str(each[4][0]) for each in found)]


def _checked_url(url: str) -> None:
    """Raise SignInFailed unless an address is http or https, in plain ASCII, with one clear host."""
    if len(url) > MAX_URL:
        raise SignInFailed(f"It leads to an address of more than {MAX_URL:,} characters.")
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise SignInFailed("It leads to an address with characters that no address has.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        port, parts = 0, urlsplit("")
    if parts.scheme not in _PORTS or host_of(url) is None or port == 0:
        raise SignInFailed(f"It leads to {quoted(cut_end(url, _MAX_WORDS))}, which is no address of the web.")


class Careful(httpx2.AsyncHTTPTransport):
    """Sends the requests of a sign-in to the server at `url`. `meet` returns whether another host may be met."""

    def __init__(self, url: str, meet: Callable[[str], Awaitable[bool]]) -> None:
        # A request names an address in place of its host, so an open connection would serve another host of the same
        # address, whose certificate nobody has checked.
        super().__init__(limits=httpx2.Limits(max_keepalive_connections=0))
        self._url = url
        self._meet = meet
        self._met = {_origin(url)}
        self._base: _Near | None = None

    async def prepare(self) -> None:
        """Find out where the server itself is. Raises SignInFailed."""
        _checked_url(self._url)
        parts = urlsplit(self._url)
        host = parts.hostname or ""
        self._base = min(map(_near, await _addresses(host, parts.port or _PORTS[parts.scheme])))
        if self._base is _Near.LOOPBACK and host != "localhost" and isinstance(host_of(self._url), str):
            self._base = _Near.PRIVATE  # whoever has the name says where it leads
        if parts.scheme != "https" and self._base is not _Near.LOOPBACK:
            raise SignInFailed("Its address is not https: anybody on the way could read what you sign in with.")

    async def check(self, url: str) -> list[IpAddress]:
        """Return the addresses of a host, once all of them were found to be allowed. Raises SignInFailed."""
        assert self._base is not None
        _checked_url(url)
        parts = urlsplit(url)
        host = parts.hostname or ""
        found = await _addresses(host, parts.port or _PORTS[parts.scheme])
        near = [_near(address) for address in found]
        if not all(_may_lead(self._base, each) for each in near):
            raise SignInFailed(f"It leads to {quoted(host)}, which is in a private network. Ozzie does not go there.")
        if parts.scheme != "https" and set(near) != {_Near.LOOPBACK}:
            raise SignInFailed(f"It leads to {quoted(host)} without https. Ozzie does not go there.")
        return found

    async def agreed(self, url: str) -> list[IpAddress]:
        """Return the addresses of a host, once a person has agreed to it too. Raises SignInFailed."""
        addresses = await self.check(url)
        if (origin := _origin(url)) not in self._met:
            if not await self._meet(origin.removeprefix("https://")):
                raise SignInFailed("Nobody agreed to that.", "mcp.refused")
            self._met.add(origin)
        return addresses

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._sent(request, await self.agreed(str(request.url)))
        response.headers.pop("content-encoding", None)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = BoundedStream(response.stream, MAX_ANSWER)
        return response

    async def _sent(self, request: httpx2.Request, addresses: Iterable[IpAddress]) -> httpx2.Response:
        """Send it to one of the addresses: a second look-up could find others."""
        host = request.url.host
        failure: Exception | None = None
        for address in addresses:
            pinned = httpx2.Request(
                request.method,
                request.url.copy_with(host=str(address)),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return await super().handle_async_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        raise SignInFailed(f"{quoted(host)} can't be reached: {_words(failure)}") from None


def _origin(url: str) -> str:
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = parts.port or _PORTS.get(parts.scheme, 0)
    return f"{parts.scheme}://{host}" + ("" if port == _PORTS.get(parts.scheme) else f":{port}")


@asynccontextmanager
async def _http(transport: Careful) -> AsyncGenerator[httpx2.AsyncClient, None]:
    headers = {"accept-encoding": "identity", "user-agent": f"ozzie/{__version__}"}
    timeout = httpx2.Timeout(30.0, connect=_CONNECT_S)
    async with httpx2.AsyncClient(
        transport=transport, headers=headers, timeout=timeout, follow_redirects=False
    ) as client:
        yield client


# --- signing in -------------------------------------------------------------------------------------------------------


class _Storage:
    """What the library wants to keep; `signed_in` puts it into a grant."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.client = client
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return None  # a sign-in begins without any

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = _checked(tokens)  # before it is sent: an error about a header would repeat it

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class _Provider(OAuthClientProvider):
    """The library's, which asks for `scope`, if it is given, in place of what the server names."""

    def __init__(self, scope: str, **given: Any) -> None:
        super().__init__(**given)
        self._scope = scope

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = super().async_auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            while True:
                response = yield outgoing
                if self._scope and outgoing is request and response.status_code == 401:
                    known = response.headers.get("www-authenticate", "Bearer")
                    response.headers["www-authenticate"] = f'Bearer scope="{self._scope}", {known}'
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


async def signed_in(sign_in: SignIn, ask: Ask) -> Grant:
    """Sign in to a server. Raises SignInFailed."""

    async def meet(host: str) -> bool:
        return await ask(Meet(id=sign_in.id, host=host)) == "yes"

    transport = Careful(sign_in.url, meet)
    visits = _Visits(sign_in, transport, ask)
    client = sign_in.client
    is_document = client is not None and is_valid_client_metadata_url(client.id)
    if sign_in.scope and rights(sign_in.scope) != sign_in.scope:
        raise SignInFailed("These are no rights that one can ask for.")
    storage = _Storage(None if client is None or is_document else _client_info(client, sign_in.redirect))
    provider = visits.provider = _Provider(
        sign_in.scope,
        server_url=sign_in.url,
        client_metadata=OAuthClientMetadata(
            redirect_uris=[AnyUrl(sign_in.redirect)], client_name="Ozzie", software_version=__version__
        ),
        storage=storage,
        redirect_handler=visits.open,
        callback_handler=visits.result,
        client_metadata_url=client.id if client is not None and is_document else None,
    )
    request = {"jsonrpc": "2.0", "id": 1, "method": "ping"}  # it begins no session
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
    try:
        async with asyncio.timeout(sign_in.within_s):
            await transport.prepare()
            async with (
                _http(transport) as http,
                http.stream("POST", sign_in.url, json=request, headers=headers, auth=provider) as response,
            ):
                status = response.status_code
                scope = scope_of(response)
    except TimeoutError:
        raise SignInFailed(f"Nobody signed in within {sign_in.within_s / 60:g} minutes.", "mcp.timeout") from None
    except (OAuthFlowError, OAuthRegistrationError, OAuthTokenError, ValidationError, httpx2.HTTPError) as error:
        raise SignInFailed(_failure(error)) from None
    except (httpx2.StreamError, httpx2.InvalidURL, ValueError, RecursionError) as error:
        raise SignInFailed(f"What it answers can't be used: {_words(error)}") from None
    if storage.tokens is None or storage.client is None:
        raise SignInFailed(f"It does not ask anybody to sign in (HTTP {status}).", "mcp.refused")
    if status == 401:
        raise SignInFailed("You signed in, and it does not accept what that brought (HTTP 401).")
    if status == 403:
        wanted = f': it wants the right "{scope}"' if scope else ""
        raise SignInFailed(f"You signed in, and it refuses you (HTTP 403){wanted}.")
    return _grant(sign_in, provider.context, storage.tokens, storage.client)


class _Visits:
    """Has a person open the address of the authorization server, and takes the one where their browser ends."""

    def __init__(self, sign_in: SignIn, transport: Careful, ask: Ask) -> None:
        self._sign_in = sign_in
        self._transport = transport
        self._ask = ask
        self._state = self._ended = ""
        self.provider: OAuthClientProvider | None = None

    async def open(self, url: str) -> None:
        """Ask for a visit. Raises SignInFailed for an address that nobody should open, or whose host nobody agreed
        to."""
        assert self.provider is not None
        metadata = self.provider.context.oauth_metadata
        if metadata is not None and "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise SignInFailed(
                "Its authorization server does not say that it protects a sign-in against theft (PKCE with S256)."
            )
        await self._transport.agreed(url)
        self._state = _query(url).get("state", "")
        self._ended = await self._ask(Visit(id=self._sign_in.id, url=url))

    async def result(self) -> AuthorizationCodeResult:
        """Return what the browser brought. Raises SignInFailed for an error that it brought."""
        assert self.provider is not None
        found = _query(self._ended)
        metadata = self.provider.context.oauth_metadata
        if (error := found.get("error")) and found.get("state") == self._state:
            if metadata is not None and found.get("iss", str(metadata.issuer)) != str(metadata.issuer):
                raise SignInFailed(_MIXED_UP)
            said = found.get("error_description") or error
            raise SignInFailed(f"The authorization server refuses: {quoted(cut_end(said, _MAX_WORDS))}")
        return AuthorizationCodeResult(code=found.get("code", ""), state=found.get("state"), iss=found.get("iss"))


_MIXED_UP = "The browser brought the answer of another authorization server than the one that was asked."


def _query(url: str) -> dict[str, str]:
    """Return the parameters of an address that it has once; none if they can't be read."""
    try:
        found = parse_qs(urlsplit(url).query, max_num_fields=30)
    except ValueError:
        return {}
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _client_info(client: Client, redirect: str) -> OAuthClientInformationFull:
    return OAuthClientInformationFull(
        client_id=client.id,
        client_secret=client.secret or None,
        token_endpoint_auth_method=client.method or ("client_secret_basic" if client.secret else "none"),
        issuer=client.issuer or None,
        redirect_uris=[AnyUrl(redirect)],
    )


def _grant(sign_in: SignIn, context: OAuthContext, tokens: OAuthToken, client: OAuthClientInformationFull) -> Grant:
    metadata = context.oauth_metadata
    base = context.get_authorization_base_url(sign_in.url)
    issuer = str(metadata.issuer) if metadata else ""
    return _bounded(
        Grant(
            url=sign_in.url,
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token or "",
            expires_at=_expiry(tokens),
            scope=rights(tokens.scope or ""),
            token_endpoint=str(metadata.token_endpoint) if metadata else f"{base}/token",
            resource=context.get_resource_url()
            if context.should_include_resource_param(context.protocol_version)
            else "",
            issuer=issuer,
            client=Client(
                id=client.client_id,
                secret=client.client_secret or "",
                method=client.token_endpoint_auth_method or "",
                # A given one too: its secret is for no other authorization server from now on.
                issuer=client.issuer or issuer or context.auth_server_url or base,
                redirect=sign_in.redirect,
            ),
        )
    )


def _checked(tokens: OAuthToken) -> OAuthToken:
    """Return the tokens, if they can be kept and sent. Raises SignInFailed."""
    found = (tokens.access_token, tokens.refresh_token or "")
    if not tokens.access_token or not all(len(each) <= MAX_TOKEN and _is_plain(each) for each in found):
        raise SignInFailed("The tokens that it gives can't be used.")
    return tokens


def _bounded(grant: Grant) -> Grant:
    """Return it, if all of it can be kept and sent. Raises SignInFailed."""
    client = grant.client
    names = (grant.scope, grant.token_endpoint, grant.resource, grant.issuer, client.id, client.secret, client.issuer)
    if not all(len(name) <= _MAX_NAME and _is_plain(name) for name in names):
        raise SignInFailed("What it says of itself, or of Ozzie, can't be used.")
    return grant


def _is_plain(text: str) -> bool:
    """Return whether a text has printable ASCII alone: a line break in a token would begin another header."""
    return text.isascii() and text.isprintable()


def _expiry(tokens: OAuthToken) -> int:
    """Return when a token expires, in seconds since 1970; 0 if the server does not say so."""
    if tokens.expires_in is None:
        return 0
    return int(time.time()) + max(0, min(tokens.expires_in, _LONGEST_S))


# --- renewing ---------------------------------------------------------------------------------------------------------

_ENDED = ("invalid_grant", "invalid_client")
"""What is said of a sign-in that does not count any more (RFC 6749, 5.2). All else may pass."""


async def refreshed(refresh: Refresh) -> Grant:
    """Return new tokens for a sign-in. Raises SignInFailed, with `mcp.signed_out` if a person has to sign in again."""
    grant = refresh.grant

    async def meet(host: str) -> bool:
        return host == _origin(grant.token_endpoint).removeprefix("https://")  # was met at the sign-in

    transport = Careful(grant.url, meet)
    client = _client_info(grant.client, grant.client.redirect)
    context = OAuthContext(
        grant.url, OAuthClientMetadata(redirect_uris=client.redirect_uris), _Storage(client), None, None
    )
    context.client_info = client
    form = {"grant_type": "refresh_token", "refresh_token": grant.refresh_token, "client_id": grant.client.id}
    if grant.resource:
        form["resource"] = grant.resource
    try:
        form, headers = context.prepare_token_auth(form, {"accept": "application/json"})
        async with asyncio.timeout(refresh.within_s):
            await transport.prepare()
            async with _http(transport) as http:
                response = await http.post(grant.token_endpoint, data=form, headers=headers)
    except TimeoutError:
        raise SignInFailed("Its authorization server does not answer.") from None
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OAuthTokenError) as error:
        raise SignInFailed(f"Your sign-in could not be renewed: {_words(error)}") from None
    if response.status_code in (400, 401, 403) and _error_in(response.content) in _ENDED:
        raise SignInFailed("Your sign-in has ended.", "mcp.signed_out")
    if response.status_code not in (200, 201):
        raise SignInFailed(f"Your sign-in could not be renewed (HTTP {response.status_code}).")
    try:
        tokens = _checked(OAuthToken.model_validate_json(response.content))
    except (ValidationError, ValueError):
        raise SignInFailed("Your sign-in could not be renewed: the tokens that it gives can't be read.") from None
    return _bounded(
        Grant(
            url=grant.url,
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token or grant.refresh_token,
            expires_at=_expiry(tokens),
            scope=rights(tokens.scope or "") or grant.scope,
            token_endpoint=grant.token_endpoint,
            resource=grant.resource,
            issuer=grant.issuer,
            client=grant.client,
        )
    )


def _error_in(content: bytes) -> str:
    """Return the name of the error in an answer without tokens; "" if there is none."""
    try:
        body = loads_object(content, max_bytes=MAX_ANSWER)
    except InvalidJson:
        return ""
    return str(body.get("error", ""))


# --- words ------------------------------------------------------------------------------------------------------------


def _failure(error: Exception) -> str:
    """Return why the library gave up, in our words: its own repeat codes and states, which are secret."""
    text = str(error)
    match error:
        case OAuthRegistrationError():
            return "It does not let Ozzie register by itself. If it gave you a client's id, use --client-id."
        case OAuthTokenError():
            return f"Its authorization server gives no token. {_claim(text)}".strip()
        case OAuthFlowError() if text.startswith("State parameter"):
            return "The browser brought the answer to another sign-in."
        case OAuthFlowError() if text.startswith("Authorization response"):
            return _MIXED_UP
        case OAuthFlowError() if text.startswith("Authorization server metadata issuer"):
            return "Its authorization server calls itself by another address than the server does."
        case OAuthFlowError() if text.startswith("Protected resource") and "does not match" in text:
            return "It says that it is another server than the one at this address."
        case OAuthFlowError() if text.startswith("No authorization code"):
            return "The browser brought no code."
        case ValidationError():
            return "What it says of its sign-in can't be read."
        case _:
            return f"Signing in failed: {_words(error)}"


def _claim(text: str) -> str:
    """Return the error in a token response, as the server's words."""
    try:
        body = json.loads(text[text.index("{") :])
        said = str(body.get("error_description") or body.get("error") or "")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return f"It says {quoted(cut_end(said, _MAX_WORDS))}." if said else ""


def _words(error: Exception | None) -> str:
    return visible_label(cut_end(str(error) or type(error).__name__, _MAX_WORDS)).rstrip(".") + "."
