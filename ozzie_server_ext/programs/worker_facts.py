"""What litellm's own table says of a model. Imported in the worker only, as `worker_litellm` is."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import litellm

from ozzie_server_ext.domain.usage import NANO_USD_PER_USD, PRICED_TOKENS
from ozzie_server_ext.protocol.worker import ModelFacts, ModelName

_DEFAULT_TAG = ":latest"


def facts_of(name: ModelName) -> ModelFacts:
    """What the table says. What it leaves out is unknown: it names the abilities of most models, and lacks of few."""
    entry = entry_of(name)
    if entry is None:
        return ModelFacts()
    return ModelFacts(
        context=_count(entry.get("max_input_tokens")),
        max_output=_count(entry.get("max_output_tokens")),
        tools=_ability(entry.get("supports_function_calling")),
        parallel_tools=_ability(entry.get("supports_parallel_function_calling")),
        images=_ability(entry.get("supports_vision")),
        structured=_ability(entry.get("supports_response_schema")),
        reasoning=_ability(entry.get("supports_reasoning")),
        price_in=_price(entry.get("input_cost_per_token")),
        price_out=_price(entry.get("output_cost_per_token")),
    )


def entry_of(name: ModelName) -> Mapping[str, Any] | None:
    """The table's entry of the driver's own model. The same name at another provider is another model."""
    model = name.model
    if name.driver == "ollama":
        model = model.removesuffix(_DEFAULT_TAG)
    for listed in (f"{name.driver}/{model}", model):
        entry: Any = litellm.model_cost.get(listed)
        if entry and entry.get("litellm_provider") == name.driver:
            return entry
    return None


def _count(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None


def _ability(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _price(value: Any) -> int | None:
    """USD for a token, as the table has it, in 1e-9 USD for a million."""
    if type(value) not in (int, float) or value < 0:
        return None
    # By its shortest decimal form: the binary fraction of 1.5e-7 is not what anybody wrote into the table.
    return round(Decimal(str(value)) * PRICED_TOKENS * NANO_USD_PER_USD)
