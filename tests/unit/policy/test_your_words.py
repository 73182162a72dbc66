"""Rules about whether a person's own words name all that a call names."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.toolmeta import Category, SideEffect, Target, TargetKind, ToolMeta
from ozzie_server_ext.policy.decision import Action, Caller, Decision, Reading, Words
from ozzie_server_ext.policy.engine import decide
from ozzie_server_ext.policy.files import read
from ozzie_server_ext.policy.rules import Rule
from ozzie_server_ext.policy.words import said_in
from tests.unit.policy.rig import MAIL, meta, rule

PAY = meta(
    "bank.pay",
    side_effect=SideEffect.IRREVERSIBLE,
    categories=frozenset({Category.PAYMENT}),
    targets=(Target("account", TargetKind.ACCOUNT), Target("amount", TargetKind.AMOUNT, currency="currency")),
)
POST = meta(
    "chat.post",
    side_effect=SideEffect.IRREVERSIBLE,
    categories=frozenset({Category.EXTERNAL_SEND}),
    targets=(Target("channel", TargetKind.CHANNEL),),
)
SEND_FILE = meta(
    "mail.send_file",
    side_effect=SideEffect.IRREVERSIBLE,
    categories=frozenset({Category.EXTERNAL_SEND}),
    targets=(Target("to", TargetKind.RECIPIENT), Target("path", TargetKind.PATH)),
)
IBAN = "DE89 3704 0044 0532 0130 00"


def of(decision: str, tool: ToolMeta, wanted: bool = True, **when: Any) -> Rule:
    return rule(decision, {"tools": [tool.tool_id], "in_your_words": wanted, **when})


def made(tool: ToolMeta, words: str, **args: Any) -> Action:
    return Action.of(tool, args, Caller(channel="notebook"), Reading(words=Words(said_in(words))))


def decided(rule: Rule, tool: ToolMeta, words: str, **args: Any) -> Decision:
    return decide(made(tool, words, **args), (rule,)).decision


@pytest.mark.parametrize(
    ("tool", "words", "args", "allowed"),
    [
        (MAIL, "Mail it to ana@firm.example.", {"to": "ana@firm.example"}, True),
        (MAIL, "Mail it to ana@firm.example.", {"to": "Ana <ANA@firm.example>"}, True),
        (MAIL, "Mail it to ana@firm.example.", {"to": "x@evil.example"}, False),
        (MAIL, "Mail it to ana@firm.example.", {"to": "ana@firm.example, x@evil.example"}, False),
        (MAIL, "Mail it to ana@firm.example.", {"to": "ana@firm.example", "cc": ["x@evil.example"]}, False),
        (MAIL, "Mail it to ana@firm.example.", {"to": "ana@fırm.example"}, False),
        (MAIL, "Mail it to ana@firm.example.", {"to": "\u200bana@firm.example"}, False),
        (MAIL, "Mail it to Ana.", {"to": "ana@firm.example"}, False),
        (MAIL, "", {"to": "ana@firm.example"}, False),
        (MAIL, "Mail it to ana@firm.example.", {}, False),
        (PAY, f"Pay 50 EUR to {IBAN}.", {"account": IBAN, "amount": 50, "currency": "EUR"}, True),
        (PAY, f"Pay 50 EUR to {IBAN}.", {"account": IBAN, "amount": "50.00", "currency": "EUR"}, True),
        (PAY, f"Pay 50 EUR to {IBAN}.", {"account": IBAN, "amount": 5000, "currency": "EUR"}, False),
        (PAY, f"Pay 50 EUR to {IBAN}.", {"account": IBAN, "amount": 50, "currency": "USD"}, False),
        (PAY, f"Pay 50 EUR to {IBAN}.", {"account": "GB33BUKB20201555555555", "amount": 50, "currency": "EUR"}, False),
        (PAY, "Pay 50 EUR.", {"amount": 50, "currency": "EUR"}, False),
        (PAY, f"Pay 50 EUR to {IBAN}.", {"account": IBAN, "amount": None, "currency": "EUR"}, False),
        (SEND_FILE, "Send it to ana@firm.example.", {"to": "ana@firm.example", "path": "notes/a.md"}, False),
        (PAY, f"Pay {IBAN} what is due.", {"account": IBAN, "amount": 50, "currency": "EUR"}, False),
        (POST, "Post it in #general.", {"channel": "#general"}, True),
        (POST, "Post it in general.", {"channel": "general"}, False),
    ],
)
def test_a_rule_that_allows_wants_all_of_it_named(
    tool: ToolMeta, words: str, args: dict[str, Any], allowed: bool
) -> None:
    assert (decided(of("allow", tool), tool, words, **args) is Decision.ALLOW) is allowed


def test_a_rule_that_denies_misses_nothing() -> None:
    words = "Mail it to ana@firm.example."
    unnamed, named = of("deny", MAIL, wanted=False), of("deny", MAIL)

    assert decided(unnamed, MAIL, words, to="ana@firm.example, x@evil.example") is Decision.DENY
    assert decided(unnamed, MAIL, words, to="ana@firm.example") is not Decision.DENY
    assert decided(named, MAIL, words, to="ana@firm.example, x@evil.example") is Decision.DENY
    assert decided(named, MAIL, words, to="x@evil.example") is not Decision.DENY
    assert decided(named, MAIL, words, to="not an address") is Decision.DENY
    of_files = of("deny", SEND_FILE, wanted=False)
    assert decided(of_files, SEND_FILE, words, to="ana@firm.example", path="notes/a.md") is Decision.DENY
    assert decided(of_files, SEND_FILE, words, to="ana@firm.example") is not Decision.DENY


def test_why_it_does_not_apply_is_said() -> None:
    allows, denies = of("allow", MAIL), of("deny", MAIL, wanted=False)

    assert allows.mismatch(made(MAIL, "")) == "the call names nothing"
    assert allows.mismatch(made(MAIL, "", to="x@evil.example")) == "your own words do not name all that it names"
    assert denies.mismatch(made(MAIL, "to a@b.example", to="a@b.example")) == "your own words name all of it"


WORDS = st.sampled_from(["to ana@firm.example", "50 EUR", f"{IBAN}", "x@evil.example", "#general", "5000 EUR"])
ADDRESSES = st.sampled_from(["ana@firm.example", "x@evil.example", "nobody"])


@given(st.lists(WORDS, max_size=4), WORDS, st.lists(ADDRESSES, min_size=1, max_size=3), st.integers(1, 6000))
def test_taking_a_word_away_never_weakens_a_decision(words: list[str], more: str, to: list[str], amount: int) -> None:
    rules = (of("allow", MAIL), of("allow", PAY), rule("deny", {"tools": ["*"], "in_your_words": False}, "d"))
    for tool, args in ((MAIL, {"to": to}), (PAY, {"account": IBAN, "amount": amount, "currency": "EUR"})):
        fewer = decide(made(tool, "; ".join(words), **args), rules)
        all_of_them = decide(made(tool, "; ".join([*words, more]), **args), rules)
        assert fewer.strictness >= all_of_them.strictness


def test_examples_state_what_was_said() -> None:
    text = """{"rules": [{"id": "asked-for", "decision": "allow", "reason": "You asked for it.",
      "when": {"tools": ["mail.send"], "in_your_words": true},
      "examples": {"match": [{"tool": "mail.send", "args": {"to": "a@b.example"}, "your_words": "Mail a@b.example."}],
                   "no_match": [{"tool": "mail.send", "args": {"to": "a@b.example"}, "your_words": "Mail it."}]}}]}"""

    (found,) = read(Path("/rules.jsonc"), text.encode(), lambda name: None).rules
    assert found.verdict.rule == "asked-for"
