"""Access tokens by OAuth 2.0 client credentials (RFC 6749 §4.4): fetched for a call, kept until just before they end.

The client's secret and its tokens stay in this process's memory.
"""

import asyncio
import json
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from urllib.parse import quote_plus

import httpx

from ozzie_server_ext.protocol.worker import ClientCredentials, Provider

TIMEOUT_S = 20.0
MAX_ANSWER_BYTES = 65_536
LIFETIME_S = 300.0
"""Of a token whose server does not say how long it lasts."""
MARGIN_S = 60.0
"""So long before its end a token is not used any more: a call takes time to arrive, and clocks differ."""
MARGIN_SHARE = 0.1
MAX_CLIENTS = 256

_SPEAK_BEARER = frozenset({"openai", "openai-compatible", "vllm", "deepseek", "litellm"})
"""Drivers that send their key as a bearer token anyway."""


class TokenRefused(Exception):
    """The token server answered that this client gets no token; the text is its own words."""


class NoToken(Exception):
    """No token came: the server can't be reached, fails, or answers something else."""


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    ends_at: float


class Tokens:
    """The tokens of all clients. Whoever needs the same one at the same time waits for one request."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        # Not the wall clock, which may be set; a machine that slept notices by the provider's refusal.
        self._now = now
        self._known: dict[ClientCredentials, _Token] = {}
        self._fetching: dict[ClientCredentials, asyncio.Task[_Token]] = {}
        self._in_body: set[str] = set()

    async def authorized(self, provider: Provider) -> Provider:
        """The provider with a token in the place of its key; as it is where it needs none.

        Raises TokenRefused, NoToken.
        """
        client = provider.oauth2
        if client is None:
            return provider
        token = await self._token(client)
        bearer = {} if provider.driver in _SPEAK_BEARER else {"Authorization": f"Bearer {token}"}
        # litellm insists on a key and sends it where the provider itself would look for one.
        return replace(provider, api_key=token, headers={**provider.headers, **bearer})

    def forget(self, client: ClientCredentials) -> None:
        """The provider refused the token: the next call gets a new one."""
        self._known.pop(client, None)

    async def _token(self, client: ClientCredentials) -> str:
        known = self._known.get(client)
        if known is not None and self._now() < known.ends_at:
            return known.text
        fetching = self._fetching.get(client)
        if fetching is None:
            fetching = self._fetching[client] = asyncio.create_task(self._fetch(client))
            fetching.add_done_callback(lambda done: self._fetched(client, done))
        # One call that is given up does not take the token from the others.
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
            said = [answer["error"], answer.get("error_description")]
            raise TokenRefused(": ".join(text for text in said if isinstance(text, str) and text))
        if status != 200:
            raise NoToken(f"it answered with status {status}")
        text = answer.get("access_token")
        # What may stand in a header as a bearer token: RFC 6750 §2.1 allows less, and nobody keeps to it.
        if not isinstance(text, str) or not text or not all("!" <= character <= "~" for character in text):
            raise NoToken("there is no token in its answer")
        kind = answer.get("token_type", "Bearer")
        if not isinstance(kind, str) or kind.lower() != "bearer":
            raise NoToken("its token is not of the type Bearer")
        lasts = _seconds(answer.get("expires_in"))
        return _Token(text, began + lasts - min(MARGIN_S, lasts * MARGIN_SHARE))

    async def _ask(self, client: ClientCredentials) -> tuple[int, dict[str, Any]]:
        """Status and answer. The client says who it is as RFC 6749 §2.3.1 wants it: by HTTP Basic, and in the body
        where the server does not take that."""
        async with httpx.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False, verify=_authorities()) as http:
            if client.token_url not in self._in_body:
                status, answer = await _post(http, client, in_body=False)
                if answer.get("error") != "invalid_client":
                    return status, answer
            again, second = await _post(http, client, in_body=True)
            if again == 200:
                self._in_body.add(client.token_url)
            return again, second


@cache
def _authorities() -> ssl.SSLContext:
    """Read once: they take as long as many tokens of an answer, and all streams would wait."""
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


def _seconds(told: object) -> float:
    """How long a token lasts; some servers write the number as text."""
    try:
        lasts = float(told) if isinstance(told, int | float | str) else LIFETIME_S
    except ValueError:
        return LIFETIME_S
    return min(max(lasts, 0.0), 86_400.0) if lasts == lasts else LIFETIME_S
