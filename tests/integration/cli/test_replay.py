"""`ozzie sessions replay`: whether a session comes out as it was recorded, and what a change would do."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig import Gateway, new_home, ozzie, start_gateway

DENIES = """{"rules": [{"id": "none", "decision": "deny", "reason": "No sums.", "when": {"tools": ["calculator"]},
"examples": {"match": [{"tool": "calculator", "args": {"expr": "1"}}]}}]}"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with start_gateway(new_home(tmp_path_factory.mktemp("replays"))) as running:
        for text in ("Say hello.", "What is 2 + 3? Use the calculator."):
            ozzie(running.home, "ask", text, "--session", "sums")
        yield running


def test_a_session_comes_out_as_it_was_and_ends_with_0(gateway: Gateway) -> None:
    before = ozzie(gateway.home, "events", "tail", "--json").stdout

    done = ozzie(gateway.home, "sessions", "replay", "sums")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Same for all ")
    assert ozzie(gateway.home, "events", "tail", "--json").stdout == before, "nothing is recorded"


def test_what_differs_is_named_and_ends_with_1(gateway: Gateway, tmp_path: Path) -> None:
    (tmp_path / "rules.jsonc").write_text(DENIES)
    (tmp_path / "soul.md").write_text("Be terse.")

    by_rules = ozzie(gateway.home, "sessions", "replay", "sums", "--policy", str(tmp_path / "rules.jsonc"))
    by_prompt = ozzie(gateway.home, "sessions", "replay", "sums", "--prompt", str(tmp_path / "soul.md"), "--json")

    assert by_rules.returncode == by_prompt.returncode == 1
    assert " ".join(by_rules.stdout.split()).startswith("Same up to event ")
    assert "calculator would not be offered. The rules are other ones." in " ".join(by_rules.stdout.split())
    found = json.loads(by_prompt.stdout)
    assert (found["turn"], found["then_type"], found["cause"]) == (1, "model.call.started", "prompt")
    assert found["field"] == "request_blob.messages[0].content"


def test_what_can_not_be_replayed_says_so_in_words(gateway: Gateway, tmp_path: Path) -> None:
    (tmp_path / "broken.jsonc").write_text("{")

    for arguments, words in (
        (("--until", "9"), "There is no turn 9: the session has 2."),
        (("--policy", str(tmp_path / "broken.jsonc")), "policy.jsonc, line 1"),
        (("--skill", str(tmp_path / "broken.jsonc")), "skill-1.jsonc, line 1"),
        (("--prompt", str(tmp_path / "nowhere.md")), "can't be read: No such file or directory."),
    ):
        done = ozzie(gateway.home, "sessions", "replay", "sums", *arguments)
        assert done.returncode == 1
        assert words in done.stderr
        assert "Traceback" not in done.stderr
