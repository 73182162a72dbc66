"""Rules about whether those that a call names are among the contacts of their author."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Category, SideEffect, Target, TargetKind, ToolMeta
from ozzie_server_ext.policy.conditions import Contacts
from ozzie_server_ext.policy.decision import Decision
from ozzie_server_ext.policy.engine import decide
from ozzie_server_ext.policy.files import read
from ozzie_server_ext.policy.rules import MAX_CONTACTS, MAX_PATTERNS_IN_FILE, Rule
from tests.unit.policy.rig import action, find, meta, rule

MAIL = meta(
    "mail.send",
    side_effect=SideEffect.IRREVERSIBLE,
    categories=frozenset({Category.EXTERNAL_SEND}),
    targets=(Target("to", TargetKind.RECIPIENT), Target("owner", TargetKind.PERSON)),
)
PAY = meta(
    "bank.pay",
    side_effect=SideEffect.IRREVERSIBLE,
    categories=frozenset({Category.PAYMENT}),
    targets=(
        Target("account", TargetKind.ACCOUNT),
        Target("amount", TargetKind.AMOUNT, currency="currency"),
        Target("payer", TargetKind.OBJECT),
    ),
)
IBAN = "AT61 1904 3002 3457 3201"
OTHER_IBAN = "GB33BUKB20201555555555"
CONTACTS: JsonObject = {
    "recipients": ["ana@firm.example", "*@lab.example"],
    "accounts": [IBAN],
    "people": ["Ana", "Team *"],
}


def of(decision: str, tool: ToolMeta, wanted: bool, contacts: JsonObject | None = CONTACTS, **when: Any) -> Rule:
    return rule(decision, {"tools": [tool.tool_id], "in_contacts": wanted, **when}, contacts=contacts)


def decided(rule: Rule, tool: ToolMeta, **args: Any) -> Decision:
    return decide(action(tool, **args), (rule,)).decision


@pytest.mark.parametrize(
    ("tool", "args", "allowed"),
    [
        (MAIL, {"to": "ana@firm.example"}, True),
        (MAIL, {"to": "Ana <ANA@firm.example>; ben@lab.example"}, True),
        (MAIL, {"to": "ana@firm.example", "owner": "@Ana"}, True),
        (MAIL, {"owner": "Team Blue"}, True),
        (MAIL, {"to": "ana@firm.example, evil@evil.example"}, False),
        (MAIL, {"to": '"ana@firm.example" <evil@evil.example>'}, False),
        (MAIL, {"to": "ana@f\u0456rm.example"}, False),
        (MAIL, {"to": "ana@firm.example", "owner": "Berta"}, False),
        (MAIL, {"to": "ana@firm.example", "owner": "ana"}, False),
        (MAIL, {"to": ["ana@firm.example", "nobody"]}, False),
        (MAIL, {"to": [], "owner": ""}, False),
        (MAIL, {}, False),
        (PAY, {"account": IBAN}, True),
        (PAY, {"account": "AT611904300234573201", "amount": 5, "currency": "EUR", "payer": "whoever"}, True),
        (PAY, {"account": OTHER_IBAN}, False),
        (PAY, {"account": "AT611904300234573202"}, False),
        (PAY, {"amount": 5, "currency": "EUR"}, False),
    ],
)
def test_a_call_is_allowed_if_all_that_it_names_are_contacts(
    tool: ToolMeta, args: dict[str, Any], allowed: bool
) -> None:
    assert (decided(of("allow", tool, True), tool, **args) is Decision.ALLOW) is allowed


@pytest.mark.parametrize(
    ("args", "denied"),
    [
        ({"to": "evil@evil.example"}, True),
        ({"to": "ana@firm.example, evil@evil.example"}, True),
        ({"to": "no address"}, True),
        ({"to": "ana@firm.example", "owner": "ana"}, True),
        ({"to": "ana@firm.example", "owner": "Ana"}, False),
        ({}, False),
    ],
)
def test_one_that_is_no_contact_is_enough_to_deny(args: dict[str, Any], denied: bool) -> None:
    assert (decided(of("deny", MAIL, False), MAIL, **args) is Decision.DENY) is denied


@pytest.mark.parametrize(
    ("args", "denied"),
    [
        ({"to": "x@evil.example, ANA@firm.example"}, True),
        ({"owner": "team blue"}, True),
        ({"to": "no address"}, True),
        ({"to": "x@evil.example", "owner": "Berta"}, False),
        ({}, False),
    ],
)
def test_one_contact_is_enough_to_deny_what_names_one(args: dict[str, Any], denied: bool) -> None:
    assert (decided(of("deny", MAIL, True), MAIL, **args) is Decision.DENY) is denied


@pytest.mark.parametrize(
    ("args", "allowed"),
    [
        ({"to": "x@other.example"}, True),
        ({"to": "x@other.example, ana@firm.example"}, False),
        ({"to": "x@other.example", "owner": "ANA"}, False),
        ({"to": ["x@other.example", "no address"]}, False),
        ({}, False),
    ],
)
def test_a_call_is_allowed_for_strangers_if_it_surely_names_no_contact(args: dict[str, Any], allowed: bool) -> None:
    assert (decided(of("allow", MAIL, False), MAIL, **args) is Decision.ALLOW) is allowed


def test_a_kind_without_contacts_has_none() -> None:
    contacts: JsonObject = {"people": ["Ana"]}

    assert decided(of("allow", MAIL, True, contacts), MAIL, owner="Ana") is Decision.ALLOW
    assert decided(of("allow", MAIL, True, contacts), MAIL, owner="Ana", to="ana@firm.example") is Decision.ASK
    assert decided(of("deny", MAIL, False, contacts), MAIL, owner="Ana", to="ana@firm.example") is Decision.DENY


def test_a_second_model_is_asked_only_where_all_are_surely_contacts() -> None:
    checks = of("check", MAIL, True)

    assert decided(checks, MAIL, to="ana@firm.example") is Decision.CHECK
    assert decided(checks, MAIL, to="ana@firm.example, x@evil.example") is Decision.ASK


def test_the_contacts_are_those_of_the_rules_own_file() -> None:
    of_project = rule(
        "ask", {"tools": ["mail.send"], "in_contacts": False}, of_project=True, contacts={"people": ["Eve"]}
    )
    allows = of("allow", MAIL, True)

    assert decide(action(MAIL, owner="Ana"), (allows, of_project)).decision is Decision.ASK
    assert decide(action(MAIL, owner="Eve"), (allows, of_project)).decision is Decision.ASK
    assert decide(action(MAIL, owner="Ana"), (allows,)).decision is Decision.ALLOW


@pytest.mark.parametrize(
    ("contacts", "said"),
    [
        (None, 'line 1, .*: rule r: it states "in_contacts", and the file has no "contacts"'),
        ({}, 'the file has no "contacts"'),
        ({"recipients": ["Ana"]}, 'contacts: "Ana" is no address'),
        ({"recipients": ["*@*"]}, "is not a host"),
        ({"accounts": ["AT611904300234573202"]}, "contacts: .* is no account"),
        ({"accounts": ["AT61*"]}, "is no account"),
        ({"people": ["\u202eanA"]}, "is no person"),
        ({"people": []}, "people"),
        ({"friends": ["Ana"]}, "friends"),
        ({"people": [f"p{number}" for number in range(MAX_CONTACTS + 1)]}, "people"),
    ],
)
def test_contacts_that_mean_nothing_are_refused_with_a_reason(contacts: JsonObject | None, said: str) -> None:
    with pytest.raises(InputError, match=said):
        of("allow", MAIL, True, contacts)


def test_a_mistake_in_contacts_is_told_with_its_line() -> None:
    text = '{\n  "rules": [],\n  "contacts": {"accounts": ["nothing at all"]}\n}'

    with pytest.raises(InputError, match=r"/rules.jsonc, line 3.*: contacts: .nothing at all. is no account"):
        read(Path("/rules.jsonc"), text.encode(), find)


def test_contacts_that_stand_for_many_count_as_patterns() -> None:
    people = [f"p{number}*" for number in range(MAX_CONTACTS)]
    file = {"contacts": {"people": people, "recipients": ["*@firm.example"]}}

    with pytest.raises(InputError, match=f"has {MAX_PATTERNS_IN_FILE + 1:,} patterns"):
        read(Path("/rules.jsonc"), json.dumps(file).encode(), find)


def test_why_a_rule_does_not_apply_is_said() -> None:
    allows, denies = of("allow", MAIL, True), of("deny", MAIL, False)

    assert allows.mismatch(action(MAIL)) == "the call names nobody"
    assert allows.mismatch(action(MAIL, to="x@evil.example")) == "not everybody that it names is a contact"
    assert denies.mismatch(action(MAIL, to="ana@firm.example")) == "everybody that it names is a contact"
    assert of("deny", MAIL, True).mismatch(action(MAIL, owner="Eve")) == "it names no contact"
    assert of("allow", MAIL, False).mismatch(action(MAIL, owner="Ana")) == "it names a contact"


NAMES = st.sampled_from(["ana@firm.example", "Ana <ana@firm.example>", "x@lab.example", "x@evil.example", "nobody"])
PEOPLE = st.sampled_from(["Ana", "ana", "Berta", "Team X", "\u200bAna"])


@given(st.lists(NAMES, max_size=3), st.lists(PEOPLE, max_size=3), NAMES, PEOPLE, st.booleans())
def test_a_further_name_never_weakens_a_decision(
    to: list[str], owner: list[str], address: str, person: str, is_person: bool
) -> None:
    rules = (
        of("allow", MAIL, True),
        rule("deny", {"tools": ["mail.*"], "in_contacts": False, "attended": False}, "d", contacts=CONTACTS),
        rule("ask", {"tools": ["mail.*"], "in_contacts": False}, "a", contacts=CONTACTS),
    )
    before = decide(action(MAIL, to=to, owner=owner), rules)
    added = [*to, *([] if is_person else [address])], [*owner, *([person] if is_person else [])]
    after = decide(action(MAIL, to=added[0], owner=added[1]), rules)

    assert not (to or owner) or after.strictness >= before.strictness


@given(st.lists(NAMES, max_size=3), st.lists(PEOPLE, max_size=3))
def test_no_call_names_only_contacts_and_no_contact(to: list[str], owner: list[str]) -> None:
    contacts = Contacts.of({TargetKind.RECIPIENT: ["*@firm.example"], TargetKind.PERSON: ["Ana"]})
    found = action(MAIL, to=to, owner=owner)

    assert not (to or owner) or not (contacts.hold_all(found) and contacts.hold_none(found))
