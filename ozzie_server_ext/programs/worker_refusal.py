"""A provider's refusal as it came over HTTP: litellm shortens it, and passes on some of it only as text."""

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

MAX_WAIT_S = 3600.0

_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")
_UNEXPECTED = "Got unexpected response from Ollama: "


@dataclass(frozen=True, slots=True)
class Refusal:
    """`status` is 0 where the provider had begun to stream. `body` is what it sent, an empty object where that is no
    object of JSON."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def message(self) -> str:
        """The provider's own sentence; empty where there is none."""
        error = self.body.get("error", self.body)
        if isinstance(error, str):
            return error
        found = error.get("message") or error.get("detail") if isinstance(error, Mapping) else None
        return found if isinstance(found, str) else ""

    @property
    def reasons(self) -> frozenset[str]:
        """The names that the provider gives the error by: `code`, `type` and `status`, and Google's own `reason`."""
        error = self.body.get("error")
        if not isinstance(error, Mapping):
            return frozenset()
        found = [error.get("code"), error.get("type"), error.get("status")]
        found += [detail.get("reason") for detail in _details(error)]
        return frozenset(name for name in found if isinstance(name, str))

    @property
    def retry_after_s(self) -> float | None:
        """How long to wait: from the header, or from the body, where Google puts it (`RetryInfo`)."""
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
    """The refusal that `causes`, from the outermost on, go back to."""
    found = Refusal()
    for cause in causes:
        if isinstance(cause, httpx.HTTPStatusError):
            # The innermost counts: those around it are litellm's, with other words and sometimes another status.
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
    """litellm takes Ollama's `{"error": …}` within a stream for a broken answer, and quotes it as Python prints it."""
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
