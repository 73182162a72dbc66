"""What may help after a failed call: the same again, another provider, a stronger model, or nothing (MD-4)."""

from typing import Literal, TypeAlias

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.models.driver import ModelError

Remedy: TypeAlias = Literal["again", "elsewhere", "stronger", "none"]

EMPTY = "provider.empty"
"""The code of an answer that has neither text nor a call of a tool."""

_AGAIN = frozenset(
    {
        "provider.rate_limited",
        "provider.server",
        "provider.unreachable",
        "provider.broken_stream",
        "provider.token_unavailable",
        "worker.lost",
    }
)
"""These pass, often within seconds. A time-out passes as well, but was waited for long enough."""

_AT_ONCE_ELSEWHERE = frozenset({"provider.rate_limited", "provider.unreachable", "provider.token_unavailable"})
"""Of `_AGAIN`: to ask the same provider once more is worth nothing while another one may answer."""

_STRONGER = frozenset({"provider.context_length", "provider.bad_request", EMPTY})
"""The provider is well; its model reads too little, lacks what was asked of it, or had nothing to say."""

_OURS = frozenset({"worker.lost", "worker.unavailable"})
"""What is wrong with Ozzie's own worker says nothing of a provider."""

_NONE = frozenset(
    {
        "provider.content_filter",
        "provider.sees_nothing",
        "provider.incomplete",
        "provider.endless",
        "provider.length",
    }
)
"""A refusal is not asked round until somebody gives in; where one is told that it sees nothing, the others see nothing
either; and what has shown text would be said twice."""


_NOT_BILLED = frozenset(
    {
        "provider.auth",
        "provider.token_refused",
        "provider.token_unavailable",
        "provider.forbidden",
        "provider.quota",
        "provider.not_found",
        "provider.rate_limited",
        "provider.server",
        "provider.bad_request",
        "provider.sees_nothing",
        "picture.lost",
        "provider.context_length",
        "provider.unreachable",
        "provider.unknown_host",
        "provider.no_tls",
        "provider.certificate",
        "worker.refused",
        "worker.stranger",
        "worker.denied",
        "worker.unavailable",
    }
)
"""The request was not taken on. With anything else, and with what is stopped, a provider may have been at work."""


def may_be_billed(error: OzzieError) -> bool:
    """Whether a call that failed so may be charged for. What is no ModelError was raised before anything was sent, or
    behind what came."""
    return isinstance(error, ModelError) and (error.begun or error.code not in _NOT_BILLED)


def remedy_of(error: OzzieError) -> Remedy:
    """What may help. An answer that has begun is never asked for again: it would be said, and billed, twice."""
    if isinstance(error, ModelError) and error.streamed:
        return "none"
    if error.code in _NONE or not error.code.startswith(("provider.", "worker.", "model.")):
        return "none"
    if error.code in _AGAIN:
        return "again"
    return "stronger" if error.code in _STRONGER else "elsewhere"


def is_worth_waiting_for(error: OzzieError, *, others: bool) -> bool:
    """Whether the same provider is asked again, when `others` may answer instead or not."""
    return error.code in _AGAIN and not (others and error.code in _AT_ONCE_ELSEWHERE)


def cools_down(error: OzzieError) -> bool:
    """Whether the failure tells that the provider would fail the next request, too."""
    if isinstance(error, ModelError) and error.streamed:
        return False
    return error.code.startswith("provider.") and error.code not in _STRONGER | _NONE
