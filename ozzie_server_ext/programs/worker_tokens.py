"""Access tokens by OAuth 2.0 client credentials (RFC 6749 §4.4), fetched for a call and kept until shortly before they
expire.

The client's secret and its tokens stay in this process's memory.
"""

import asyncio
import json
import ssl
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any
from urllib.parse import quote_plus

import httpx
import msgspec

from ozzie_server_ext.protocol.worker import ClientCredentials, Provider

TIMEOUT_S = 20.0
MAX_ANSWER_BYTES = 65_536
LIFETIME_S = 300.0
"""Lifetime of a token whose server names none."""
MARGIN_S = 60.0
"""A token is not used in this last part of its lifetime: a call takes time to arrive, and clocks differ."""
MARGIN_SHARE = 0.1
MAX_CLIENTS = 256

_BEARER_DRIVERS = frozenset({"openai", "openai-compatible", "vllm", "deepseek", "litellm"})
"""Drivers that send their key as a bearer token anyway."""


class TokenRefused(Exception):
    """The token server refused a token to this client; the text is the server's own."""


class NoToken(Exception):
    """No token: the server can't be reached, fails, or answers something else."""


class _Token(msgspec.Struct, frozen=True):
    text: str
    ends_at: float


class Tokens:
    """The tokens of all clients. Concurrent calls for the same token share one request."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        # Not the wall clock, which may be set. After a sleep of the machine, the provider refuses the token.
        self._now = now
        self._known: dict[ClientCredentials, _Token] = {}
        self._fetching: dict[ClientCredentials, asyncio.Task[_Token]] = {}
        self._in_body: set[str] = set()

    async def authorized(self, provider: Provider) -> Provider:
        """Return the provider with a token as its key, or unchanged if it needs none.

        Raises TokenRefused, NoToken.
        """
        client = provider.oauth2
        if client is None:
            return provider
        token = await self._token(client)
        bearer = {} if provider.driver in _BEARER_DRIVERS else {"Authorization": f"Bearer {token}"}
        # litellm requires a key, and sends it where the provider itself would look for one.
        return replace(provider, api_key=token, headers={**provider.headers, **bearer})

    def forget(self, client: ClientCredentials) -> None:
        """Drop a token that the provider refused: the next call fetches a new one."""
        self._known.pop(client, None)

    async def _token(self, client: ClientCredentials) -> str:
        known = self._known.get(client)
        if known is not None and self._now() < known.ends_at:
            return known.text
        fetching = self._fetching.get(client)
        if fetching is None:
            fetching = self._fetching[client] = asyncio.create_task(self._fetch(client))
            fetching.add_done_callback(lambda done: self._fetched(client, done))
        # Cancelling one call does not take the token from the others.
        return (await asyncio.shield(fetching)).text

    def _fetched(self, client: ClientCredentials, done: "asyncio.Task[_Token]") -> None:
        del self._fetching[client]
        if done.cancelled() or done.exception() is not None:
            return
        while len(self._known) >= MAX_CLIENTS:
            del self._known[next(iter(self._known))]
        self._known[client] = done.result()

    async def _fetch(self, client: ClientCredentials) -> _Token:
        began = self._now()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                status, answer = await self._ask(client)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
            raise NoToken(f"it can't be reached ({type(error).__name__})") from error
        if status in (400, 401, 403) and isinstance(answer.get("error"), str):
            texts = [answer["error"], answer.get("error_description")]
            raise TokenRefused(": ".join(text for text in texts if isinstance(text, str) and text))
        if status != 200:
            raise NoToken(f"it answered with status {status}")
        text = answer.get("access_token")
        # Characters that are valid in a header; RFC 6750 §2.1 allows fewer, but servers ignore that.
        if not isinstance(text, str) or not text or not all("!" <= character <= "~" for character in text):
            raise NoToken("there is no token in its answer")
        kind = answer.get("token_type", "Bearer")
        if not isinstance(kind, str) or kind.lower() != "bearer":
            raise NoToken("its token is not of the type Bearer")
        lasts = _seconds(answer.get("expires_in"))
        return _Token(text, began + lasts - min(MARGIN_S, lasts * MARGIN_SHARE))

    async def _ask(self, client: ClientCredentials) -> tuple[int, dict[str, Any]]:
        """Return status and answer. Authenticate by HTTP Basic, else in the body (RFC 6749 §2.3.1)."""
        async with httpx.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False, verify=_authorities()) as http:
            if client.token_url not in self._in_body:
                status, answer = await _post(http, client, in_body=False)
                if answer.get("error") != "invalid_client":
                    return status, answer
            status, answer = await _post(http, client, in_body=True)
            if status == 200:
                self._in_body.add(client.token_url)
            return status, answer


@cache
def _authorities() -> ssl.SSLContext:
    """Load the certificates once: that takes as long as many tokens of an answer, and would block all streams."""
    return httpx.create_ssl_context()


async def _post(http: httpx.AsyncClient, client: ClientCredentials, *, in_body: bool) -> tuple[int, dict[str, Any]]:
    form = {"grant_type": "client_credentials"}
    if client.scopes:
        form["scope"] = " ".join(client.scopes)
    basic = None
    if in_body:
        form |= {"client_id": client.client_id, "client_secret": client.client_secret}
    else:
        basic = httpx.BasicAuth(quote_plus(client.client_id), quote_plus(client.client_secret))
    request = http.build_request("POST", client.token_url, data=form, headers={"Accept": "application/json"})
    answer = await http.send(request, auth=basic, stream=True)
    try:
        body = bytearray()
        async for piece in answer.aiter_bytes():
            body += piece
            if len(body) > MAX_ANSWER_BYTES:
                return answer.status_code, {}
    finally:
        await answer.aclose()
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    return answer.status_code, found if isinstance(found, dict) else {}


def _seconds(value: object) -> float:
    """Return a token's lifetime; some servers send the number as text."""
    try:
        lasts = float(value) if isinstance(value, int | float | str) else LIFETIME_S
    except ValueError:
        return LIFETIME_S
    return min(max(lasts, 0.0), 86_400.0) if lasts == lasts else LIFETIME_S
