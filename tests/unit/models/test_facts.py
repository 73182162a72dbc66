"""What is known of a model, and who says so."""

import pytest

from ozzie_server_ext.config.settings import CapabilitySettings
from ozzie_server_ext.models.facts import Ability, Amount, Capabilities, capabilities
from ozzie_server_ext.protocol.worker import ModelFacts

LISTED = ModelFacts(context=128_000, tools=True, images=False, price_in=150_000_000, price_out=600_000_000)


def test_what_nobody_says_is_unknown_and_no_zero() -> None:
    found = capabilities(CapabilitySettings(), None, None)

    assert found == Capabilities()
    assert found.price_in == Amount(value=None, source="unknown")
    assert found.tools == Ability(value=None, source="unknown")


def test_the_table_counts_where_the_configuration_says_nothing() -> None:
    found = capabilities(CapabilitySettings(), None, LISTED)

    assert found.context == Amount(value=128_000, source="litellm")
    assert found.images == Ability(value=False, source="litellm")
    assert found.max_output.source == "unknown"


def test_the_configuration_goes_before_the_table_fact_by_fact() -> None:
    said = CapabilitySettings.model_validate(
        {"context": 32_000, "tools": False, "images": True, "price_in": "0", "price_out": "0.5"}
    )
    found = capabilities(said, ModelFacts(tools=True, images=False), LISTED)

    assert found.context == Amount(value=32_000, source="configuration")
    assert found.tools == Ability(value=False, source="configuration")
    assert found.images == Ability(value=True, source="configuration")
    assert found.price_in == Amount(value=0, source="configuration")
    assert found.price_out == Amount(value=500_000_000, source="configuration")
    assert found.reasoning.source == "unknown"


@pytest.mark.parametrize(("tools", "takes"), [(True, True), (None, True), (False, False)])
def test_a_model_is_kept_from_tools_only_where_it_is_known_to_take_none(tools: bool | None, takes: bool) -> None:
    assert capabilities(CapabilitySettings(), None, ModelFacts(tools=tools)).takes_tools is takes


def test_what_an_ollama_says_of_its_own_model_goes_before_the_table() -> None:
    found = capabilities(CapabilitySettings(), ModelFacts(tools=False), LISTED)

    assert found.tools == Ability(value=False, source="Ollama")
    assert found.context == Amount(value=128_000, source="litellm")
