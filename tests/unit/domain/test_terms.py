"""Queries in words, and where in a text what they find stands."""

import time

import pytest

from ozzie_server_ext.domain.terms import found_at, phrases


def query(text: str) -> list[tuple[tuple[str, ...], bool]]:
    return [(phrase.terms, phrase.is_beginning) for phrase in phrases(text)]


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("Deleting files", [(("delet",), False), (("fil",), False)]),
        ("file FILES filing", [(("fil",), False)]),
        ('"read the file" now', [(("read", "fil"), False), (("now",), False)]),
        ("read_file", [(("read", "fil"), False)]),
        ("calc*", [(("calc",), True)]),
        ("Calculate*", [(("calculat",), True)]),
        ("user_na*", [(("user", "na"), True)]),
        ("ab* 学", [(("ab",), False), (("学",), True)]),
        ("学习资料", [(("学习", "习资", "资料"), False)]),
        ("the which of", []),
        ('"" * " ()', []),
    ],
)
def test_a_query_is_read(text: str, means: list[tuple[tuple[str, ...], bool]]) -> None:
    assert query(text) == means


def test_a_phrase_says_how_it_was_written() -> None:
    assert [phrase.words for phrase in phrases('"Read the file" Files*')] == ["Read the file", "Files*"]


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        ("He deleted the files and calls getUserName in read_file.", "delete user file", ["deleted", "files", "User"]),
        ("我们学习资料在这里", "学习 资料", ["学习资料"]),
        ("Résumé, calculates", "calc* RESUME", ["Résumé", "calculates"]),
        ("nothing here", "zebra", []),
        ("", "zebra", []),
    ],
)
def test_where_the_words_stand(text: str, words: str, found: list[str]) -> None:
    spans = found_at(text, phrases(words))

    assert [text[start:end] for start, end in spans][: len(found)] == found
    assert bool(spans) is bool(found)
    assert spans == sorted(spans)


@pytest.mark.serial
def test_a_long_hostile_text_is_marked_in_linear_time() -> None:
    def seconds(count: int) -> float:
        text = "资aB" * count
        begun = time.process_time()
        found_at(text, phrases("zebra 资a*"))
        return time.process_time() - begun

    assert seconds(8_000) < 20 * max(seconds(1_000), 0.001)
