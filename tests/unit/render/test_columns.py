"""Cutting, padding and wrapping by the columns of a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.render.text import columns, cut_columns, cut_middle_columns, padded, wrapped

TEXT = st.text(alphabet="ab é日本ｱ\u0301😀\ufe0f-/", max_size=40)


@pytest.mark.parametrize(
    ("text", "wide"),
    [("abc", 3), ("日本", 4), ("e\u0301", 1), ("ｱ", 1), ("😀", 2), ("❤\ufe0f", 1), ("a\u200bb", 2), ("", 0)],
)
def test_how_wide_a_text_is(text: str, wide: int) -> None:
    assert columns(text) == wide


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("short", 10, "short"),
        ("日本語のタイトル", 7, "日本語…"),
        ("日本語のタイトル", 8, "日本語…"),
        ("abcdef", 1, "…"),
        ("ab", 0, ""),
    ],
)
def test_an_end_is_cut(text: str, width: int, shown: str) -> None:
    assert cut_columns(text, width) == shown


def test_a_middle_is_cut_so_that_a_path_keeps_its_name() -> None:
    assert cut_middle_columns("a/very/long/path/to/data.csv", 16) == "a/very/…data.csv"


@given(TEXT, st.integers(0, 30))
def test_what_is_cut_fits(text: str, width: int) -> None:
    assert columns(cut_columns(text, width)) <= max(width, 0)
    assert columns(cut_middle_columns(text, width)) <= max(width, 0)
    assert columns(padded(text, width)) == max(width, columns(text))


@given(TEXT, st.integers(5, 30))
def test_what_is_wrapped_says_the_same_in_lines_that_fit(text: str, width: int) -> None:
    lines = wrapped(text, width)

    assert " ".join(lines).split() == text.split()
    assert all(columns(line) <= width or " " not in line.strip() for line in lines)


def test_a_hanging_indent_stands_before_all_lines_but_the_first() -> None:
    assert wrapped("- one two three", 9, indent="  ") == ["- one two", "  three"]
