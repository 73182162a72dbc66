"""Long text in pieces: no character is lost, none comes twice, and each piece fits."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.tools.outcome import TextPlace, count_lines, fitting, head_and_tail, page_of

TEXT = st.text(st.sampled_from('ab\n\r"\\\x00é😀\u2028'), max_size=300)
START = TextPlace(1, 1)


def escaped(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False)) - 2


@given(TEXT, st.integers(1, 20), st.integers(6, 60))
def test_the_pages_of_a_text_are_the_text_and_each_fits(text: str, max_lines: int, room: int) -> None:
    pieces: list[str] = []
    place: TextPlace | None = START
    for _ in range(len(text) + 1):
        assert place is not None
        page = page_of(text, place, max_lines=max_lines, room=room)
        pieces.append(page.text)
        place = page.next
        assert escaped(page.text) <= room
        assert count_lines(page.text) <= max_lines
        if place is None:
            break

    assert place is None
    assert "".join(pieces) == text


@given(TEXT.filter(lambda text: len(text) > 100), st.integers(24, 80))
def test_beginning_and_end_fit_together_and_reading_on_begins_behind_the_beginning(text: str, room: int) -> None:
    head, tail = head_and_tail(text, room)

    assert text.startswith(head.text)
    assert text.endswith(tail)
    assert escaped(head.text) + escaped(tail) <= room
    assert len(head.text) + len(tail) <= len(text)
    assert head.next is not None
    rest = page_of(text, head.next, max_lines=1000, room=10_000)
    assert head.text + rest.text == text


def test_a_page_ends_with_a_line_unless_that_would_leave_less_than_half() -> None:
    assert page_of("aaaa\nbbbb\n", START, max_lines=9, room=8).text == "aaaa\n"
    assert page_of("a\n" + "b" * 50, START, max_lines=9, room=20).text == "a\n" + "b" * 17


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("a\nb\n", TextPlace(3, 1), "no line 3: the last one is 2"),
        ("", TextPlace(2, 1), "no line 2: the last one is 1"),
        ("abc\nd", TextPlace(1, 5), "no character 5 in line 1: the last one is 4"),
        ("abc\nd", TextPlace(2, 2), "no character 2 in line 2: the last one is 1"),
    ],
)
def test_a_place_behind_the_end_is_refused_with_the_last_one(text: str, place: TextPlace, said: str) -> None:
    with pytest.raises(InputError, match=said):
        page_of(text, place, max_lines=1, room=100)


def test_an_empty_text_is_one_empty_page() -> None:
    assert page_of("", START, max_lines=1, room=100).text == ""
    assert page_of("", START, max_lines=1, room=100).next is None


@pytest.mark.parametrize(("text", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2), ("a\u2028b", 1)])
def test_lines_are_counted_as_editors_do(text: str, lines: int) -> None:
    assert count_lines(text) == lines


@given(st.text(max_size=50), st.integers(0, 60))
def test_what_fits_is_the_longest_that_does(text: str, room: int) -> None:
    piece = fitting(text, room)

    assert text.startswith(piece)
    assert escaped(piece) <= room
    assert piece == text or escaped(text[: len(piece) + 1]) > room
