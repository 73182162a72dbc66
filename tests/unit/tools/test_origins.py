"""Where what a call names stands, told in one sentence to whoever is asked."""

from collections.abc import Sequence
from typing import Any

import pytest

from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.toolmeta import Said, Target, TargetKind
from ozzie_server_ext.policy.conditions import Contacts
from ozzie_server_ext.policy.targets import named_by
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.tools.origins import MOST_FOUND, Passage, Place, names_to_find, origins_of, sentence
from tests.unit.policy.rig import meta

TOOL = meta(
    "office.act",
    targets=(
        Target("to", TargetKind.RECIPIENT),
        Target("account", TargetKind.ACCOUNT),
        Target("amount", TargetKind.AMOUNT, currency="currency"),
        Target("person", TargetKind.PERSON),
        Target("channel", TargetKind.CHANNEL),
        Target("id", TargetKind.OBJECT),
    ),
)
ANA, EVIL, IBAN = "ana@firm.example", "evil@evil.example", "DE89370400440532013000"
CONTACTS = (Contacts.of({TargetKind.RECIPIENT: ["*@lab.example"]}),)


def message(text: str) -> Passage:
    return Passage(Place.MESSAGE, text)


def result(data: Json, *sources: str, tool: str = "find_contact", asked: str = "{}", error: str = "") -> Passage:
    failed = {"code": "x", "message": error} if error else None
    text = dumps({"ok": not error, "data": data, "error": failed, "artifact_refs": []})
    return Passage(Place.RESULT, text, tool=tool, asked=asked, sources=sources)


def told(
    args: dict[str, Json], *read: Passage, said: Sequence[Said] = (), contacts: Sequence[Contacts] = CONTACTS
) -> str:
    return sentence(origins_of(names_to_find(named_by(TOOL, args)), frozenset(said), contacts, read))


@pytest.mark.parametrize(
    ("read", "where"),
    [
        ((), "is in no message or result of this session"),
        ((message(f"Write to {ANA}!"),), "is in a message that may be anybody's"),
        ((Passage(Place.SUMMARY, f"Ana is {ANA}"),), "is in a model's summary of earlier turns"),
        ((result(f"<{ANA}>"),), "is in what find_contact returned"),
        ((result("Ana\nANA@firm.example\n4", "mcp:mail"),), "comes from what a server of tools said (mail)"),
        (
            (result(ANA, "web:b.example"), result(ANA, "web:a.example"), result("no", "web:c.example")),
            "comes from web content (a.example, b.example)",
        ),
        ((result(ANA, "web:a.example"), result(ANA), message(ANA)), "comes from web content (a.example)"),
        ((Passage(Place.MESSAGE, ANA, sources=("web:a.example",)),), "comes from web content (a.example)"),
        ((message(ANA), result(ANA), result(ANA, tool="later")), "is in what find_contact returned"),
        (
            (message(f"joana@firm.example, x.{ANA}, {ANA}ple, {ANA}-x, {ANA}.uk"),),
            "is in no message or result of this session",
        ),
    ],
)
def test_the_best_place_counts_and_of_outside_ones_all(read: tuple[Passage, ...], where: str) -> None:
    assert told({"to": ANA}, *read) == f"{ANA} {where}."


def test_ones_own_words_and_contacts_come_before_all() -> None:
    said = [Said(TargetKind.RECIPIENT, ANA)]
    assert told({"to": ANA}, result(ANA, "web:a.example"), said=said) == f"{ANA} is in your own words."
    assert told({"to": "Ben <ben@LAB.example>"}) == "ben@lab.example is among your contacts."
    assert told({"to": "ben@lab.example"}, contacts=()) == "ben@lab.example is in no message or result of this session."


def test_the_most_doubtful_comes_first_and_equal_ones_are_told_together() -> None:
    args: dict[str, Json] = {"to": [ANA, "ben@lab.example", EVIL, "c@x.example", "d@x.example"], "amount": 50}
    said = [Said(TargetKind.RECIPIENT, ANA), Said(TargetKind.AMOUNT, "50.00 EUR")]
    assert told(args | {"currency": "EUR"}, result(EVIL, "web:evil.example"), said=said) == (
        "c@x.example and d@x.example are in no message or result of this session; "
        "evil@evil.example comes from web content (evil.example); "
        "ben@lab.example is among your contacts; ana@firm.example and 50.00 EUR are in your own words."
    )
    many: list[Json] = [f"p{number}@x.example" for number in range(1200)]
    assert told({"to": many[:5]}) == (
        "p0@x.example, p1@x.example and 3 more are in no message or result of this session."
    )


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"account": IBAN}, "to DE89 3704 0044 0532 0130 00."),
        ({"account": IBAN}, IBAN.lower()),
        ({"amount": 1234.5, "currency": "EUR"}, "a total of 1'234.50"),
        ({"amount": 1234.5, "currency": "EUR"}, "1.234,5"),
        ({"amount": 12, "currency": "EUR"}, "12.00 and"),
        ({"amount": "1000000", "currency": "EUR"}, "1,000,000"),
        ({"person": "@ben"}, "Ben, hello"),
        ({"channel": "#dev"}, "see #dev."),
        ({"to": "ana@f\u0456rm.example"}, "ana@f\u0456rm.example"),
    ],
)
def test_a_name_is_found_as_people_write_it(args: Any, text: str) -> None:
    assert told(args, result(text)).endswith(" in what find_contact returned."), "it is found"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"account": IBAN}, f"{IBAN}1"),
        ({"amount": 50, "currency": "EUR"}, "150 or 50.5 or 5.50 or 500 or 50,1"),
        ({"person": "ben"}, "benny"),
        ({"channel": "dev"}, "devs"),
    ],
)
def test_a_part_of_something_else_is_no_name(args: Any, text: str) -> None:
    assert " in no message or result of this session." in told(args, result(text))


def test_no_name_passes_for_a_part_of_the_sentence() -> None:
    assert told({"person": 'ben is in your own words; "x'}) == (
        '"ben is in your own words; \\"x" is in no message or result of this session.'
    )


def test_what_only_repeats_the_call_is_no_place_of_it() -> None:
    nowhere = f"{ANA} is in no message or result of this session."
    assert told({"to": ANA}, result({"sent": ANA}, asked=dumps({"to": ANA}))) == nowhere
    assert told({"to": ANA}, result(None, error=f"There is no file {ANA}.")) == nowhere
    assert told({"to": ANA}, result(None, "web:a.example", error=f"Ask {ANA}.")) == (
        f"{ANA} comes from web content (a.example)."
    )
    assert told({"channel": "data", "person": "error"}, result(["x"])).count("in no message or result") == 1


def test_a_result_may_be_of_any_depth_and_a_tool_have_any_name() -> None:
    data: Json = [f"<{ANA}>"]
    for _ in range(100):
        data = [data]
    assert told({"to": ANA}, result(data, tool="x is in your own words; y")) == f"{ANA} is in what a tool returned."


def test_nothing_is_told_of_ids_and_of_what_cannot_be_read() -> None:
    assert told({"id": "m1", "to": "no address"}) == ""


def test_no_more_are_looked_for_than_a_card_shows() -> None:
    named = named_by(TOOL, {"to": [f"p{number}@x.example" for number in range(100)]})
    assert len(names_to_find(named)) == MOST_FOUND


@pytest.mark.parametrize("text", ["alice@evil.example", "x@alice", "alice.y", "malice"])
def test_an_account_is_no_part_of_an_address(text: str) -> None:
    assert told({"account": "alice"}, result(text)) == "alice is in no message or result of this session."
