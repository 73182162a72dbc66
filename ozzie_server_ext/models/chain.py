"""Who answers a request: models in the order in which they are asked, and what to try after a failure."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.models.driver import ModelChoice, ModelError, ModelErrorCode


@dataclass(frozen=True, slots=True)
class Chain:
    """`choices`, never empty, are asked one after the other while none can answer. `stronger` are asked, before what is
    left of them, where a model is not up to the request. `wanted` is the provider that stood first when nothing was
    missing: who answers in its place says so."""

    choices: tuple[ModelChoice, ...]
    stronger: tuple[ModelChoice, ...] = ()
    wanted: str = ""

    def __post_init__(self) -> None:
        if not self.choices:
            raise ValueError("a chain has a first model")

    def seeing(self) -> "Chain | None":
        """Those of them that can be shown pictures; None where none can."""
        choices = tuple(choice for choice in self.choices if choice.sees)
        stronger = tuple(choice for choice in self.stronger if choice.sees)
        return Chain(choices, stronger, self.wanted or self.first.provider) if choices else None

    @property
    def first(self) -> ModelChoice:
        return self.choices[0]


MAX_COOL_DOWN_S = 3600.0


@dataclass(frozen=True, slots=True)
class CoolDown:
    """Until when, in monotonic seconds, a provider is asked last, and the code of the failure that told so. `told`: the
    provider itself has asked for that pause."""

    until: float
    code: str
    told: bool


class Health:
    """The cool-downs of all turns of this gateway. They are kept in memory: a new gateway asks everybody again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._cooling: dict[str, CoolDown] = {}

    def failed(self, provider: str, code: str, *, for_s: float, told: bool = False) -> None:
        """Ask it last for so many seconds. What it was asked to wait before is never cut short."""
        until = self._clock.monotonic() + min(for_s, MAX_COOL_DOWN_S)
        before = self.cooling(provider)
        if before is None or before.until < until:
            self._cooling[provider] = CoolDown(until, code, told)

    def answered(self, provider: str) -> None:
        self._cooling.pop(provider, None)

    def cooling(self, provider: str) -> CoolDown | None:
        """Its cool-down; None where it may be asked."""
        found = self._cooling.get(provider)
        if found is not None and found.until <= self._clock.monotonic():
            del self._cooling[provider]
            return None
        return found

    def cooling_s(self, provider: str) -> float:
        """Seconds until its cool-down ends; 0 where it may be asked."""
        found = self.cooling(provider)
        return 0.0 if found is None else found.until - self._clock.monotonic()

    def busy_s(self, provider: str) -> float:
        """Seconds for which it has asked to be left alone; 0 where it has not."""
        found = self.cooling(provider)
        return self.cooling_s(provider) if found is not None and found.told else 0.0

    def forget(self) -> None:
        """The configuration or a key has changed: what failed before may work now."""
        self._cooling.clear()


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


MAX_WAIT_S = 60.0
"""A provider that asks for a longer pause is not waited for: the turn ends in words, and nothing is lost."""
JITTER = 0.2
"""By what share a pause is stretched at the most, so that turns that failed together do not come back together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """`max_attempts`: how often a request is sent to one provider at the most. The pause before the second is
    `backoff_s`, and doubles with each further one. `cool_down_s`: how long a provider that failed is asked last."""

    max_attempts: int = 3
    backoff_s: float = 0.5
    cool_down_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Whom to ask now, after how many seconds, and why, in words; `number` counts from 1 over the whole request.
    `instead_of` names the provider that would have been asked, empty where it is."""

    choice: ModelChoice
    number: int
    wait_s: float = 0.0
    why: str = ""
    instead_of: str = ""


class Attempts:
    """The state of one request. Call `first`, then `after` with each failure until it gives None."""

    def __init__(
        self,
        chain: Chain,
        policy: RetryPolicy,
        health: Health,
        *,
        luck: Callable[[], float] = random.random,
    ) -> None:
        self._policy = policy
        self._health = health
        self._luck = luck
        self._wanted = chain.wanted or chain.first.provider
        # Who is cooling down is asked after everybody else, and asked all the same where nobody else is left.
        self._left = sorted(chain.choices, key=lambda choice: health.cooling(choice.provider) is not None)
        self._stronger = list(chain.stronger)
        self._tries = 0
        self._failures: list[tuple[ModelChoice, OzzieError]] = []
        self._now = Attempt(choice=chain.first, number=0)

    def first(self) -> Attempt:
        choice = self._left.pop(0)
        busy_s = self._health.busy_s(choice.provider) * (1 + JITTER * self._luck())
        if 0 < busy_s <= MAX_WAIT_S:
            return self._ask(choice, wait_s=busy_s, why=f'"{choice.said}" is busy: waiting {_seconds(busy_s)}')
        return self._ask(choice)

    def answered(self) -> None:
        """The attempt that was made last has come to an answer."""
        self._health.answered(self._now.choice.provider)

    def after(self, error: OzzieError) -> Attempt | None:
        """What to do after the attempt that was made last has failed; None where `error` is the end.

        The providers that fail are remembered in `health` as the caller goes on to others.
        """
        choice = self._now.choice
        self._failures.append((choice, error))
        remedy = remedy_of(error)
        if told_s := _told_s(error):
            self._health.failed(choice.provider, error.code, for_s=told_s, told=True)  # the other turns wait, too
        if remedy == "again" and is_worth_waiting_for(error, others=bool(self._left)):
            pause = self._pause(error)
            tries = min(2, self._policy.max_attempts) if self._left else self._policy.max_attempts
            if self._tries < tries and pause <= MAX_WAIT_S:
                return self._ask(choice, wait_s=pause, why=f"trying again in {_seconds(pause)}: {error}")
        if cools_down(error) and not told_s:
            self._health.failed(choice.provider, error.code, for_s=self._policy.cool_down_s)
        if remedy == "none":
            return None
        if remedy == "stronger":
            asked = {asked.provider for asked, _ in self._failures}
            stronger = (each for each in self._stronger if each.provider not in asked)
            self._left = list(dict.fromkeys((*stronger, *self._left)))
            self._stronger = []
        if not self._left:
            return None
        following = self._left.pop(0)
        return self._ask(following, why=f'asking "{following.said}": {error}')

    def anew(self, why: str) -> Attempt:
        """The one that was asked last is asked again at once, otherwise."""
        return self._ask(self._now.choice, why=why)

    def outcome(self, error: OzzieError) -> OzzieError:
        """The error to end with: that of the model which was wanted, or else of the first that was asked, and what
        became of each that was to stand in for it. `error` itself where nobody else was asked."""
        others = {choice.provider: (choice, failed) for choice, failed in self._failures}
        if len(others) < 2 or remedy_of(error) == "none":
            return error
        (_, first), *rest = sorted(others.values(), key=lambda each: each[0].provider != self._wanted)
        # What is wrong with Ozzie's own worker is said once.
        also = [
            f'"{choice.said}", asked in its place: {failed}' for choice, failed in rest if str(failed) != str(first)
        ]
        told = " ".join([str(first), *also])
        if not isinstance(first, ModelError):
            return Unavailable(told, hint=first.hint, code=first.code)
        detail = "\n".join(
            f"{choice.said}: {failed.detail}"
            for choice, failed in others.values()
            if isinstance(failed, ModelError) and failed.detail
        )
        code = cast(ModelErrorCode, first.code)
        return ModelError(told, hint=first.hint, code=code, retryable=first.retryable, detail=detail)

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
        """Exponential, with jitter, and never shorter than the provider asks for."""
        pause = self._policy.backoff_s * 2 ** (self._tries - 1) * (1 + JITTER * self._luck())
        return max(pause, _told_s(error))


def _told_s(error: OzzieError) -> float:
    """How long the provider asks to wait; 0 where it does not say."""
    return error.after_s or 0.0 if isinstance(error, ModelError) else 0.0


def _seconds(seconds: float) -> str:
    return f"{max(1, round(seconds))} s"
