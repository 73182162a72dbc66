"""One request's way along a chain: whom to ask first, and whom after each failure (MD-4)."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.models.chain import Chain
from ozzie_server_ext.models.driver import ModelChoice, ModelError, ModelErrorCode
from ozzie_server_ext.models.health import Health
from ozzie_server_ext.models.remedies import cools_down, is_worth_waiting_for, remedy_of

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
