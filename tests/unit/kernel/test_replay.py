"""What a `%replay` line asks for."""

import pytest

from ozzie_kernel.cells import Mistake, Replay
from ozzie_kernel.cells import parse as parse_cell
from ozzie_kernel.replay import Wanted, parse
from ozzie_server_ext.domain.errors import InputError


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("", Wanted()),
        ("Prices in May", Wanted(session="Prices in May")),
        ('"Prices in May" --turn 3', Wanted(session="Prices in May", turn=3)),
        ("What's new", Wanted(session="What's new")),
        ("--check", Wanted(is_check=True)),
        ("--check Prices --until 2", Wanted(session="Prices", turn=2, is_check=True)),
        ("--check --policy a.jsonc", Wanted(is_check=True, files=(("policy", "a.jsonc"),))),
        (
            "--check --skill a.jsonc --skill 'b c.jsonc'",
            Wanted(is_check=True, files=(("skill", "a.jsonc"), ("skill", "b c.jsonc"))),
        ),
    ],
)
def test_a_line_names_a_session_a_turn_and_what_to_try(line: str, wanted: Wanted) -> None:
    assert parse(line) == wanted


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--turn", "--turn needs a value."),
        ("--turn 0", "0 is no number of a turn."),
        ("--turn three", "three is no number of a turn."),
        ("--turn ٣", "٣ is no number of a turn."),
        ("--speed 4", "%replay has no --speed."),
        ("--policy a.jsonc", "--policy goes with --check."),
        ("--until 3", "--until goes with --check."),
        ("--check --turn 3", "--turn goes without --check."),
        ("--turn 3 --turn 4", "--turn stands there twice."),
        ("--check --policy a --policy b", "--policy stands there twice."),
        ("-x", "%replay has no -x."),
    ],
)
def test_a_line_that_asks_for_nothing_is_refused_in_words(line: str, sentence: str) -> None:
    with pytest.raises(InputError, match=f"^{sentence}") as refused:
        parse(line)
    assert "%replay" in refused.value.hint


def test_it_stands_alone_in_its_cell() -> None:
    assert parse_cell("%replay Prices in May") == Replay("Prices in May")
    assert parse_cell("%replay\n%cost") == Mistake("Put %replay into a separate cell.")
