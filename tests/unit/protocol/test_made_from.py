"""What the messages of a program are made from that Ozzie runs for a call."""

import json

import pytest

from ozzie_server_ext.domain.content import CLEAN, MOST_SOURCES, Content, Label
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.protocol.made_from import VARIABLE, content_in, content_of, with_sources

WEB = Content.of(Label.WEB, ["example.org"])
OUTPUT = Content.of(Label.OUTPUT, ["/usr/bin/git"])


def test_a_program_reads_what_it_was_told_and_hands_on_more() -> None:
    first = with_sources({"HOME": "/home/ana"}, WEB)
    second = with_sources(first, OUTPUT)

    assert first["HOME"] == "/home/ana"
    assert content_in(first) == WEB
    assert content_in(second) == WEB | OUTPUT
    assert content_in({}) == CLEAN


def test_as_many_sources_as_there_can_be_are_taken_in() -> None:
    full = Content.of(Label.WEB, [f"{number}.example" for number in range(2 * MOST_SOURCES)]) | OUTPUT

    assert content_in(with_sources({}, full)) == full


@pytest.mark.parametrize("told", ["", "{", "[]", "{}", "7", "null", '["nonesuch:x"]', "[1]"])
def test_what_can_not_be_read_comes_from_somewhere(told: str) -> None:
    assert content_in({VARIABLE: told}) == Content.of(Label.OUTPUT)


@pytest.mark.parametrize("sources", [["nonesuch:x"], [""], ["web:x"] * (MOST_SOURCES + 1)])
def test_a_sender_that_names_no_source_is_told(sources: list[str]) -> None:
    with pytest.raises(InputError) as refused:
        content_of(sources)

    assert refused.value.hint


def test_a_place_that_is_too_long_is_one_that_nobody_knows() -> None:
    assert content_in({VARIABLE: json.dumps(["web:" + "x" * 5000])}) == Content.of(Label.WEB)
