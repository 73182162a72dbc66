"""What arguments name, in its normal form; what can be read in two ways is not read."""

import dataclasses
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.toolmeta import Reached, Target, TargetKind
from ozzie_server_ext.policy.targets import (
    MAX_NAMED,
    NAMED_KINDS,
    Amount,
    account,
    amount,
    named_by,
    named_in,
    normal_form,
    recipient,
    split,
)
from tests.unit.policy.rig import meta


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ben@firm.example", "ben@firm.example"),
        ("  Ben.Okafor+x@Firm.Example ", "ben.okafor+x@firm.example"),
        ("Ben <ben@firm.example>", "ben@firm.example"),
        ('"Okafor, Ben" <ben@firm.example>', "ben@firm.example"),
        ('"ana@firm.example" <evil@evil.example>', "evil@evil.example"),
        ("ana@firm.example <evil@evil.example>", None),
        ("evil@evil.example,ana@firm.example", None),
        ("evil@evil.example ana@firm.example", None),
        ("ana@firm.example@evil.example", None),
        ("<ana@firm.example> <evil@evil.example>", None),
        ("ana@firm.example (evil@evil.example)", None),
        ("Team: ana@firm.example, ben@firm.example;", None),
        ("@relay.example:ana@firm.example", None),
        ('"a b"@firm.example', None),
        ("ana@firm", None),
        ("ana@[10.0.0.1]", None),
        ("ana@10.0.0.1", None),
        ("ana@firm.example\n", None),
        ("ana@firm.example\nBcc: evil@evil.example", None),
        ("a\u200bna@firm.example", None),
        ("ana@f\u202eirm.example", None),
        ("ana@f\u0131rm.example", "ana@xn--frm-jua.example"),
        ("ana@\uff46irm.example", "ana@firm.example"),
        ("ana@fi\u00adrm.example", None),
        ("\u0430na@firm.example", None),
        ("ana", None),
        ("", None),
        ("@", None),
        ("x" * 65 + "@firm.example", None),
        ("ana@" + "x." * 200 + "example", None),
    ],
)
def test_a_recipient_is_one_address_without_the_name(text: str, found: str | None) -> None:
    assert recipient(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a@x.example, b@x.example;c@x.example", ["a@x.example", " b@x.example", "c@x.example"]),
        ('"A, B" <a@x.example>, b@x.example', ['"A, B" <a@x.example>', " b@x.example"]),
        ('"A \\", B" <a@x.example>', ['"A \\", B" <a@x.example>']),
        ('"A, b@x.example', ['"A, b@x.example']),
        ("<a@x.example, b@x.example", ["<a@x.example, b@x.example"]),
        ("a@x.example,,", ["a@x.example"]),
        (",", [","]),
    ],
)
def test_a_list_is_split_outside_of_quotes_and_brackets(text: str, found: list[str]) -> None:
    assert split(text) == found


def test_no_address_hides_in_a_list() -> None:
    values = [each.value for each in named_in(TargetKind.RECIPIENT, "evil@evil.example,a@firm.example")]

    assert values == ["evil@evil.example", "a@firm.example"]


@given(st.lists(st.sampled_from(["a@x.example", "B <b@x.example>", '"c, d" <c@x.example>', "no address"]), min_size=1))
def test_a_text_names_what_its_parts_name(parts: list[str]) -> None:
    of_list = [each.value for each in named_in(TargetKind.RECIPIENT, [*parts])]

    assert [each.value for each in named_in(TargetKind.RECIPIENT, ", ".join(parts))] == of_list


@given(st.sampled_from(sorted(NAMED_KINDS - {TargetKind.AMOUNT})), st.text(max_size=40))
def test_what_was_read_is_read_again_as_the_same(kind: TargetKind, text: str) -> None:
    found = normal_form(kind, text)

    assert found is None or normal_form(kind, found) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("AT61 1904 3002 3457 3201", "AT611904300234573201"),
        ("at611904300234573201", "AT611904300234573201"),
        ("AT611904300234573202", None),
        ("CH93-0076-2011-6238-5295-7", "CH9300762011623852957"),
        ("AT61190430023457320\u0661", None),
        ("ana@pay.example", "ana@pay.example"),
        ("12345-678", "12345-678"),
        ("acct_1A2b", "acct_1A2b"),
        ("my account", None),
        ("AT611904300234573201 or DE89370400440532013000", None),
        ("x", None),
    ],
)
def test_an_account_has_its_check_digits(text: str, found: str | None) -> None:
    assert account(text) == found


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        (TargetKind.CHANNEL, "#General", "General"),
        (TargetKind.CHANNEL, "@General", "@General"),
        (TargetKind.CHANNEL, "#", None),
        (TargetKind.PERSON, "@Ben", "Ben"),
        (TargetKind.CALENDAR, "  Room   Aare ", "Room Aare"),
        (TargetKind.OBJECT, "aB3", "aB3"),
        (TargetKind.OBJECT, "#7", "#7"),
        (TargetKind.OBJECT, "e\u0301", "\u00e9"),
        (TargetKind.PERSON, "B\u200ben", None),
        (TargetKind.PERSON, "Ben\u00a0Okafor", None),
        (TargetKind.PERSON, "Ben\nCarla", None),
        (TargetKind.OBJECT, "\u3164", None),
        (TargetKind.OBJECT, "x" * 400, None),
        (TargetKind.OBJECT, "", None),
    ],
)
def test_a_name_keeps_its_case_and_loses_its_sign(kind: TargetKind, text: str, found: str | None) -> None:
    assert normal_form(kind, text) == found


@pytest.mark.parametrize(
    ("value", "currency", "found"),
    [
        (184.5, "EUR", "184.50 EUR"),
        ("23.40", "eur", "23.40 EUR"),
        (950, "CHF", "950.00 CHF"),
        (0.1 + 0.2, "EUR", None),
        ("1,000", "EUR", None),
        ("1e3", "EUR", None),
        (1e300, "EUR", None),
        (-5, "EUR", None),
        (True, "EUR", None),
        (float("nan"), "EUR", None),
        ("\u0663", "EUR", None),
        (5, "", None),
        (5, "euros", None),
        (None, "EUR", None),
    ],
)
def test_an_amount_is_a_plain_number_with_a_currency(value: Json, currency: str, found: str | None) -> None:
    read = amount(value, currency)

    assert (None if read is None else str(read)) == found


def test_amounts_of_one_currency_compare_by_value() -> None:
    assert amount(50, "EUR") == amount("50.00", "EUR") == Amount("EUR", Decimal("5E+1"))


def test_a_list_that_nobody_reads_is_not_read() -> None:
    given: list[Json] = [f"a{number}@x.example" for number in range(MAX_NAMED + 1)]

    (found,) = named_in(TargetKind.RECIPIENT, given)

    assert (json.loads(found.given), found.value) == (given, None)
    assert len(named_in(TargetKind.RECIPIENT, given[1:])) == MAX_NAMED


@pytest.mark.parametrize("value", [None, "", []])
def test_what_is_not_given_names_nothing(value: Json) -> None:
    assert named_in(TargetKind.RECIPIENT, value) == ()


@pytest.mark.parametrize("value", [5, {"to": "ana@firm.example"}, [["ana@firm.example"]], [None], True])
def test_what_is_no_text_is_no_recipient(value: Json) -> None:
    assert [each.value for each in named_in(TargetKind.RECIPIENT, value)] == [None]


@pytest.mark.parametrize(("value", "found"), [(5, "5"), (True, None), ({"id": 5}, None), ([5], "5"), (10**40, None)])
def test_an_object_may_have_a_number(value: Json, found: str | None) -> None:
    assert [each.value for each in named_in(TargetKind.OBJECT, value)] == [found]


def test_a_call_names_what_its_contract_says_in_that_order() -> None:
    targets = (
        Target("path", TargetKind.PATH),
        Target("account", TargetKind.ACCOUNT),
        Target("amount", TargetKind.AMOUNT, currency="currency"),
        Target("to", TargetKind.RECIPIENT),
        Target("cc", TargetKind.RECIPIENT),
    )
    args: JsonObject = {
        "to": ["Ben <BEN@firm.example>; carla@firm.example"],
        "path": "a.txt",
        "amount": 120,
        "currency": "EUR",
        "account": "AT61 1904 3002 3457 3201",
    }

    assert [(each.argument, each.value, each.given) for each in named_by(meta("bank.pay", targets=targets), args)] == [
        ("account", "AT611904300234573201", "AT61 1904 3002 3457 3201"),
        ("amount", "120.00 EUR", "120 EUR"),
        ("to", "ben@firm.example", "Ben <BEN@firm.example>"),
        ("to", "carla@firm.example", " carla@firm.example"),
    ]


def test_what_a_call_reaches_is_named_behind_its_arguments() -> None:
    tool = dataclasses.replace(
        meta("mail.reply", targets=(Target("mail_id", TargetKind.OBJECT),)),
        reaches=(
            Reached(TargetKind.RECIPIENT, "Ben <BEN@firm.example>, carla@firm.example"),
            Reached(TargetKind.RECIPIENT, "nobody"),
            Reached(TargetKind.URL, "https://firm.example"),
        ),
    )

    assert [(each.argument, each.value) for each in named_by(tool, {"mail_id": "m6"})] == [
        ("mail_id", "m6"),
        ("", "ben@firm.example"),
        ("", "carla@firm.example"),
        ("", None),
        ("", None),
    ]


@pytest.mark.parametrize(
    ("kind", "value", "given"),
    [
        (TargetKind.AMOUNT, 120, "120"),
        (TargetKind.AMOUNT, {"n": 1}, '{"n": 1}'),
        (TargetKind.ACCOUNT, "AT62 1904 3002 3457 3201", "AT62 1904 3002 3457 3201"),
        (TargetKind.RECIPIENT, "a\u202eb@firm.example", "a\u202eb@firm.example"),
        (TargetKind.RECIPIENT, [{"to": "\u00e9"}], '{"to": "\u00e9"}'),
        (TargetKind.OBJECT, True, "true"),
    ],
)
def test_what_can_not_be_read_is_kept_as_it_was_given(kind: TargetKind, value: Json, given: str) -> None:
    assert [(each.value, each.given) for each in named_in(kind, value)] == [(None, given)]


def test_a_number_too_long_to_be_written_is_not_read() -> None:
    (found,) = named_in(TargetKind.OBJECT, 10**5000)

    assert (found.value, found.given) == (None, "something that can't be written")


@pytest.mark.parametrize(
    ("given", "value", "written"),
    [
        ("Ben <ben@firm.example>", "ben@firm.example", ""),
        ("J\u00fcrgen <j@firm.example>", "j@firm.example", ""),
        ("ana@f\u0456rm.example", "ana@xn--frm-jhd.example", "ana@f\u0456rm.example"),
        ('"ana@firm.example" <ana@f\u0456rm.example>', "ana@xn--frm-jhd.example", "ana@f\u0456rm.example"),
        ("\u0430na@firm.example", None, ""),
    ],
)
def test_a_domain_of_another_alphabet_is_also_shown_as_written(given: str, value: str | None, written: str) -> None:
    (found,) = named_in(TargetKind.RECIPIENT, given)

    assert (found.value, found.written) == (value, written)
