"""What went wrong at the provider, in our codes. The provider's own words are bounded, and no key is in them."""

import json
import re
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import httpx
import openai
from litellm.exceptions import ContentPolicyViolationError, ContextWindowExceededError

from ozzie_server_ext.models.driver import ModelErrorCode
from ozzie_server_ext.programs.worker_redaction import redacted
from ozzie_server_ext.programs.worker_refusal import Refusal, refusal_in
from ozzie_server_ext.programs.worker_tokens import NoToken, TokenRefused
from ozzie_server_ext.protocol.worker import Error, Provider

_WRAPPING = re.compile(r"^(?:(?:litellm\.)?\w+(?:Error|Timeout): |\w+(?:Exception|Error) - )+")
_BY_STATUS: dict[int, ModelErrorCode] = {
    400: "provider.bad_request",
    401: "provider.auth",
    402: "provider.quota",
    403: "provider.forbidden",
    404: "provider.not_found",
    408: "provider.timeout",
    413: "provider.context_length",
    422: "provider.bad_request",
    429: "provider.rate_limited",
    504: "provider.timeout",
    # Anthropic's "overloaded".
    529: "provider.rate_limited",
}
_BY_REASON: dict[str, ModelErrorCode] = {
    # Google answers a wrong key with status 400.
    "API_KEY_INVALID": "provider.auth",
    # OpenAI answers an empty account as it does too many requests; waiting does not help there.
    "insufficient_quota": "provider.quota",
    "overloaded_error": "provider.rate_limited",
}
_BY_WORDS: tuple[tuple[str, ModelErrorCode], ...] = (
    ("credit balance is too low", "provider.quota"),
    ("exceeds the context length", "provider.context_length"),
    ("overloaded", "provider.rate_limited"),
)
"""What the message alone tells: some providers say no more, and of an error in a stream litellm keeps no more."""


class Broken(Exception):
    """The stream ended in good order without saying that the answer is whole."""


class Garbage(Exception):
    """What came is no answer in the provider's format."""


def error_event(error: BaseException, provider: Provider, *, begun: bool) -> Error:
    """`error` as the event that ends the call. `begun`: whether any part of the answer had come."""
    causes = list(_causes(error))
    refusal = refusal_in(causes)
    words = refusal.message or _words(causes[0])
    return Error(
        code=_code(causes, refusal, words, begun=begun),
        message=type(causes[0]).__name__,
        detail=redacted(words, provider),
        after_s=refusal.retry_after_s,
        begun=begun,
    )


def _words(error: BaseException) -> str:
    """The provider's own words, out of the layers that litellm puts around them."""
    return _WRAPPING.sub("", str(error)).partition(" Original exception:")[0]


def _causes(error: BaseException) -> Iterator[BaseException]:
    """`error` and what it was made from; litellm wraps what it got two or three times over."""
    found: BaseException | None = error
    for _ in range(12):
        if found is None:
            return
        yield found
        found = getattr(found, "original_exception", None) or found.__cause__ or found.__context__


def _code(causes: list[BaseException], refusal: Refusal, words: str, *, begun: bool) -> ModelErrorCode:
    def has(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    if has(TokenRefused):
        return "provider.token_refused"
    if has(NoToken):
        return "provider.token_unavailable"
    if has(ContextWindowExceededError):
        return "provider.context_length"
    if has(ContentPolicyViolationError):
        return "provider.content_filter"
    if (said := _said(refusal, words)) is not None:
        return said
    if has(Garbage, json.JSONDecodeError):
        return "provider.garbage"
    if has(TimeoutError, openai.APITimeoutError, httpx.TimeoutException) and not has(httpx.ConnectError):
        return "provider.timeout"
    if has(Broken, httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
        return "provider.broken_stream"
    if has(httpx.ConnectError, httpx.ProxyError):
        return _unreachable(causes)
    status = refusal.status or next((code for cause in reversed(causes) if (code := _status(cause))), None)
    if refusal.body and not refusal.status:
        # An answer of Ollama's that is none: an error of its own within the stream, or something else altogether.
        return "provider.server" if "error" in refusal.body else "provider.garbage"
    if status is not None and status < 500:
        return _BY_STATUS.get(status, "provider.bad_request")
    if has(openai.APIConnectionError) and status is None:
        return "provider.broken_stream" if begun else "provider.unreachable"
    return _BY_STATUS.get(status or 500, "provider.server")


def _said(refusal: Refusal, words: str) -> ModelErrorCode | None:
    """What the provider says beyond its status."""
    for reason in refusal.reasons:
        if reason in _BY_REASON:
            return _BY_REASON[reason]
    low = words.lower()
    return next((code for phrase, code in _BY_WORDS if phrase in low), None)


def _unreachable(causes: list[BaseException]) -> ModelErrorCode:
    """Why no connection came about, as far as a person can do different things about it."""
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return "provider.unknown_host"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "provider.certificate"
        if isinstance(cause, ssl.SSLError):
            return "provider.no_tls"
    return "provider.unreachable"


def _status(cause: BaseException) -> int | None:
    status: Any = getattr(cause, "status_code", None)
    return status if isinstance(status, int) and not isinstance(status, bool) else None
