"""What is known of a model: what the configuration says, else its Ollama, else litellm's table, else nothing (MD-1)."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from ozzie_server_ext.config.settings import CapabilitySettings
from ozzie_server_ext.domain.usage import TokenPrices
from ozzie_server_ext.protocol.worker import ModelFacts

T = TypeVar("T")

FactSource: TypeAlias = Literal["configuration", "Ollama", "litellm", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A number, and who says so; None where nobody does."""

    value: int | None = None
    source: FactSource = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ability:
    """Whether a model can do something, and who says so; None where nobody does, which is not the same as false."""

    value: bool | None = None
    source: FactSource = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Each fact with its source. `context` and `max_output` in tokens, of the conversation and of one answer; the
    prices in 1e-9 USD for a million tokens."""

    context: Amount = Amount()
    max_output: Amount = Amount()
    tools: Ability = Ability()
    parallel_tools: Ability = Ability()
    images: Ability = Ability()
    structured: Ability = Ability()
    reasoning: Ability = Ability()
    price_in: Amount = Amount()
    price_out: Amount = Amount()

    @property
    def prices(self) -> TokenPrices | None:
        """Both, or None."""
        if self.price_in.value is None or self.price_out.value is None:
            return None
        return TokenPrices(read=self.price_in.value, written=self.price_out.value)

    @property
    def takes_tools(self) -> bool:
        """Whether it may be offered tools: where nobody knows, it is, and may refuse them itself."""
        return self.tools.value is not False


def capabilities(said: CapabilitySettings, ollama: ModelFacts | None, listed: ModelFacts | None) -> Capabilities:
    """`said` is the configuration's part, `ollama` what an Ollama tells of its model, `listed` what litellm's table
    has; None where it was not asked. Who comes first goes before the others, fact by fact."""
    told, listed = ollama or ModelFacts(), listed or ModelFacts()
    prices = said.prices

    def amount(own: int | None, from_ollama: int | None, from_table: int | None) -> Amount:
        source = _source(own, from_ollama, from_table)
        return Amount(value=_first(own, from_ollama, from_table), source=source)

    def ability(own: bool | None, from_ollama: bool | None, from_table: bool | None) -> Ability:
        source = _source(own, from_ollama, from_table)
        return Ability(value=_first(own, from_ollama, from_table), source=source)

    return Capabilities(
        context=amount(said.context, told.context, listed.context),
        max_output=amount(said.max_output, told.max_output, listed.max_output),
        tools=ability(said.tools, told.tools, listed.tools),
        parallel_tools=ability(said.parallel_tools, told.parallel_tools, listed.parallel_tools),
        images=ability(said.images, told.images, listed.images),
        structured=ability(said.structured, told.structured, listed.structured),
        reasoning=ability(said.reasoning, told.reasoning, listed.reasoning),
        price_in=amount(prices.read if prices else None, told.price_in, listed.price_in),
        price_out=amount(prices.written if prices else None, told.price_out, listed.price_out),
    )


def _first(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)


def _source(own: int | None, from_ollama: int | None, from_table: int | None) -> FactSource:
    if own is not None:
        return "configuration"
    if from_ollama is not None:
        return "Ollama"
    return "unknown" if from_table is None else "litellm"
