"""What a model call used. Money is an integer of 1e-9 USD (DESIGN §8); an unknown price is None, never zero."""

from dataclasses import dataclass

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
