"""The part of a text that a search shows."""

import pytest

from ozzie_server_ext.domain.terms import phrases
from ozzie_server_ext.store.documents import Document
from ozzie_server_ext.tasks.search import SNIPPET, snippet

LONG = " ".join(f"word{number}" for number in range(400))


def shown(text: str, query: str) -> tuple[str, list[str]]:
    found = snippet(Document("message", text), phrases(query))
    return found.text, [found.text[start:end] for start, end in found.marks]


def test_a_short_text_is_shown_whole_on_one_line() -> None:
    assert shown("The revenue\n\n rose\tin May.", "may revenue") == ("The revenue rose in May.", ["revenue", "May"])


@pytest.mark.parametrize("at", [0, 5, 1000, 3300, 3390])
def test_of_a_long_text_the_part_around_the_words_is_shown(at: int) -> None:
    text = f"{LONG[:at]} zebra {LONG[at:]}"

    part, marked = shown(text, "zebra")

    assert marked == ["zebra"]
    assert len(part) <= SNIPPET + 2
    assert part.startswith("…") is (at > 100)
    assert part.strip("…").strip() in " ".join(text.split())


def test_the_part_with_the_most_words_is_shown() -> None:
    assert shown(f"zebra {LONG} zebra and horse {LONG} horse", "zebra horse")[1] == ["zebra", "horse"]


def test_a_text_without_the_words_is_shown_from_its_beginning() -> None:
    part, marked = shown(LONG, "zebra")

    assert part.startswith("word0 word1")
    assert marked == []


def test_a_text_without_spaces_is_cut_anywhere() -> None:
    part, marked = shown("x" * 1000 + " 资料 " + "y" * 1000, "资料")

    assert marked == ["资料"]
    assert len(part) <= SNIPPET + 2
