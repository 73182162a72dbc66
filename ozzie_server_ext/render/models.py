"""Words for models: their tags, their facts, and how their last call ended."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ozzie_server_ext.domain.budget import NANO_USD_PER_USD

LABELS: Mapping[str, str] = {
    "context": "Context",
    "max_output": "Longest answer",
    "tools": "Tools",
    "parallel_tools": "Parallel tools",
    "images": "Images",
    "structured": "Structured output",
    "reasoning": "Reasoning",
    "price_in": "Price in",
    "price_out": "Price out",
}
"""The labels of a model's facts."""

_ENDS: Mapping[str, str] = {
    "provider.auth": "refused the key",
    "provider.token_refused": "got no token for it",
    "provider.token_unavailable": "got no token for it",
    "provider.forbidden": "did not let the key use it",
    "provider.quota": "had nothing left to spend",
    "provider.not_found": "knew no such model",
    "provider.rate_limited": "was busy",
    "provider.server": "failed",
    "provider.bad_request": "did not take the request",
    "provider.sees_nothing": "can't be shown pictures",
    "picture.lost": "was not asked, for a picture was lost",
    "provider.context_length": "got more than it can read",
    "provider.content_filter": "refused the content",
    "provider.unreachable": "was not reachable",
    "provider.unknown_host": "was not reachable",
    "provider.no_tls": "did not speak https",
    "provider.certificate": "had a certificate that is not trusted",
    "provider.timeout": "did not answer in time",
    "provider.broken_stream": "broke off",
    "provider.garbage": "sent what is no answer",
    "provider.endless": "came to no end",
    "provider.incomplete": "ended without an end",
    "worker.refused": "reported an error",
    "worker.stranger": "belonged to another user",
    "worker.denied": "could not be opened",
    "worker.lost": "was lost with its worker",
    "worker.unavailable": "had no worker",
}
_FINISHES: Mapping[str, str] = {"length": "reached its length limit", "content_filter": "withheld its answer"}

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


def call_end(code: str, finish: str, ago_s: float) -> str:
    """Return how a call ended and when: "answered 3 min ago", "refused the key 2 h ago". `code` is empty if it
    answered, `finish` is how the answer ended."""
    how = _ENDS.get(code, "failed") if code else _FINISHES.get(finish, "answered")
    return f"{how} {ago(ago_s)}"


def ago(seconds: float) -> str:
    """Return "just now", "3 min ago", "5 h ago", "1 day ago"; also "just now" if the clock was set back."""
    if seconds < _MINUTE_S:
        return "just now"
    if seconds < _HOUR_S:
        return f"{int(seconds // _MINUTE_S)} min ago"
    if seconds < _DAY_S:
        return f"{int(seconds // _HOUR_S)} h ago"
    days = int(seconds // _DAY_S)
    return f"{days:,} day{'' if days == 1 else 's'} ago"


def tag_words(tags: Mapping[str, Any]) -> str:
    """Return "security 4, jurisdiction swiss, local"."""
    return ", ".join(_tag(key, value) for key, value in tags.items())


def fact_words(name: str, value: Any) -> str:
    """Return a fact in words; `name` is a key of LABELS, `value` a number, a boolean, or None if unknown."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{price(value)} for a million tokens" if name.startswith("price") else f"{value:,} tokens"


def price(nano_usd: int) -> str:
    """Return an amount of 1e-9 USD to its last decimal: a price must not be rounded."""
    usd = Decimal(nano_usd) / NANO_USD_PER_USD
    _, _, exponent = usd.normalize().as_tuple()
    decimals = -exponent if isinstance(exponent, int) else 0
    return f"${usd:,.{max(2, decimals)}f}"


def _tag(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return key if value else f"not {key}"
    return f"{key} {value}"
