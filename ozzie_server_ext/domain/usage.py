"""What a model call used. Money is an integer of 1e-9 USD (DESIGN §8); an unknown price is None, never zero."""

from dataclasses import dataclass

NANO_USD_PER_USD = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call, as the provider counted them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens
