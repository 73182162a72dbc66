"""What the worker takes from litellm beside the stream: prices and the words of errors. In a process of its own."""

import json
import subprocess
import sys
from typing import Any

import pytest

PROBE = """
import json, os
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["LITELLM_MODE"] = "PRODUCTION"
import litellm
from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.programs.worker_litellm import facts_of
from ozzie_server_ext.programs.worker_failures import error_event
from ozzie_server_ext.programs.worker_litellm import price
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.worker import ModelName, Provider

DRIVERS = ("anthropic", "openai", "gemini", "deepseek", "ollama")
MODELS = [
    ("openai", "gpt-4o-mini"),
    ("gemini", "gemini-2.5-flash"),
    ("anthropic", "claude-sonnet-4-6"),
    ("deepseek", "deepseek-reasoner"),
    ("ollama", "llama3.1:latest"),
    ("openai", "no-such-model"),
    ("anthropic", "gpt-4o-mini"),
    ("vllm", "gpt-4o-mini"),
]

usage = Usage(input_tokens=1_000_000, output_tokens=1_000_000, cached_tokens=0)
provider = Provider(driver="openai", api_key="sk-mine-123456")
print(json.dumps({
    "known": price(Provider(driver="openai"), "gpt-4o-mini", usage),
    "anthropic": price(Provider(driver="anthropic"), "claude-haiku-4-5-20251001", usage),
    "unknown": price(Provider(driver="openai"), "no-such-model", usage),
    "elsewhere": price(Provider(driver="openai", base_url="http://x/v1"), "gpt-4o-mini", usage),
    "own": price(Provider(driver="openai", base_url="https://api.openai.com/v1"), "gpt-4o-mini", usage),
    "of_others": price(Provider(driver="anthropic"), "gpt-4o-mini", usage),
    "described": [encode(facts_of(ModelName(driver=driver, model=model))) for driver, model in MODELS],
    "listed": [name for name, entry in litellm.model_cost.items() if entry.get("litellm_provider") in DRIVERS],
    "all_described": [
        encode(facts_of(ModelName(driver=entry["litellm_provider"], model=name)))
        for name, entry in litellm.model_cost.items()
        if entry.get("litellm_provider") in DRIVERS
    ],
    "plain": error_event(ValueError("x"), provider, begun=False).code,
}))
"""


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, check=True, timeout=50)
    return json.loads(done.stdout)


def test_a_listed_model_has_its_price_in_whole_billionths_of_a_dollar(facts: dict[str, Any]) -> None:
    assert facts["known"] == 750_000_000
    assert facts["anthropic"] > 0


def test_a_providers_own_address_written_out_has_its_prices(facts: dict[str, Any]) -> None:
    assert facts["own"] == facts["known"]


@pytest.mark.parametrize("case", ["unknown", "elsewhere", "of_others"])
def test_what_the_list_does_not_know_has_no_price_rather_than_none_to_pay(facts: dict[str, Any], case: str) -> None:
    assert facts[case] is None


def test_an_error_that_nobody_foresaw_is_one_of_the_provider(facts: dict[str, Any]) -> None:
    assert facts["plain"] == "provider.server"


def test_the_table_describes_a_providers_own_models(facts: dict[str, Any]) -> None:
    mini, flash, sonnet, reasoner, llama, *_ = facts["described"]

    assert (mini["context"], mini["max_output"]) == (128_000, 16_384)
    assert (mini["price_in"], mini["price_out"]) == (150_000_000, 600_000_000)
    assert (mini["tools"], mini["parallel_tools"], mini["images"], mini["structured"]) == (True, True, True, True)
    assert (flash["context"], flash["price_in"], flash["reasoning"]) == (1_048_576, 300_000_000, True)
    assert (sonnet["tools"], sonnet["price_out"]) == (True, 15_000_000_000)
    assert reasoner["tools"] is False
    assert (llama["price_in"], llama["price_out"]) == (0, 0), "An Ollama's models cost nothing, with its usual tag too."


def test_what_the_table_leaves_out_is_unknown_and_not_false(facts: dict[str, Any]) -> None:
    mini, _, sonnet, *_ = facts["described"]

    assert mini["reasoning"] is None
    assert sonnet["parallel_tools"] is None


def test_a_name_of_another_providers_model_describes_none(facts: dict[str, Any]) -> None:
    for described in facts["described"][-3:]:
        assert set(described.values()) == {None}


def test_every_model_of_the_table_is_described_in_whole_numbers(facts: dict[str, Any]) -> None:
    assert len(facts["all_described"]) > 300
    for name, described in zip(facts["listed"], facts["all_described"], strict=True):
        for fact in ("context", "max_output", "price_in", "price_out"):
            assert described[fact] is None or type(described[fact]) is int, name
