"""Which answer somebody means: by its name, or by the label that they saw."""

import pytest

from ozzie_server_ext.domain.approvals import find_option, parse_answer
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import PromptOption


def options(*labels: str) -> list[PromptOption]:
    choices = [PromptOption(name=str(number), label=label) for number, label in enumerate(labels, 1)]
    return [*choices, PromptOption(name="skip", label="Skip")]


@pytest.mark.parametrize(
    ("labels", "given", "name"),
    [
        (("Tea", "Coffee"), "2", "2"),
        (("Tea", "Coffee"), "tea", "1"),
        (("Tea", "Coffee"), "  COFFEE ", "2"),
        (("A glass  of water", "Tea"), "a glass of water", "1"),
        (("Straße", "Platz"), "STRASSE", "1"),
        (("2", "1"), "2", "2"),
        (("Skip", "Tea"), "skip", "skip"),
        (("tea", "Tea"), "Tea", "2"),
    ],
)
def test_the_name_comes_first_and_then_the_label_in_small_or_large_letters(
    labels: tuple[str, ...], given: str, name: str
) -> None:
    assert find_option(options(*labels), given).name == name


@pytest.mark.parametrize("given", ["", "water", "te", "1 (Tea)", "SKIP IT"])
def test_what_is_neither_is_no_answer_and_all_there_are_are_named(given: str) -> None:
    with pytest.raises(InputError) as refused:
        find_option(options("Tea", "Coffee"), given)

    assert (str(refused.value), refused.value.code) == (f'"{given}" is no answer to this.', "answer.unknown")
    assert refused.value.hint == "There are: 1 (Tea), 2 (Coffee), skip."


def test_a_label_that_two_have_is_not_guessed() -> None:
    with pytest.raises(InputError, match='"TEA" may be more than one of the answers'):
        find_option(options("Tea", "tea"), "TEA")


def test_long_labels_are_cut_where_they_are_named() -> None:
    with pytest.raises(InputError) as refused:
        find_option(options("A very long label " * 6), "x" * 500)

    assert max(map(len, (str(refused.value), refused.value.hint))) < 80


WRITTEN = PromptOption(name="text", label="Answer", takes_text=True)


@pytest.mark.parametrize(
    ("given", "words", "expected"),
    [
        ("Rome", "", ("text", "Rome")),
        ("New", "York City", ("text", "New York City")),
        ("1", "", ("text", "1")),
        ("text", "Rome", ("text", "Rome")),
        ("Answer", "Rome", ("text", "Rome")),
        ("skip", "", ("skip", "")),
    ],
)
def test_where_only_words_are_wanted_what_is_given_is_the_answer(
    given: str, words: str, expected: tuple[str, str]
) -> None:
    option, text = parse_answer([WRITTEN, *options()], given, words)
    assert (option.name, text) == expected


@pytest.mark.parametrize("offered", [[*options("Tea"), WRITTEN], options()])
def test_where_there_is_something_to_choose_what_is_mistyped_is_no_answer(offered: list[PromptOption]) -> None:
    with pytest.raises(InputError):
        parse_answer(offered, "Taa")
