"""Budgets: what models may use up of money, tokens and time, and how a call counts against them.

Amounts of money are 1e-9 USD, of time milliseconds.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

NANO_USD_PER_USD = 1_000_000_000
PRICED_TOKENS = 1_000_000
"""So many tokens a price is for. For one token, prices of today would be no whole number of 1e-9 USD."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call, as the provider counted them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrices:
    """What a million tokens cost, in 1e-9 USD: `read` those of the conversation, `written` those of the answer."""

    read: int
    written: int

    @property
    def are_nothing(self) -> bool:
        return self.read == self.written == 0

    def cost(self, usage: Usage) -> int:
        """In 1e-9 USD, rounded up: what costs something never reads as nothing."""
        return -(-(usage.input_tokens * self.read + usage.output_tokens * self.written) // PRICED_TOKENS)


Scope: TypeAlias = Literal["task", "session", "project", "day"]
"""What a budget is for, from the narrowest to the widest."""
Measure: TypeAlias = Literal["cost", "tokens", "time"]
OnBreach: TypeAlias = Literal["ask", "degrade", "stop"]

BYTES_A_TOKEN = 3
"""Of a request not yet counted by anybody. Prose in English has more bytes to a token and code about so many, so it
takes most requests for larger than they are."""
UNKNOWN_OUTPUT = 4096
"""Tokens of an answer where nobody knows how long one may become. Where a budget is at stake, the model is told so."""
SHORTEST_ANSWER = 1024
"""Tokens. With room for fewer in a budget, a model is not asked: its answer would break off."""


class Account(NamedTuple):
    """One budget's own sum: that of a task, of a session, of a project's folder, of a day (YYYY-MM-DD)."""

    scope: Scope
    key: str


class Spending(NamedTuple):
    """What was used up, or may be. An unknown price adds nothing to `cost`; its tokens count."""

    cost: int = 0
    tokens: int = 0

    def plus(self, other: "Spending") -> "Spending":
        return Spending(self.cost + other.cost, self.tokens + other.tokens)

    def minus(self, other: "Spending") -> "Spending":
        return Spending(self.cost - other.cost, self.tokens - other.tokens)


NOTHING = Spending()


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one account may use up at the most; None means no limit. `skill` is the one that the account's task runs,
    and `skill_bounds` are the limits that its file sets; `is_part`: that task is part of another one, which goes on
    without it."""

    account: Account
    cost: int | None = None
    tokens: int | None = None
    on_breach: OnBreach = "ask"
    skill: str = ""
    skill_bounds: tuple[Measure, ...] = ()
    is_part: bool = False

    @property
    def is_limited(self) -> bool:
        return self.cost is not None or self.tokens is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The most that a call is expected to take, in tokens; `prices` None where they are unknown. `is_guess`: nobody
    knows how long the answer may become."""

    read: int
    written: int
    prices: TokenPrices | None
    is_guess: bool = False

    @property
    def shortest(self) -> int:
        """How long the answer must be allowed to become, or it is not asked for."""
        return min(self.written, SHORTEST_ANSWER)

    def spending(self, written: int | None = None) -> Spending:
        """With so many tokens of answer at the most, in the place of the model's own limit."""
        tokens = self.read + (self.written if written is None else written)
        return Spending(self.cost(written) or 0, tokens)

    def cost(self, written: int | None = None) -> int | None:
        if self.prices is None:
            return None
        answer = self.written if written is None else written
        return -(-(self.read * self.prices.read + answer * self.prices.written) // PRICED_TOKENS)

    def affordable(self, *, cost: int | None, tokens: int | None) -> int:
        """How many tokens of an answer so much pays for, up to those that are needed; negative where it does not even
        pay for the request. None pays for everything."""
        written = self.written
        if tokens is not None:
            written = min(written, tokens - self.read)
        if cost is not None and self.prices is not None and not self.prices.are_nothing:
            left = cost * PRICED_TOKENS - self.read * self.prices.read
            if left < 0:
                return -1
            if self.prices.written:
                written = min(written, left // self.prices.written)
        return written


def tokens_in(document: bytes) -> int:
    """About how many tokens a request has."""
    return -(-len(document) // BYTES_A_TOKEN)
