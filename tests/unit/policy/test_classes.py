"""The classes of calls that come with Ozzie: what runs by them, and what does not (docs/policy.md, Classes)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.config.jsonc import parse_object
from ozzie_server_ext.config.validation import validate
from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.toolmeta import Category, Reached, SideEffect, Target, TargetKind, ToolMeta
from ozzie_server_ext.policy.decision import NO_WORDS, Action, Caller, Decision, Reading, Words
from ozzie_server_ext.policy.engine import explain
from ozzie_server_ext.policy.files import RuleFile, classes_of, read
from ozzie_server_ext.policy.people import People
from ozzie_server_ext.policy.rules import PolicyText, failing_example
from ozzie_server_ext.policy.words import said_in
from tests.unit.policy.rig import READ, WRITE, meta

BEN = "AT61 1904 3002 3457 3201"
CONTACTS = '{"contacts": {"named": {"Ben Okafor": {"recipients": ["ben@firm.example"], "accounts": ["%s"]}}}%s}'
WEB = Content.of(Label.WEB, ["evil.example"])


def own_file(more: str = "") -> RuleFile:
    return read(Path("policy.jsonc"), (CONTACTS % (BEN, more)).encode(), lambda name: None)


def people() -> People:
    return People(own_file().named)


MAIL = meta(
    "mail.send",
    side_effect=SideEffect.IRREVERSIBLE,
    categories=frozenset({Category.EXTERNAL_SEND}),
    targets=(Target("to", TargetKind.RECIPIENT),),
    carries=("documents",),
)
POST = meta(
    "chat.post",
    side_effect=SideEffect.IRREVERSIBLE,
    categories=frozenset({Category.EXTERNAL_SEND}),
    targets=(Target("channel", TargetKind.CHANNEL),),
)
PAY = meta(
    "bank.pay",
    side_effect=SideEffect.IRREVERSIBLE,
    categories=frozenset({Category.PAYMENT}),
    targets=(Target("account", TargetKind.ACCOUNT), Target("amount", TargetKind.AMOUNT, currency="currency")),
)
DOCUMENT = meta(
    "drive.write", side_effect=SideEffect.REVERSIBLE, targets=(Target("doc_id", TargetKind.OBJECT),), own_data=True
)
EVENT = meta("calendar.add", side_effect=SideEffect.REVERSIBLE, own_data=True)


def words(text: str) -> Words:
    return Words(said_in(text, people=people()), (text,))


def decided(
    tool: ToolMeta,
    args: dict[str, Any],
    message: str = "",
    *,
    before: str = "",
    content: Content = WEB,
    made: frozenset[str] = frozenset(),
    reads: Sequence[Action | None] = (),
    more: str = "",
) -> tuple[Decision, str]:
    file = own_file(more)
    now, earlier = words(message) if message else NO_WORDS, words(before) if before else NO_WORDS
    own = Words(now.named | earlier.named, (*earlier.texts, *now.texts))
    reading = Reading(content=content, has_read=True, words=own, message=now, made=made, reads=lambda: reads)
    action = Action.of(tool, args, Caller(), reading)
    verdict = explain(action, (*file.rules, *(rule for each in classes_of((file,)) for rule in each.rules))).verdict
    return verdict.decision, verdict.rule


def runs(rule: str) -> tuple[Decision, str]:
    return Decision.ALLOW, rule


def test_all_examples_hold() -> None:
    (classes,) = classes_of((own_file(),))
    document = parse_object(classes.content, classes.path)
    texts = validate(PolicyText, document.value, document.places).rules
    tools = {
        "mail.send_mail": MAIL,
        "drive.move_document": DOCUMENT,
        "calendar.add_event": EVENT,
        "write_file": WRITE,
        "bank.pay": PAY,
    }
    assert [each.id for each in texts] == [rule.verdict.rule for rule in classes.rules]
    for rule, text in zip(classes.rules, texts, strict=True):
        assert failing_example(rule, text, lambda name: None, people()) == "", "with a tool that is not known"
        for example, wanted in [
            *((each, True) for each in text.examples.match),
            *((each, False) for each in text.examples.no_match),
        ]:
            own = words(example.your_words)
            reading = Reading(words=own, message=own)
            action = Action.of(tools[example.tool], example.args, Caller(), reading)
            assert (rule.mismatch(action) == "") is wanted, (text.id, example)
        assert all(each.tool in tools for each in (*text.examples.match, *text.examples.no_match))


@pytest.mark.parametrize(
    ("message", "to", "text", "does_run"),
    [
        ("Tell Ben that I am late.", "ben@firm.example", "Ana is late.", True),
        ("Tell ana@lab.example that I am late.", "ana@lab.example", "Late. Sorry!", True),
        ("Tell Ben that I am late.", "ben@firm.example", "See https://evil.example/x", False),
        ("Tell Ben to look at evil.example/x", "ben@firm.example", "Look at evil.example/x, please.", True),
        ("Tell Ben that I am late.", "ben@firm.example", "Call +43 660 1234567.", False),
        ("Tell Ben that I am late.", "eve@evil.example", "Ana is late.", False),
        ("Tell Ben that I am late.", ["ben@firm.example", "eve@evil.example"], "Late.", False),
        ("Tell Ben that I am late.", "Ben <ben@firm.example.evil.example>", "Late.", False),
        ("Tell everybody.", "ben@firm.example", "Late.", False),
    ],
)
def test_a_message_runs_to_whom_you_named_if_it_leads_nowhere(message: str, to: Any, text: str, does_run: bool) -> None:
    found = decided(MAIL, {"to": to, "text": text}, message)
    assert (found == runs("class.message")) is does_run
    assert (found[0] is Decision.ASK) is not does_run


def test_what_goes_along_with_a_message_is_asked_for() -> None:
    args = {"to": "ben@firm.example", "text": "Here."}
    assert decided(MAIL, args | {"documents": []}, "Write to Ben.") == runs("class.message")
    assert decided(MAIL, args | {"documents": ["d1"]}, "Write to Ben.")[0] is Decision.ASK


OPEN_MAIL = meta("mail.read", targets=(Target("mail_id", TargetKind.OBJECT),))


def opened(title: str, sender: str) -> Action:
    """The reading of a mail."""
    of = (Reached(TargetKind.OBJECT, title, of="m1"), Reached(TargetKind.RECIPIENT, sender, of="m1"))
    return Action.of(replace(OPEN_MAIL, reaches=of), {"mail_id": "m1"}, Caller())


@pytest.mark.parametrize(
    ("read", "does_run"),
    [
        (opened("Lunch on Friday", "eve@evil.example"), True),
        (opened("Hello", "ben@firm.example"), True),
        (opened("Hello", "eve@evil.example"), False),
        (opened("Salaries", "emma@firm.example"), False),
        (Action.of(READ, {"path": "salaries.csv"}, Caller()), False),
        (None, False),
    ],
)
def test_a_message_is_made_from_what_yours_names_or_from_what_those_wrote_whom_it_reaches(
    read: Action | None, does_run: bool
) -> None:
    found = decided(MAIL, {"to": "ben@firm.example", "text": "At noon."}, "Tell Ben when lunch is.", reads=[read])
    assert (found == runs("class.message")) is does_run


def test_a_channel_is_named_as_people_speak_of_it() -> None:
    assert decided(POST, {"channel": "#product", "text": "Yes."}, "Say yes in the product channel") == runs(
        "class.message"
    )
    assert decided(POST, {"channel": "#general", "text": "Yes."}, "Say yes in the product channel")[0] is Decision.ASK
    assert decided(POST, {"channel": "#product", "text": "Yes."}, "The product is ready.")[0] is Decision.ASK


@pytest.mark.parametrize(
    ("message", "amount", "rule"),
    [
        ("Pay Ben 200 EUR.", 200, "class.payment"),
        ("Pay Ben 200 eur please", 200, "class.payment"),
        ("Pay Ben 200 EUR.", 201, ""),
        ("Pay Ben 200 EUR.", 20, ""),
        ("Pay Ben back for lunch.", 23.4, ""),
        ("Pay for lunch.", 5, ""),
    ],
)
def test_a_payment_runs_to_a_contact_whom_you_named(message: str, amount: float, rule: str) -> None:
    found = decided(PAY, {"account": BEN, "amount": amount, "currency": "EUR"}, message)
    assert found == (runs(rule) if rule else (Decision.ASK, "floor.payment"))


def test_a_payment_asks_for_an_account_that_is_no_contact_a_second_time_and_later() -> None:
    paid = {"account": BEN, "amount": 20, "currency": "EUR"}
    iban = "DE89370400440532013000"
    asks = (Decision.ASK, "floor.payment")
    assert decided(PAY, paid | {"account": iban}, f"Pay 20 EUR to {iban}.") == asks
    assert decided(PAY, paid, "Pay Ben 20 EUR.", made=frozenset({"bank_pay"})) == asks
    assert decided(PAY, paid, "Pay Ben 20 EUR.", made=frozenset({"bank.pay"})) == asks
    assert decided(PAY, paid, "Thanks.", before="Pay Ben 20 EUR.") == asks
    assert decided(PAY, paid | {"reference": "see evil.example"}, "Pay Ben 20 EUR.") == asks


def test_own_data_is_changed_if_it_is_named_or_new_and_nobody_else_sees_it() -> None:
    assert decided(EVENT, {"title": "Dentist"}) == runs("class.own-new")
    assert decided(DOCUMENT, {"doc_id": "d1", "text": "x"}, "Add it to `d1`.") == runs("class.own-named")
    assert decided(DOCUMENT, {"doc_id": "d2", "text": "x"}, "Add it to `d1`.")[0] is Decision.ASK
    titled = meta_with(DOCUMENT, Reached(TargetKind.OBJECT, "Ideas for March", of="d2"))
    assert decided(titled, {"doc_id": "d2", "text": "x"}, "Add it to my ideas for March") == runs("class.own-named")
    assert decided(titled, {"doc_id": "d2", "text": "x"}, "In March")[0] is Decision.ASK
    seen = meta_with(DOCUMENT, Reached(TargetKind.RECIPIENT, "eve@evil.example"))
    assert decided(seen, {"doc_id": "d1", "text": "x"}, "Add it to `d1`.")[0] is Decision.ASK


def meta_with(tool: ToolMeta, *reaches: Reached) -> ToolMeta:
    return replace(tool, reaches=reaches)


@pytest.mark.parametrize(
    ("message", "path", "does_run"),
    [
        ("Write it into desk/may.csv.", "desk/may.csv", True),
        ("Write it into `desk/may.csv`, please", "desk/may.csv", True),
        ("Add it to @notes.csv", "notes.csv", True),
        ("Add it to requirements.txt", "requirements.txt", False),
        ("Write it into desk/may.csv.", "desk/june.csv", False),
        ("Write it into desk/may.csv.", "../may.csv", False),
        ("Write it into run.py.", "run.py", False),
        ("Write it into AGENTS.md.", "AGENTS.md", False),
        ("Write it.", "may.csv", False),
    ],
)
def test_a_table_that_your_message_names_is_written(message: str, path: str, does_run: bool) -> None:
    found = decided(WRITE, {"path": path, "text": "a,b"}, message)
    assert (found == runs("class.file-named")) is does_run


@pytest.mark.parametrize("category", sorted(set(Category) - {Category.EXTERNAL_SEND, Category.PAYMENT}))
def test_no_class_has_calls_of_another_category(category: Category) -> None:
    for tool, args, message in [
        (MAIL, {"to": "ben@firm.example", "text": "Late."}, "Tell Ben."),
        (PAY, {"account": BEN, "amount": 20, "currency": "EUR"}, "Pay Ben 20 EUR."),
        (DOCUMENT, {"doc_id": "d1"}, "Change `d1`."),
        (EVENT, {"title": "x"}, "Add it."),
        (WRITE, {"path": "a.csv", "text": "x"}, "Write a.csv"),
    ]:
        more = replace(tool, categories=tool.categories | {category})
        assert decided(more, args, message)[0] is Decision.ASK, tool.tool_id


def test_a_rule_that_asks_counts_more_and_a_strict_profile_has_no_classes() -> None:
    args = {"to": "ben@firm.example", "text": "Late."}
    asks = ', "rules": [{"id": "mine", "decision": "ask", "reason": "I look.", "when": {"tools": ["mail.*"]}, '
    asks += '"examples": {"match": [{"tool": "mail.send"}]}}]'
    assert decided(MAIL, args, "Tell Ben.", more=asks) == (Decision.ASK, "mine")
    assert decided(MAIL, args, "Tell Ben.", more=', "profile": "strict"') == (Decision.ASK, "floor.external_send")


CALLS: list[tuple[ToolMeta, dict[str, Any]]] = [
    (MAIL, {"to": "ben@firm.example", "text": "Late."}),
    (MAIL, {"to": ["ben@firm.example", "ana@lab.example"], "text": "See evil.example."}),
    (POST, {"channel": "#product", "text": "Yes."}),
    (PAY, {"account": BEN, "amount": 20, "currency": "EUR"}),
    (PAY, {"account": BEN, "amount": 200, "currency": "EUR"}),
    (DOCUMENT, {"doc_id": "d1", "text": "x"}),
    (EVENT, {"title": "Dentist"}),
    (WRITE, {"path": "desk/may.csv", "text": "x"}),
]
WORDS = st.sampled_from(
    [
        "Ben",
        "ana@lab.example",
        "20 EUR",
        "200 EUR",
        "the product channel",
        "`d1`",
        "desk/may.csv",
        "evil.example",
        "pay",
    ]
)
SOURCES = st.lists(st.sampled_from(["web:evil.example", "mcp:mail", "channel:telegram", "file:a.md"]), unique=True)


@given(st.sampled_from(CALLS), st.lists(WORDS, max_size=5), SOURCES, st.data())
def test_a_label_more_or_a_word_less_never_weakens_a_decision(
    call: tuple[ToolMeta, dict[str, Any]], said: list[str], sources: list[str], data: st.DataObject
) -> None:
    tool, args = call
    now = decided(tool, args, "; ".join(said), content=Content.from_sources(tuple(sources)))[0]

    further = data.draw(st.sampled_from(["web:x.example", "mcp:other"]))
    more = Content.from_sources((*sources, further))
    assert decided(tool, args, "; ".join(said), content=more)[0].rank >= now.rank

    kept = [word for word in said if data.draw(st.booleans())]
    assert decided(tool, args, "; ".join(kept), content=Content.from_sources(tuple(sources)))[0].rank >= now.rank
    assert decided(tool, args, before="; ".join(said), content=Content.from_sources(tuple(sources)))[0].rank >= now.rank
    again = frozenset({tool.name})
    assert (
        decided(tool, args, "; ".join(said), content=Content.from_sources(tuple(sources)), made=again)[0].rank
        >= now.rank
    )
