"""Budgets of money (1e-9 USD), tokens and time (ms), and how a model call counts against them."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

NANO_USD_PER_USD = 1_000_000_000
PRICED_TOKENS = 1_000_000
"""The number of tokens that a price is for. Today's price of one token is less than 1e-9 USD."""


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
    """The price of a million tokens in 1e-9 USD: `read` for input, `written` for output."""

    read: int
    written: int

    @property
    def are_nothing(self) -> bool:
        return self.read == self.written == 0

    def cost(self, usage: Usage) -> int:
        """Return the cost in 1e-9 USD, rounded up so that it is 0 only if it is free."""
        return -(-(usage.input_tokens * self.read + usage.output_tokens * self.written) // PRICED_TOKENS)


Scope: TypeAlias = Literal["task", "session", "project", "day"]
"""The scope of a budget, from the narrowest to the widest."""
Measure: TypeAlias = Literal["cost", "tokens", "time"]
OnBreach: TypeAlias = Literal["ask", "degrade", "stop"]

BYTES_A_TOKEN = 3
"""The estimate for a request that no provider has counted. Code has about so many bytes per token, English more, so
most requests are overestimated."""
UNKNOWN_OUTPUT = 4096
"""The assumed limit of an answer in tokens if none is known. If a budget applies, the model is given it as a limit."""
SHORTEST_ANSWER = 1024
"""Tokens. If a budget has room for fewer, the model is not called: its answer would be cut off."""


class Account(NamedTuple):
    """The key of one budget's sum: a task, a session, a project's folder, or a day (YYYY-MM-DD)."""

    scope: Scope
    key: str


class Spending(NamedTuple):
    """An amount used or reserved. An unknown price adds nothing to `cost`; its tokens count."""

    cost: int = 0
    tokens: int = 0

    def plus(self, other: "Spending") -> "Spending":
        return Spending(self.cost + other.cost, self.tokens + other.tokens)

    def minus(self, other: "Spending") -> "Spending":
        return Spending(self.cost - other.cost, self.tokens - other.tokens)


NOTHING = Spending()


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of one account; None means no limit. `skill` is the one that the account's task runs, `skill_bounds`
    the limits that its file sets; `is_part`: the task was delegated by another one, which goes on without it."""

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
    """The most that a call is expected to use, in tokens. `prices` is None if unknown; `is_guess`: the limit of the
    answer's length is unknown."""

    read: int
    written: int
    prices: TokenPrices | None
    is_guess: bool = False

    @property
    def shortest(self) -> int:
        """The minimum length of the answer that a budget must have room for."""
        return min(self.written, SHORTEST_ANSWER)

    def spending(self, written: int | None = None) -> Spending:
        """Return the most that is used, with `written` tokens of answer instead of the model's own limit."""
        tokens = self.read + (self.written if written is None else written)
        return Spending(self.cost(written) or 0, tokens)

    def cost(self, written: int | None = None) -> int | None:
        if self.prices is None:
            return None
        answer = self.written if written is None else written
        return -(-(self.read * self.prices.read + answer * self.prices.written) // PRICED_TOKENS)

    def affordable(self, *, cost: int | None, tokens: int | None) -> int:
        """Return how many tokens of answer, up to those needed, these amounts pay for; None means unlimited. Negative
        if they don't even pay for the request."""
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
    """Estimate the number of tokens of a request."""
    return tokens_of(len(document))


def tokens_of(size: int) -> int:
    """Estimate the number of tokens of so many bytes."""
    return -(-size // BYTES_A_TOKEN)
