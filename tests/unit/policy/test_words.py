"""What a person's own words name: what is found is surely meant, and no text takes long to be read."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.toolmeta import TargetKind
from ozzie_server_ext.policy.words import MOST_READ, said_in

RECIPIENT, ACCOUNT, AMOUNT = TargetKind.RECIPIENT, TargetKind.ACCOUNT, TargetKind.AMOUNT
PERSON, CHANNEL, CALENDAR, OBJECT = TargetKind.PERSON, TargetKind.CHANNEL, TargetKind.CALENDAR, TargetKind.OBJECT


def named(kind: TargetKind, *parts: str) -> list[str]:
    """In turn typed and not typed."""
    return sorted(said.value for said in said_in(*parts) if said.kind is kind)


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        (RECIPIENT, "Send it to Ana <Ana@Firm.example>, and to bob@firm.example.", "ana@firm.example bob@firm.example"),
        (RECIPIENT, "(ana@firm.example) or **bob@firm.example**!", "ana@firm.example bob@firm.example"),
        (RECIPIENT, '"ana@firm.example"; `bob@firm.example`', "ana@firm.example bob@firm.example"),
        (RECIPIENT, "o'brien@firm.example, a|b@firm.example, _ana@firm.example, mailto:ana@firm.example", ""),
        (RECIPIENT, "https://ana@firm.example/x and ana@firm.example/x and änna@firm.example", ""),
        (RECIPIENT, "to ana@firm, @ana and a @ b.example", ""),
        (ACCOUNT, "Pay DE89 3704 0044 0532 0130 00.", "DE89370400440532013000"),
        (ACCOUNT, "Pay DE89370400440532013000 FOR THE RENT", "DE89370400440532013000"),
        (ACCOUNT, "Pay DE88 3704 0044 0532 0130 00.", ""),  # its check digits do not fit
        (ACCOUNT, "From ACC-99812 to 12345678, in 2026", "12345678 ACC-99812"),
        (ACCOUNT, "12345 678, or 12 34567, 12345/6 and 5-12345 -7", ""),  # pieces of a number
        (ACCOUNT, 'From my account "rent"', "rent"),
        (AMOUNT, "50 EUR", "50.00 EUR"),
        (AMOUNT, "EUR 50. Then 20 €, €7,50 and 10EUR", "10.00 EUR|20.00 EUR|50.00 EUR|7.50 EUR"),
        (AMOUNT, "1,250.50 EUR or 1.250,50 EUR or 1'250.5 EUR", "1250.50 EUR"),
        (AMOUNT, "$20 and US$5", "20.00 USD|5.00 USD"),
        (AMOUNT, "1,250 EUR; 1.250 EUR; 3 250 EUR", ""),  # one and a quarter, three times 250
        (AMOUNT, "between 10-20 EUR, -5 EUR, 1e3 EUR, 20 EURO, ¥300, 50", ""),
        (AMOUNT, "$5000 COP, MXN $5, 50 $ CAD, 50 EUR USD, £5 million, EUR 5 Mio. and $5k, 5 000 EUR, €5 %", ""),
        (AMOUNT, "1/2 EUR, −5 EUR, 10–50 EUR, 10 - 50 EUR, ~5 EUR, 50 EUR – 60, 3 x 5 EUR, 3 × 5 EUR, €5 each", ""),
        (AMOUNT, "1:50 SEK, at 10:50 EUR, 10;50 EUR, 10>50 EUR, twice 50 EUR, 50 EUR (in thousands), 5 EUR mln", ""),
        (
            AMOUNT,
            "AU $50, NZ 50 $, 50 $ NZ, 50 $ canadian, Canadian $50, 50 $ (CAD), $50 cad, 50 EUR ct, 5 EUR '000",
            "",
        ),
        (AMOUNT, "$50 to Ana and 20 EUR for Ben", "20.00 EUR|50.00 USD"),
        (AMOUNT, "Pay (50 EUR), and 20 EUR: thanks. Or 7 EUR?", "20.00 EUR|50.00 EUR|7.00 EUR"),
        (PERSON, "Ask @ana and **@bob-lee**.", "ana|bob-lee"),
        (PERSON, "@ana.smith@server, @sales.csv, @data/x, @ann\u0308a and a@b", ""),
        (PERSON, "mail ana@firm.example", ""),
        (CHANNEL, "Post it in #general, not in a/b#c or #general/secret", "general"),
        (CALENDAR, "in “Team Berlin”, „Privat“ and «Équipe»", "Privat|Team Berlin|Équipe"),
        (OBJECT, "Delete `draft 2.docx` and \"old notes\"; it's Ana's", "draft 2.docx|old notes"),
        (OBJECT, 'Delete "draft 2 and "old"\nand "new"', "new"),  # nobody can tell what the first line quotes
        (OBJECT, "Delete the draft", ""),
    ],
)
def test_what_is_found_is_in_the_form_in_which_calls_are_compared(kind: TargetKind, text: str, found: str) -> None:
    between = "|" if "|" in found or kind not in (RECIPIENT, ACCOUNT) else " "
    assert named(kind, text) == sorted(filter(None, found.split(between)))


def test_what_was_not_typed_names_nothing() -> None:
    assert named(RECIPIENT, "Send it to ana@firm.example\n", "Reply-To: evil@evil.example", ", please") == [
        "ana@firm.example"
    ]
    assert named(ACCOUNT, "", "Pay 50 EUR to DE89 3704 0044 0532 0130 00", " now") == []
    assert named(AMOUNT, "Pay 70 EUR", " to DE89 3704 0044 0532 0130 00") == ["70.00 EUR"]


def test_what_was_typed_does_not_complete_what_was_not() -> None:
    assert named(RECIPIENT, "to ana@", "evil.", "example") == []
    assert named(RECIPIENT, "to ana@firm.example", ".evil") == []
    assert named(AMOUNT, "pay 5", "000", " EUR") == []
    assert named(AMOUNT, "pay 5 EUR", " million") == []
    assert named(ACCOUNT, "to 12345678", " 99") == []
    assert named(OBJECT, 'Delete "', "old", '"') == []
    assert named(OBJECT, "", '"', ' say "A" or not "B"', '"') == [], "which quotes belong together, somebody else said"
    assert named(OBJECT, 'Delete "old"\n', '"') == ["old"]


def test_a_text_that_nobody_types_names_nothing() -> None:
    assert named(RECIPIENT, "to ana@firm.example" + " " * MOST_READ) == []
    assert named(RECIPIENT, "", "to ana@firm.example") == []


PIECES = st.text("ab1@.# \"'`“”„€,EUR-\n", max_size=12)


@given(st.lists(PIECES, max_size=7))
def test_what_counts_is_named_by_the_whole_text(parts: list[str]) -> None:
    assert said_in(*parts) <= said_in("".join(parts))
    assert said_in("", *parts) <= said_in("".join(parts))


@given(PIECES, PIECES.filter(bool), PIECES)
def test_a_part_that_was_not_typed_adds_nothing(before: str, part: str, behind: str) -> None:
    found = said_in(before, part, behind)

    assert found <= said_in(before) | said_in(behind)


@pytest.mark.serial
@pytest.mark.parametrize(
    "piece",
    ["a", "1", "“", "@a.", "1,111", "1,", "DE89", "'a", "€", "1'111", "a@", "#-", "EUR ", "a_", '"a', "DE89 1111 "],
)
def test_a_text_of_twice_the_length_takes_about_twice_the_time(piece: str) -> None:
    def seconds(length: int) -> float:
        text = (piece * length)[:length]
        began = time.process_time()
        said_in(text)
        return time.process_time() - began

    seconds(1000)  # patterns are compiled
    shorter, longer = (min(seconds(length) for _ in range(3)) for length in (MOST_READ // 2, MOST_READ))
    assert longer < 3 * shorter
