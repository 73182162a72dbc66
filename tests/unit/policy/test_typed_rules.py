"""Rules about whom a call writes to, what it pays to whom, and where it posts."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.toolmeta import Category, SideEffect, Target, TargetKind, ToolMeta
from ozzie_server_ext.policy.decision import Action, Caller, Decision
from ozzie_server_ext.policy.engine import decide
from ozzie_server_ext.policy.rules import Rule
from ozzie_server_ext.policy.targets import amount_in
from tests.unit.policy.rig import MAIL, action, meta, rule

PAY = meta(
    "bank.pay",
    side_effect=SideEffect.IRREVERSIBLE,
    categories=frozenset({Category.PAYMENT}),
    targets=(
        Target("account", TargetKind.ACCOUNT),
        Target("amount", TargetKind.AMOUNT, currency="currency"),
        Target("fee", TargetKind.AMOUNT, currency="EUR"),
    ),
)
POST = meta("chat.post", side_effect=SideEffect.IRREVERSIBLE, targets=(Target("channel", TargetKind.CHANNEL),))
IBAN = "AT611904300234573201"
NAMES = (TargetKind.ACCOUNT, TargetKind.PERSON, TargetKind.CALENDAR, TargetKind.CHANNEL, TargetKind.OBJECT)
OTHER: dict[TargetKind, TargetKind] = dict(zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True))
"""For each kind of name another one."""


def kind_of(value: object) -> str:
    return type(value).__name__


def of(decision: str, tool: ToolMeta, **when: Any) -> Rule:
    """A rule that names the tool, and states these conditions too."""
    return rule(decision, {"tools": [tool.tool_id], **when})


def decided(rule: Rule, tool: ToolMeta, args: dict[str, Any]) -> Decision:
    return decide(action(tool, **args), (rule,)).decision


@pytest.mark.parametrize(
    ("args", "allowed"),
    [
        ({"to": ["ben@firm.example"]}, True),
        ({"to": "Ben <BEN@Firm.Example>; carla@firm.example"}, True),
        ({"to": ["ben@firm.example"], "cc": ["carla@firm.example"]}, True),
        ({"to": "evil@evil.example,ben@firm.example"}, False),
        ({"to": ["evil@evil.example,ben@firm.example"]}, False),
        ({"to": ['"ben@firm.example" <evil@evil.example>']}, False),
        ({"to": ["ben@firm.example"], "cc": ["evil@evil.example"]}, False),
        ({"to": ["ben@firm.example.evil.example"]}, False),
        ({"to": ["ben@sub.firm.example"]}, False),
        ({"to": ["ben@f\u0456rm.example"]}, False),
        ({"to": ["ben@firm.example", "nobody"]}, False),
        ({"to": []}, False),
        ({}, False),
    ],
)
def test_all_recipients_of_an_allowed_call_are_allowed(args: dict[str, Any], allowed: bool) -> None:
    allows = of("allow", MAIL, recipients=["*@firm.example"])

    assert decided(allows, MAIL, args) is (Decision.ALLOW if allowed else Decision.ASK)


@pytest.mark.parametrize(
    ("args", "denied"),
    [
        ({"to": ["x@EVIL.example"]}, True),
        ({"to": ["ben@firm.example"], "cc": "ben@firm.example, x@evil.example"}, True),
        ({"to": ["ben@firm.example", "no address"]}, True),
        ({"to": ["ben@firm.example"]}, False),
        ({}, False),
    ],
)
def test_one_recipient_is_enough_to_deny(args: dict[str, Any], denied: bool) -> None:
    denies = of("deny", MAIL, recipients=["*@evil.example", "*@*.evil.example"])

    assert (decided(denies, MAIL, args) is Decision.DENY) is denied


@pytest.mark.parametrize(
    ("args", "allowed"),
    [
        ({"account": "AT61 1904 3002 3457 3201", "amount": 50, "currency": "EUR"}, True),
        ({"account": IBAN, "amount": "49.99", "currency": "eur"}, True),
        ({"account": IBAN, "amount": 50.01, "currency": "EUR"}, False),
        ({"account": IBAN, "amount": 5, "currency": "CHF"}, False),
        ({"account": IBAN, "amount": 5}, False),
        ({"account": IBAN, "amount": "5,00", "currency": "EUR"}, False),
        ({"account": IBAN, "amount": 5, "currency": "EUR", "fee": 100}, False),
        ({"account": "GB33BUKB20201555555555", "amount": 5, "currency": "EUR"}, False),
        ({"account": IBAN, "currency": "EUR"}, False),
    ],
)
def test_a_payment_is_allowed_to_an_account_up_to_an_amount(args: dict[str, Any], allowed: bool) -> None:
    allows = of("allow", PAY, accounts=[IBAN], amount={"at_most": "50 EUR"})

    assert decided(allows, PAY, args) is (Decision.ALLOW if allowed else Decision.ASK)


@pytest.mark.parametrize(
    ("args", "denied"),
    [
        ({"amount": 500.01, "currency": "EUR"}, True),
        ({"amount": 500, "currency": "EUR"}, False),
        ({"amount": 5, "currency": "CHF"}, True),
        ({"amount": "many", "currency": "EUR"}, True),
        ({"amount": 5, "currency": "EUR", "fee": 501}, True),
        ({"account": IBAN}, False),
    ],
)
def test_an_amount_above_a_limit_is_denied_and_one_of_another_currency_too(args: dict[str, Any], denied: bool) -> None:
    denies = of("deny", PAY, amount={"above": "500 EUR"})

    assert (decided(denies, PAY, args) is Decision.DENY) is denied


@pytest.mark.parametrize(
    ("pattern", "channel", "allowed", "denied"),
    [
        ("#general", "general", True, True),
        ("general", "#General", False, True),
        ("team-*", "#team-blue", True, True),
        ("Team *", "teams", False, False),
        ("general", "generally", False, False),
        ("general", "gen\u200beral", False, True),
    ],
)
def test_a_channel_is_allowed_as_it_is_written_and_denied_in_any_case(
    pattern: str, channel: str, allowed: bool, denied: bool
) -> None:
    found = [decided(of(each, POST, chat_channels=[pattern]), POST, {"channel": channel}) for each in ("allow", "deny")]

    assert found == [Decision.ALLOW if allowed else Decision.ASK, Decision.DENY if denied else Decision.ASK]


@pytest.mark.parametrize(
    ("kind", "condition"),
    [
        (TargetKind.ACCOUNT, "accounts"),
        (TargetKind.PERSON, "people"),
        (TargetKind.CALENDAR, "calendars"),
        (TargetKind.CHANNEL, "chat_channels"),
        (TargetKind.OBJECT, "objects"),
    ],
)
def test_each_kind_of_name_has_its_condition(kind: TargetKind, condition: str) -> None:
    tool = meta(
        "a.tool", side_effect=SideEffect.IRREVERSIBLE, targets=(Target("on", kind), Target("note", OTHER[kind]))
    )
    allows = of("allow", tool, **{condition: ["berta"]})

    assert decided(allows, tool, {"on": "berta"}) is Decision.ALLOW
    assert decided(allows, tool, {"on": ["berta", "carla"]}) is Decision.ASK
    assert decided(allows, tool, {"note": "berta"}) is Decision.ASK


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ({"recipients": ["firm.example"]}, "is no address"),
        ({"recipients": ["*@"]}, "is not a host"),
        ({"recipients": ["*@*"]}, "is not a host"),
        ({"recipients": ["*@10.0.0.0/8"]}, "a name, not an IP network"),
        ({"recipients": ["b*n@firm.example"]}, "is no address"),
        ({"accounts": ["AT611904300234573202"]}, "is no account"),
        ({"accounts": ["AT61*"]}, "is no account"),
        ({"chat_channels": ["#"]}, "is no channel"),
        ({"amount": {"at_most": "50"}}, "is no amount"),
        ({"amount": {"above": "50 euros"}}, "is no amount"),
        ({"amount": {}}, "at_most"),
        ({"amount": {"at_most": "50 EUR", "above": "60 EUR"}}, "one of"),
    ],
)
def test_a_condition_that_means_nothing_is_refused_with_a_reason(when: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        of("allow", MAIL, **when)


def test_a_pattern_for_what_is_below_a_domain_is_not_for_the_domain() -> None:
    allows = of("allow", MAIL, recipients=["*@*.firm.example"])

    assert decided(allows, MAIL, {"to": "ben@sub.firm.example"}) is Decision.ALLOW
    assert decided(allows, MAIL, {"to": "ben@firm.example"}) is Decision.ASK


ADDRESSES = st.sampled_from(
    [
        "ben@firm.example",
        "BEN <ben@firm.example>",
        "x@evil.example",
        "ben@f\u0456rm.example",
        "nobody",
        "a@x.example,b@y.example",
    ]
)
LISTS = st.lists(ADDRESSES, max_size=4)


@given(LISTS, LISTS, ADDRESSES, st.booleans())
def test_a_further_recipient_never_weakens_a_decision(to: list[str], cc: list[str], more: str, as_copy: bool) -> None:
    rules = (
        of("allow", MAIL, recipients=["*@firm.example"]),
        rule("deny", {"tools": ["mail.*"], "recipients": ["*@evil.example"]}, "d"),
    )
    before = decide(action(MAIL, to=to, cc=cc), rules)
    after = decide(action(MAIL, to=[*to, *([] if as_copy else [more])], cc=[*cc, *([more] if as_copy else [])]), rules)

    assert not (to or cc) or after.strictness >= before.strictness


@given(st.integers(0, 10**16), st.integers(0, 10**16), st.sampled_from(["EUR", "CHF", "", "eur"]))
def test_a_larger_amount_never_weakens_a_decision(amount: int, more: int, currency: str) -> None:
    rules = (of("allow", PAY, amount={"at_most": "50 EUR"}), rule("deny", {"amount": {"above": "500 EUR"}}, "d"))
    before, after = (
        decide(action(PAY, account=IBAN, amount=value, currency=currency), rules) for value in (amount, amount + more)
    )

    assert after.strictness >= before.strictness


def on_a_day(rule: Rule, spent: str, **args: Any) -> Decision:
    """What is decided once so much was spent."""
    before = amount_in(spent)
    return decide(Action.of(PAY, args, Caller(), spent={before.currency: before.value}), (rule,)).decision


@pytest.mark.parametrize(
    ("spent", "args", "within"),
    [
        ("0 EUR", {"amount": 200, "currency": "EUR"}, True),
        ("150 EUR", {"amount": 50, "currency": "EUR"}, True),
        ("150 EUR", {"amount": 50.01, "currency": "EUR"}, False),
        ("150 EUR", {"amount": 50, "currency": "EUR", "fee": 1}, False),
        ("500 CHF", {"amount": 50, "currency": "EUR"}, True),
        ("0 EUR", {"amount": 50, "currency": "CHF"}, False),
        ("0 EUR", {"amount": "many", "currency": "EUR"}, False),
    ],
)
def test_what_a_day_costs_is_limited_with_this_call(spent: str, args: dict[str, Any], within: bool) -> None:
    allows, denies = (
        of("allow", PAY, spent_today={"at_most": "200 EUR"}),
        of("deny", PAY, spent_today={"above": "200 EUR"}),
    )

    assert on_a_day(allows, spent, account=IBAN, **args) is (Decision.ALLOW if within else Decision.ASK)
    assert (on_a_day(denies, spent, account=IBAN, **args) is Decision.DENY) is not within


def test_a_call_without_an_amount_is_within_no_limit_of_a_day() -> None:
    allows = of("allow", PAY, spent_today={"at_most": "200 EUR"})

    assert on_a_day(allows, "0 EUR", account=IBAN) is Decision.ASK
    assert allows.mismatch(action(PAY, account=IBAN)) == "the call has no amount"
    over = Action.of(PAY, {"amount": 250, "currency": "EUR"}, Caller())
    assert allows.mismatch(over) == "it would be 250.00 EUR today"


@given(st.integers(0, 600), st.integers(0, 600), st.integers(0, 600), st.sampled_from(["EUR", "CHF", ""]))
def test_a_dearer_day_never_weakens_a_decision(spent: int, more: int, amount: int, currency: str) -> None:
    rules = (
        of("allow", PAY, spent_today={"at_most": "200 EUR"}),
        rule("deny", {"tools": ["bank.pay"], "spent_today": {"above": "500 EUR"}}, "d"),
    )
    args = {"account": IBAN, "amount": amount, "currency": currency}
    before, after = (
        decide(Action.of(PAY, args, Caller(), spent={"EUR": Decimal(each)}), rules) for each in (spent, spent + more)
    )

    assert after.strictness >= before.strictness


@pytest.mark.parametrize("value", [10**5000, 10**15, "9" * 400, 1e308, float("inf"), {"a": 1}, [50], True], ids=kind_of)
def test_no_odd_number_is_an_amount(value: Any) -> None:
    allows = of("allow", PAY, amount={"at_most": "50 EUR"})

    assert decided(allows, PAY, {"account": IBAN, "amount": value, "currency": "EUR"}) is Decision.ASK
