"""Provider failures as our error codes. Providers' messages are bounded, and keys are removed from them."""

import ast
import base64
import html
import json
import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

import httpx
import msgspec
import openai
from litellm.exceptions import ContentPolicyViolationError, ContextWindowExceededError

from ozzie_server_ext.models.driver import ModelErrorCode
from ozzie_server_ext.programs.worker_tokens import NoToken, TokenRefused
from ozzie_server_ext.protocol.jsontext import repair_text
from ozzie_server_ext.protocol.worker import Error, Provider

MAX_WAIT_S = 3600.0

_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")
_UNEXPECTED = "Got unexpected response from Ollama: "


class Refusal(msgspec.Struct, frozen=True):
    """An error response: `status` is 0 once streaming has begun, `body` is empty unless it is a JSON object."""

    status: int = 0
    headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    body: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])

    @property
    def message(self) -> str:
        """The provider's own message, or ""."""
        error = self.body.get("error", self.body)
        if isinstance(error, str):
            return error
        found = error.get("message") or error.get("detail") if isinstance(error, Mapping) else None
        return found if isinstance(found, str) else ""

    @property
    def reasons(self) -> frozenset[str]:
        """The provider's names for the error: `code`, `type`, `status`, and Google's `reason`."""
        error = self.body.get("error")
        if not isinstance(error, Mapping):
            return frozenset()
        found = [error.get("code"), error.get("type"), error.get("status")]
        found += [detail.get("reason") for detail in _details(error)]
        return frozenset(name for name in found if isinstance(name, str))

    @property
    def retry_after_s(self) -> float | None:
        """Seconds to wait, from the header, or from Google's `RetryInfo` in the body."""
        try:
            return _bounded(float(self.headers.get("retry-after", "")))
        except ValueError:  # absent, or a date, which providers do not send in practice
            pass
        error = self.body.get("error")
        for detail in _details(error) if isinstance(error, Mapping) else ():
            if found := _SECONDS.fullmatch(str(detail.get("retryDelay", ""))):
                return _bounded(float(found[1]))
        return None


def refusal_in(causes: Iterable[BaseException]) -> Refusal:
    """Find the error response behind `causes`, which are listed from the outermost on."""
    found = Refusal()
    for cause in causes:
        if isinstance(cause, httpx.HTTPStatusError):
            # The innermost counts: litellm's own around it have other texts and sometimes another status.
            found = Refusal(cause.response.status_code, cause.response.headers, _body(cause.response))
        elif _UNEXPECTED in str(cause) and not found.status:
            found = Refusal(body=_literal(str(cause).partition(_UNEXPECTED)[2]))
    return found


def _body(response: httpx.Response) -> Mapping[str, Any]:
    try:
        found: Any = json.loads(response.content)
    except (httpx.ResponseNotRead, ValueError, RecursionError):
        return {}
    # Gemini wraps the object into a list when it streams.
    found = found[0] if isinstance(found, list) and found else found
    return found if isinstance(found, dict) else {}


def _literal(text: str) -> Mapping[str, Any]:
    """Parse Ollama's `{"error": …}` within a stream, which litellm quotes as Python prints it."""
    try:
        found: Any = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _details(error: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    details = error.get("details")
    yield from (detail for detail in details if isinstance(detail, Mapping)) if isinstance(details, list) else ()


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), MAX_WAIT_S)


MAX_DETAIL_CHARS = 600
PIECE = 8
"""A run of this many characters of a secret is masked; shorter ones, such as the last four of a key, are not."""

_MAX_READ_CHARS = 1 << 14
_MASK = "[key]"
_KEY_LIKE = re.compile(r"\b(?:sk-|pk-|AIza|gsk_|xai-)[\w-]{6,}|(?<=Bearer )[^\s,;\"']+")


def redacted(text: str, provider: Provider) -> str:
    """Return `text`, bounded, without the provider's secrets, header values, and anything like a key."""
    text = text[:_MAX_READ_CHARS]
    secrets = [provider.api_key, *provider.headers.values(), unquote(urlsplit(provider.base_url).password or "")]
    if provider.oauth2 is not None:
        secrets += [provider.oauth2.client_secret, provider.oauth2.client_id]
    text = _masked(text, [spelling for secret in secrets for spelling in _spellings(secret)])
    return repair_text(_KEY_LIKE.sub(_MASK, text))[:MAX_DETAIL_CHARS]


def _spellings(secret: str) -> Iterator[str]:
    if len(secret) < 4:  # would match ordinary words
        return
    yield secret
    raw = secret.encode("utf-8", "surrogatepass")
    encoded = [quote(raw, safe=""), quote_plus(raw), json.dumps(secret)[1:-1], html.escape(secret), raw.hex()]
    # Base64 has three alignments, by what stands before; the ends depend on the neighbours.
    coded = [base64.b64encode(b"\0" * shift + raw)[4:-4].decode() for shift in range(3)]
    encoded += [*coded, *(text.replace("+", "-").replace("/", "_") for text in coded)]
    yield from (text for text in encoded if len(text) >= PIECE)


def _masked(text: str, secrets: list[str]) -> str:
    """Mask every run of characters of `text` that is also in a secret."""
    pieces = {secret[start : start + PIECE] for secret in secrets for start in range(max(1, len(secret) - PIECE + 1))}
    hidden = bytearray(len(text))
    for length in {len(piece) for piece in pieces}:
        for start in range(len(text) - length + 1):
            if text[start : start + length] in pieces:
                hidden[start : start + length] = b"\1" * length
    return "".join(_with_masks(text, hidden))


def _with_masks(text: str, hidden: bytearray) -> Iterator[str]:
    for run in re.finditer(rb"\x00+|\x01+", bytes(hidden)):
        yield _MASK if hidden[run.start()] else text[run.start() : run.end()]


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
_BY_MESSAGE: tuple[tuple[str, ModelErrorCode], ...] = (
    ("credit balance is too low", "provider.quota"),
    ("exceeds the context length", "provider.context_length"),
    ("overloaded", "provider.rate_limited"),
)
"""Codes by the message alone: some providers say no more, and litellm keeps no more of an error within a stream."""


class Broken(Exception):
    """The stream ended normally without marking the answer as complete."""


class Garbage(Exception):
    """The response is not an answer in the provider's format."""


def error_event(error: BaseException, provider: Provider, *, begun: bool) -> Error:
    """Return the event that ends the call. `begun`: part of the answer had come."""
    causes = list(_causes(error))
    refusal = refusal_in(causes)
    text = refusal.message or _innermost_text(causes[0])
    return Error(
        code=_code(causes, refusal, text, begun=begun),
        message=type(causes[0]).__name__,
        detail=redacted(text, provider),
        after_s=refusal.retry_after_s,
        begun=begun,
    )


def _innermost_text(error: BaseException) -> str:
    """Return the provider's own message, without litellm's layers around it."""
    return _WRAPPING.sub("", str(error)).partition(" Original exception:")[0]


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield `error` and its causes; litellm wraps an error two or three times."""
    found: BaseException | None = error
    for _ in range(12):
        if found is None:
            return
        yield found
        found = getattr(found, "original_exception", None) or found.__cause__ or found.__context__


def _code(causes: list[BaseException], refusal: Refusal, text: str, *, begun: bool) -> ModelErrorCode:
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
    if (code := _code_by_message(refusal, text)) is not None:
        return code
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
        # From Ollama: its own error within the stream, or no answer at all.
        return "provider.server" if "error" in refusal.body else "provider.garbage"
    if status is not None and status < 500:
        return _BY_STATUS.get(status, "provider.bad_request")
    if has(openai.APIConnectionError) and status is None:
        return "provider.broken_stream" if begun else "provider.unreachable"
    return _BY_STATUS.get(status or 500, "provider.server")


def _code_by_message(refusal: Refusal, text: str) -> ModelErrorCode | None:
    """Return the code that the error's names or message imply, if any."""
    for reason in refusal.reasons:
        if reason in _BY_REASON:
            return _BY_REASON[reason]
    return next((code for phrase, code in _BY_MESSAGE if phrase in text.lower()), None)


def _unreachable(causes: list[BaseException]) -> ModelErrorCode:
    """Return why no connection was made, as far as it changes what a person can do."""
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
