"""A message that a program sends which Ozzie runs for a call is no person's: what a rule allows for one asks then."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ozzie_server_ext.cli.declared import Group
from ozzie_server_ext.cli.verbs import COMMANDS
from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.protocol.made_from import with_sources
from tests.integration.gateway.asked import WRITE
from tests.integration.gateway.test_rest import get
from tests.rig import Gateway, GatewayHome, ozzie, start_kernel

ALLOW_NOTES = {
    "id": "notes",
    "decision": "allow",
    "reason": "Notes are Ozzie's.",
    "when": {"tools": ["write_file"], "paths": ["notes/**"]},
    "examples": {"match": [{"tool": "write_file", "args": {"path": "notes/a.md"}}]},
}
READ = Content.of(Label.WEB, ["site.example"])


@pytest.fixture
def allowing(gateway: Gateway) -> Gateway:
    """One in which notes are written unasked."""
    (gateway.home.project / "notes").mkdir()
    (gateway.home.home / "policy.jsonc").write_text(json.dumps({"rules": [ALLOW_NOTES]}))
    return gateway


def run_for_a_call(home: GatewayHome) -> GatewayHome:
    """The same home, as a program has it that a call runs which was made from a page."""
    return replace(home, env=with_sources(home.env, READ))


def labels(gateway: Gateway) -> list[tuple[list[str], list[str]]]:
    """Of each message, the first one first."""
    events = get(gateway, "events?type=message.received&limit=10")["items"]
    return [(event["labels"], event["sources"]) for event in events]


def written(gateway: Gateway) -> bool:
    return (gateway.home.project / "notes" / "a.md").exists()


def test_ozzie_ask_says_what_it_is_run_for(allowing: Gateway) -> None:
    ozzie(run_for_a_call(allowing.home), "ask", "--session", "theirs", WRITE)
    unasked = written(allowing)
    ozzie(allowing.home, "ask", "--session", "mine", WRITE)

    assert not unasked
    assert written(allowing), "a person's own words are not held up"
    assert labels(allowing) == [(["web"], ["web:site.example"]), ([], [])]


def test_so_does_a_kernel_that_a_command_started(allowing: Gateway) -> None:
    kernel = start_kernel(run_for_a_call(allowing.home))
    try:
        kernel.run(WRITE, cell_id="")  # as nbclient runs it, so that nobody is there to be asked
    finally:
        kernel.stop()

    assert not written(allowing)
    assert labels(allowing) == [(["web"], ["web:site.example"])]


SPEAKS = [
    ("tasks", "answer", "01M800000000000000000000ZZ", "yes"),
    ("tasks", "update", "01M800000000000000000000ZZ", "more"),
    ("approvals", "approve", "01M800000000000000000000ZZ", "--yes"),
    ("labels", "clear", "mine"),
    ("sessions", "erase", "mine", "--yes"),
    ("messages", "erase", "01M800000000000000000000ZZ", "--yes"),
    ("artifacts", "rm", "01M800000000000000000000ZZ", "--yes"),
    ("events", "accept", "--yes"),
    ("config", "trust"),
    ("policy", "trust"),
    ("skills", "trust", "a.jsonc"),
    ("mcp", "add", "a", "true"),
    ("mcp", "trust", "a"),
    ("mcp", "classify", "a", "b=reads"),
    ("mcp", "rm", "a"),
    ("mcp", "login", "a"),
    ("mcp", "logout", "a"),
    ("mcp", "token", "a"),
    ("plugins", "add", "a"),
    ("plugins", "grant", "a"),
    ("plugins", "revoke", "a"),
    ("plugins", "enable", "a"),
    ("plugins", "disable", "a"),
    ("plugins", "classify", "a", "b=reads"),
    ("plugins", "remove", "a"),
    ("incidents", "close", "01M800000000000000000000ZZ"),
]


@pytest.mark.parametrize("words", SPEAKS, ids=" ".join)
def test_a_command_of_ozzies_can_not_speak_for_a_person(home: GatewayHome, words: tuple[str, ...]) -> None:
    refused = ozzie(run_for_a_call(home), *words)

    assert refused.returncode == 1
    assert refused.stderr.splitlines() == [
        f"ozzie: ozzie {' '.join(words[:2])} is for a person, and this runs in one of Ozzie's own commands.",
        "Run it yourself, in your own terminal.",
    ]


def test_these_are_all_commands_that_speak_for_a_person_and_the_page_on_security_names_each() -> None:
    declared = [
        f"{group.name} {verb.name}"
        for group in COMMANDS
        if isinstance(group, Group)
        for verb in group.verbs
        if verb.speaks_for_a_person
    ]
    page = (Path(__file__).parents[3] / "docs" / "security.md").read_text()

    assert sorted(" ".join(words[:2]) for words in SPEAKS) == sorted(declared)
    assert [name for name in declared if f"`{name}`" not in page] == []


def test_it_can_look_and_say_no(allowing: Gateway) -> None:
    home = run_for_a_call(allowing.home)
    looks = [ozzie(home, "approvals", "list"), ozzie(home, "labels", "files"), ozzie(home, "tasks", "list")]
    no = ozzie(home, "approvals", "reject", "01M800000000000000000000ZZ")

    assert [look.returncode for look in looks] == [0, 0, 0]
    assert "is for a person" not in no.stderr
