"""`ozzie models`: what a selector chooses and why, and what models used."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fakes.openai_server import FakeOpenAI
from tests.rig import Gateway, GatewayHome, new_home, ozzie, start_gateway
from tests.warm import cold

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


# --- one model in full --------------------------------------------------------------------------------


def test_a_model_is_shown_in_full(home: GatewayHome, fake_openai: FakeOpenAI) -> None:
    entry = {
        "driver": "openai",
        "model": "echo",
        "base_url": fake_openai.base_url,
        "tags": {"security": 4},
        "capabilities": {"context": 32000, "tools": False, "price_in": "0.15", "price_out": 0.6},
    }
    home.configure({"models": {"providers": {"echo": entry}}})
    with start_gateway(home):
        before = ozzie(home, "models", "show", "echo").stdout
        ozzie(home, "ask", "hello big world", "--session", "one")
        shown = ozzie(home, "models", "show", "echo").stdout
        found = json.loads(ozzie(home, "models", "show", "echo", "--json").stdout)
        listed = ozzie(home, "models", "list").stdout
        unknown = ozzie(home, "models", "show", "nonesuch")

    facts = {line[:19].strip(): " ".join(line[19:].split()) for line in shown.splitlines() if line.startswith("  ")}
    assert shown.startswith("echo, the default\n")
    assert facts["Stands for"] == f"openai/echo at {fake_openai.url}"
    assert facts["Tags"] == "security 4"
    assert facts["Last call"] == "answered just now"
    assert facts["Context"] == "32,000 tokens configuration"
    assert facts["Tools"] == "no configuration"
    assert facts["Price in"] == "$0.15 for a million tokens configuration"
    assert facts["Images"] == "unknown"
    assert facts["In all"] == facts["Today"]
    assert facts["Today"].startswith("1 call, ")
    assert "none lately" in before
    assert "no calls" in before

    usage = found["total"]
    reckoned = -(-(usage["input_tokens"] * 150_000_000 + usage["output_tokens"] * 600_000_000) // 1_000_000)
    assert usage["cost"] == reckoned > 0
    assert found["capabilities"]["price_out"] == {"value": 600_000_000, "source": "configuration"}
    assert "answered just now" in listed
    assert not fake_openai.requests[0].body.get("tools"), "It is said to take none."
    assert unknown.returncode != 0
    assert 'There is no model "nonesuch".' in unknown.stderr


# --- usage --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One whose model was asked twice and the offline script once, in two sessions."""
    home = new_home(tmp_path_factory.mktemp("used"))
    with FakeOpenAI() as provider:
        home.use_provider(provider.url, "echo")
        with ExitStack() as stack:
            with cold():  # its worker is looked for among its children
                gateway = stack.enter_context(start_gateway(home))
            nothing = ozzie(home, "models", "usage")
            assert (nothing.returncode, nothing.stdout) == (0, "No model was called in this time.\n")
            assert ozzie(home, "ask", "hello", "--session", "one").returncode == 0
            assert ozzie(home, "ask", "hello", "--session", "two").returncode == 0
            assert ozzie(home, "ask", "hello", "--session", "two", "--model", "offline").returncode == 0
            yield gateway


def test_what_models_used_is_summed_by_model_and_by_session(used: Gateway) -> None:
    by_model = ozzie(used.home, "models", "usage").stdout.splitlines()
    by_session = json.loads(ozzie(used.home, "models", "usage", "--by", "session", "--json").stdout)
    of_one = ozzie(used.home, "models", "usage", "--session", "one").stdout.splitlines()
    before = ozzie(used.home, "models", "usage", "--until", "2020-01-01").stdout

    assert sorted(line.split("  ")[0] for line in by_model) == ["all", "echo", "offline"]
    (everything,) = (line for line in by_model if line.startswith("all"))
    assert " 3 calls " in everything
    assert everything.endswith("2 calls of unknown price"), "what nobody knows is not shown as nothing"
    (offline,) = (line for line in by_model if line.startswith("offline"))
    assert "unknown" not in offline
    assert sorted(usage["calls"] for usage in by_session["items"]) == [1, 2]
    assert [line.split()[0] for line in of_one] == ["echo", "all"]
    assert before == "No model was called in this time.\n"


def test_status_shows_the_worker_that_asked(used: Gateway) -> None:
    said = ozzie(used.home, "status").stdout
    (worker,) = json.loads(ozzie(used.home, "status", "--json").stdout)["workers"]

    assert (worker["ready"], worker["calls"]) == (True, 0)
    assert worker["pid"] in [child.pid for child in psutil.Process(used.process.pid).children()]
    assert re.search(rf"^  worker   process {worker['pid']}, 0 calls, \d+% of a core$", said, re.MULTILINE), said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--by", "planet"), "choose from"),
        (("--since", "yesterday"), "since must be a day such as 2026-01-31"),
        (("--limit", "0"), "limit must be a number from 1 on."),
        (("--session", "nonesuch"), 'There is no session "nonesuch".'),
    ],
)
def test_what_usage_can_not_take_is_refused_in_words(gateway: Gateway, arguments: tuple[str, ...], said: str) -> None:
    done = ozzie(gateway.home, "models", "usage", *arguments)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr
