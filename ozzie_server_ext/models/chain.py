"""Which models answer a request, in which order, and what to try after a failure."""

import random
from collections.abc import Callable
from typing import Literal, TypeAlias, cast

import msgspec

from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.models.driver import ModelChoice, ModelError, ModelErrorCode


class Chain(msgspec.Struct, frozen=True):
    """`choices`, never empty, are tried one after the other until one answers. `stronger` are tried, before the rest of
    them, if a model is not up to the request. `wanted` is the provider that stood first before any was left out: a
    substitute names it."""

    choices: tuple[ModelChoice, ...]
    stronger: tuple[ModelChoice, ...] = ()
    wanted: str = ""

    def __post_init__(self) -> None:
        if not self.choices:
            raise ValueError("a chain has a first model")

    def seeing(self) -> "Chain | None":
        """Return the chain of those that accept pictures; None if none does."""
        choices = tuple(choice for choice in self.choices if choice.sees)
        stronger = tuple(choice for choice in self.stronger if choice.sees)
        return Chain(choices, stronger, self.wanted or self.first.provider) if choices else None

    @property
    def first(self) -> ModelChoice:
        return self.choices[0]


MAX_COOL_DOWN_S = 3600.0


class CoolDown(msgspec.Struct, frozen=True):
    """Until when, in monotonic seconds, a provider is tried last, and the code of the failure that caused it.
    `requested`: the provider itself asked for that pause."""

    until: float
    code: str
    requested: bool


class Health:
    """The cool-downs of all turns of this gateway, kept in memory: a new gateway tries every provider again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._cooling: dict[str, CoolDown] = {}

    def failed(self, provider: str, code: str, *, for_s: float, requested: bool = False) -> None:
        """Try it last for so many seconds. A longer pause is never cut short."""
        until = self._clock.monotonic() + min(for_s, MAX_COOL_DOWN_S)
        before = self.cooling(provider)
        if before is None or before.until < until:
            self._cooling[provider] = CoolDown(until, code, requested)

    def answered(self, provider: str) -> None:
        self._cooling.pop(provider, None)

    def cooling(self, provider: str) -> CoolDown | None:
        """Return its cool-down; None if it may be tried."""
        found = self._cooling.get(provider)
        if found is not None and found.until <= self._clock.monotonic():
            del self._cooling[provider]
            return None
        return found

    def cooling_s(self, provider: str) -> float:
        """Return the seconds until its cool-down ends; 0 if it has none."""
        found = self.cooling(provider)
        return 0.0 if found is None else found.until - self._clock.monotonic()

    def busy_s(self, provider: str) -> float:
        """Return the seconds for which it asked not to be called; 0 if it did not."""
        found = self.cooling(provider)
        return self.cooling_s(provider) if found is not None and found.requested else 0.0

    def forget(self) -> None:
        """Forget all failures: the configuration or a key has changed, so providers may work now."""
        self._cooling.clear()


Remedy: TypeAlias = Literal["again", "elsewhere", "stronger", "none"]

EMPTY = "provider.empty"
"""The code of an answer with neither text nor a tool call."""

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
"""These pass, often within seconds. A time-out passes as well, but was already waited for."""

_AT_ONCE_ELSEWHERE = frozenset({"provider.rate_limited", "provider.unreachable", "provider.token_unavailable"})
"""Of `_AGAIN`: repeating the call at the same provider is useless while another one may answer."""

_STRONGER = frozenset({"provider.context_length", "provider.bad_request", EMPTY})
"""The provider works; its model reads too little, can't do what was requested, or had nothing to say."""

_NONE = frozenset(
    {"provider.content_filter", "provider.sees_nothing", "provider.incomplete", "provider.endless", "provider.length"}
)
"""A refusal is not passed round until some model gives in; if one can't see pictures, neither can the others; and what
has streamed text would be said twice."""


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
"""The provider did not accept the request. With other errors, and when stopped, it may have been working."""


def may_be_billed(error: OzzieError) -> bool:
    """Whether the failed call may be charged for. Other errors than ModelError were raised before anything was sent, or
    after everything had come."""
    return isinstance(error, ModelError) and (error.begun or error.code not in _NOT_BILLED)


def worker_died_midway(error: OzzieError) -> bool:
    """Whether Ozzie's worker died in the middle of an answer. The provider works, and another worker may get
    the whole answer (docs/adr/0012)."""
    return isinstance(error, ModelError) and error.streamed and error.code == "worker.lost"


def remedy_of(error: OzzieError) -> Remedy:
    """Return what may help. An answer that has begun is not requested again, because it would be said, and billed,
    twice; `Attempts` makes one exception."""
    if isinstance(error, ModelError) and error.streamed:
        return "none"
    if error.code in _NONE or not error.code.startswith(("provider.", "worker.", "model.")):
        return "none"
    if error.code in _AGAIN:
        return "again"
    return "stronger" if error.code in _STRONGER else "elsewhere"


def is_worth_retrying(error: OzzieError, *, others: bool) -> bool:
    """Whether to call the same provider again; `others`: whether others may answer instead."""
    return error.code in _AGAIN and not (others and error.code in _AT_ONCE_ELSEWHERE)


def cools_down(error: OzzieError) -> bool:
    """Whether the provider would probably fail the next request, too."""
    if isinstance(error, ModelError) and error.streamed:
        return False
    return error.code.startswith("provider.") and error.code not in _STRONGER | _NONE


MAX_WAIT_S = 60.0
"""A longer pause that a provider asks for is not waited for: the turn ends with an error, and nothing is lost."""
JITTER = 0.2
"""The largest share by which a pause is stretched, so that turns that failed together do not return together."""


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """`max_attempts`: how often a request is sent to one provider. The pause before the second is `backoff_s`, and
    doubles each time. `cool_down_s`: how long a provider that failed is tried last."""

    max_attempts: int = 3
    backoff_s: float = 0.5
    cool_down_s: float = 30.0


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """The provider to call now, after how many seconds, and why, in words; `number` counts from 1 over the whole
    request. `instead_of` names the wanted provider if this is another one."""

    choice: ModelChoice
    number: int
    wait_s: float = 0.0
    why: str = ""
    instead_of: str = ""


class Attempts:
    """The state of one request. Call `first`, then `after` with each failure until it gives None."""

    def __init__(
        self, chain: Chain, policy: RetryPolicy, health: Health, *, luck: Callable[[], float] = random.random
    ) -> None:
        self._policy = policy
        self._health = health
        self._luck = luck
        self._wanted = chain.wanted or chain.first.provider
        # Providers that are cooling down come last, but are tried if no other is left.
        self._left = sorted(chain.choices, key=lambda choice: health.cooling(choice.provider) is not None)
        self._stronger = list(chain.stronger)
        self._tries = 0
        self._worker_died = False
        self._failures: list[tuple[ModelChoice, OzzieError]] = []
        self._now = Attempt(choice=chain.first, number=0)

    def first(self) -> Attempt:
        choice = self._left.pop(0)
        busy_s = self._health.busy_s(choice.provider) * (1 + JITTER * self._luck())
        if 0 < busy_s <= MAX_WAIT_S:
            return self._ask(choice, wait_s=busy_s, why=f'"{choice.label}" is busy: waiting {_seconds(busy_s)}')
        return self._ask(choice)

    def answered(self) -> None:
        """Note that the latest attempt was answered."""
        self._health.answered(self._now.choice.provider)

    def is_asked_again(self, error: OzzieError) -> bool:
        """Whether the call that failed with `error` is made once more although its answer had begun."""
        return worker_died_midway(error) and not self._worker_died

    def after(self, error: OzzieError) -> Attempt | None:
        """Return the next attempt after the latest one failed with `error`; None to give up. Failing providers are
        noted in `health` as the caller goes on to others."""
        choice = self._now.choice
        self._failures.append((choice, error))
        if self.is_asked_again(error):
            self._worker_died = True
            return self._ask(choice, why="a worker ended in the middle of the answer: asking again")
        remedy = remedy_of(error)
        if retry_after_s := _retry_after_s(error):
            # Other turns wait, too.
            self._health.failed(choice.provider, error.code, for_s=retry_after_s, requested=True)
        if remedy == "again" and is_worth_retrying(error, others=bool(self._left)):
            pause = self._pause(error)
            tries = min(2, self._policy.max_attempts) if self._left else self._policy.max_attempts
            if self._tries < tries and pause <= MAX_WAIT_S:
                return self._ask(choice, wait_s=pause, why=f"trying again in {_seconds(pause)}: {error}")
        if cools_down(error) and not retry_after_s:
            self._health.failed(choice.provider, error.code, for_s=self._policy.cool_down_s)
        if remedy == "none":
            return None
        if remedy == "stronger":
            tried = {each.provider for each, _ in self._failures}
            stronger = (each for each in self._stronger if each.provider not in tried)
            self._left = list(dict.fromkeys((*stronger, *self._left)))
            self._stronger = []
        if not self._left:
            return None
        following = self._left.pop(0)
        return self._ask(following, why=f'asking "{following.label}": {error}')

    def again(self, why: str) -> Attempt:
        """Return an attempt that calls the latest provider again at once, with a changed request."""
        return self._ask(self._now.choice, why=why)

    def outcome(self, error: OzzieError) -> OzzieError:
        """Return the error to end with: that of the wanted model, or else of the first one, followed by the failures of
        its substitutes. `error` itself if there were none."""
        others = {choice.provider: (choice, failed) for choice, failed in self._failures}
        if len(others) < 2 or remedy_of(error) == "none":
            return error
        (_, first), *rest = sorted(others.values(), key=lambda each: each[0].provider != self._wanted)
        # A failure of Ozzie's own worker is reported once.
        also = [
            f'"{choice.label}", asked in its place: {failed}' for choice, failed in rest if str(failed) != str(first)
        ]
        message = " ".join([str(first), *also])
        if not isinstance(first, ModelError):
            return Unavailable(message, hint=first.hint, code=first.code)
        detail = "\n".join(
            f"{choice.label}: {failed.detail}"
            for choice, failed in others.values()
            if isinstance(failed, ModelError) and failed.detail
        )
        code = cast(ModelErrorCode, first.code)
        return ModelError(message, hint=first.hint, code=code, detail=detail)

    def _ask(self, choice: ModelChoice, *, wait_s: float = 0.0, why: str = "") -> Attempt:
        self._tries = self._tries + 1 if choice is self._now.choice and self._now.number else 1
        self._now = Attempt(
            choice=choice,
            number=self._now.number + 1,
            wait_s=wait_s,
            why=why,
            instead_of="" if choice.provider == self._wanted else self._wanted,
        )
        return self._now

    def _pause(self, error: OzzieError) -> float:
        """Return an exponential pause with jitter, never shorter than the provider asks for."""
        pause = self._policy.backoff_s * 2 ** (self._tries - 1) * (1 + JITTER * self._luck())
        return max(pause, _retry_after_s(error))


def _retry_after_s(error: OzzieError) -> float:
    """Return how long the provider asks to wait; 0 if it does not say."""
    return error.after_s or 0.0 if isinstance(error, ModelError) else 0.0


def _seconds(seconds: float) -> str:
    return f"{max(1, round(seconds))} s"
