"""What went wrong at the provider, in our codes. The provider's own words are bounded, and no key is in them."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import openai
from litellm.exceptions import ContentPolicyViolationError, ContextWindowExceededError

from ozzie_server_ext.protocol.jsontext import repair_text
from ozzie_server_ext.protocol.worker import Error, Provider

MAX_DETAIL_CHARS = 600

_KEY_LIKE = re.compile(r"\b(?:sk-|pk-|AIza|gsk_|xai-)[\w-]{6,}|(?<=Bearer )[^\s,;\"']+")
_WRAPPING = re.compile(r"^(?:(?:litellm\.)?\w+(?:Error|Timeout): |\w+Exception - )+")
_BY_STATUS = {
    400: "provider.bad_request",
    401: "provider.auth",
    402: "provider.forbidden",
    403: "provider.forbidden",
    404: "provider.not_found",
    408: "provider.timeout",
    413: "provider.context_length",
    422: "provider.bad_request",
    429: "provider.rate_limited",
    504: "provider.timeout",
}


class Broken(Exception):
    """The stream ended in good order without saying that the answer is whole."""


class Garbage(Exception):
    """What came is no answer in the provider's format."""


def error_event(error: BaseException, provider: Provider, *, begun: bool) -> Error:
    """`error` as the event that ends the call. `begun`: whether any part of the answer had come."""
    causes = list(_causes(error))
    return Error(
        code=_code(causes, begun=begun),
        message=type(causes[0]).__name__,
        detail=redacted(_words(causes[0]), provider),
        after_s=_retry_after(causes),
    )


def _words(error: BaseException) -> str:
    """The provider's own words, out of the layers that litellm puts around them."""
    return _WRAPPING.sub("", str(error)).partition(" Original exception:")[0]


def redacted(text: str, provider: Provider) -> str:
    """`text` without the provider's key and header values, and without what looks like a key; bounded."""
    for secret in sorted((provider.api_key, *provider.headers.values()), key=len, reverse=True):
        if len(secret) > 3:
            text = text.replace(secret, "[key]")
    return repair_text(_KEY_LIKE.sub("[key]", text))[:MAX_DETAIL_CHARS]


def _causes(error: BaseException) -> Iterator[BaseException]:
    """`error` and what it was made from; litellm wraps what it got two or three times over."""
    found: BaseException | None = error
    for _ in range(12):
        if found is None:
            return
        yield found
        found = getattr(found, "original_exception", None) or found.__cause__ or found.__context__


def _code(causes: list[BaseException], *, begun: bool) -> str:
    def has(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    if has(ContextWindowExceededError):
        return "provider.context_length"
    if has(ContentPolicyViolationError):
        return "provider.content_filter"
    if has(Garbage, json.JSONDecodeError):
        return "provider.garbage"
    if has(TimeoutError, openai.APITimeoutError, httpx.TimeoutException) and not has(httpx.ConnectError):
        return "provider.timeout"
    if has(Broken, httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
        return "provider.broken_stream"
    if has(httpx.ConnectError, httpx.ProxyError):
        return "provider.unreachable"
    status = next((code for cause in reversed(causes) if (code := _status(cause))), None)
    if status is not None and status < 500:
        return _BY_STATUS.get(status, "provider.bad_request")
    if has(openai.APIConnectionError) and status is None:
        return "provider.broken_stream" if begun else "provider.unreachable"
    return _BY_STATUS.get(status or 500, "provider.server")


def _status(cause: BaseException) -> int | None:
    status: Any = getattr(cause, "status_code", None)
    return status if isinstance(status, int) and not isinstance(status, bool) else None


def _retry_after(causes: list[BaseException]) -> float | None:
    for cause in causes:
        headers: Any = getattr(getattr(cause, "response", None), "headers", None) or {}
        try:
            seconds = float(headers.get("retry-after"))
        except (TypeError, ValueError):  # absent, or a date, which providers do not send in practice
            continue
        return min(max(seconds, 0.0), 3600.0)
    return None
