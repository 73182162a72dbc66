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
from ozzie_server_ext.domain.usage import Usage
from ozzie_server_ext.programs.worker_failures import error_event
from ozzie_server_ext.programs.worker_litellm import price
from ozzie_server_ext.protocol.worker import Provider

usage = Usage(input_tokens=1_000_000, output_tokens=1_000_000, cached_tokens=0)
provider = Provider(driver="openai", api_key="sk-mine-123456")
print(json.dumps({
    "known": price(Provider(driver="openai"), "gpt-4o-mini", usage),
    "anthropic": price(Provider(driver="anthropic"), "claude-haiku-4-5-20251001", usage),
    "unknown": price(Provider(driver="openai"), "no-such-model", usage),
    "elsewhere": price(Provider(driver="openai", base_url="http://x/v1"), "gpt-4o-mini", usage),
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


@pytest.mark.parametrize("case", ["unknown", "elsewhere"])
def test_what_the_list_does_not_know_has_no_price_rather_than_none_to_pay(facts: dict[str, Any], case: str) -> None:
    assert facts[case] is None


def test_an_error_that_nobody_foresaw_is_one_of_the_provider(facts: dict[str, Any]) -> None:
    assert facts["plain"] == "provider.server"
