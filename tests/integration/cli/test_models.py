"""`ozzie models resolve`: the choice, its reasons, and what is no selector."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_record import ozzie
from tests.rig import Gateway, new_home, start_gateway

S0 = Path(__file__).parents[2] / "unit" / "config" / "examples" / "s0_models.jsonc"
COMPLIANCE = {
    "required": [
        {"key": "security", "op": "Gte", "value": 4},
        {"key": "capability", "op": "In", "values": ["compliance", "general"]},
    ],
    "preferred": [{"key": "capability", "op": "Eq", "value": "compliance"}],
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One with S0's models, whose keys it does not need: nothing is asked of them."""
    home = new_home(tmp_path_factory.mktemp("models"))
    (home.home / "config.jsonc").write_text(S0.read_text())
    with start_gateway(home) as gateway:
        yield gateway


def resolve(gateway: Gateway, selector: Any, *options: str) -> "subprocess.CompletedProcess[str]":
    text = selector if isinstance(selector, str) else json.dumps(selector)
    return ozzie(gateway.home, "models", "resolve", "--selector", text, *options)


def test_the_chosen_model_is_printed(gateway: Gateway) -> None:
    done = resolve(gateway, COMPLIANCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "compliance-ft  openai/compliance-finetuned-v3\n", "")


def test_how_each_model_fared_is_explained(gateway: Gateway) -> None:
    lines = resolve(gateway, COMPLIANCE, "--explain").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [
        "sonnet",
        "haiku",
        "gemini-pro",
        "gpt4",
        "infomaniak-llm",
        "local-llama",
        "*",
        "compliance-ft",
    ]
    assert lines[0].endswith("not security >= 4: its security is 2")
    assert lines[5].endswith("fits, 0 of 1 preferred")
    assert lines[6].startswith("* compliance-ft")
    assert lines[6].endswith("fits, 1 of 1 preferred: capability == compliance")


def test_the_resolution_as_json_holds_the_whole_reckoning(gateway: Gateway) -> None:
    found = json.loads(resolve(gateway, COMPLIANCE, "--json").stdout)
    assert (found["chosen"], found["model"]) == ("compliance-ft", "openai/compliance-finetuned-v3")
    assert [model["name"] for model in found["weighed"] if model["fits"]] == ["local-llama", "compliance-ft"]
    gpt4 = next(model for model in found["weighed"] if model["name"] == "gpt4")
    assert gpt4["failed"] == [{"constraint": "security >= 4", "reason": "its security is 0"}]


def test_where_no_model_fits_the_constraint_is_named(gateway: Gateway) -> None:
    selector = {"required": [{"key": "jurisdiction", "op": "Eq", "value": "french"}]}
    done = resolve(gateway, selector)
    assert done.returncode == 1
    assert (done.stdout, done.stderr) == ("", "No configured model meets jurisdiction == french.\n")
    assert json.loads(resolve(gateway, selector, "--json").stdout)["chosen"] is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"required": [{"key": "a", "op": "Gte", "value": "x"}]}', "required[0].value: must be a number."),
        ('{"required": [', "selector, line 1, column 15"),
        ("[]", "selector: "),
        ("security>=3", "selector, line 1, column 1"),
    ],
)
def test_what_is_no_selector_is_refused_with_its_place(gateway: Gateway, text: str, said: str) -> None:
    done = resolve(gateway, text)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
