"""A workflow as a person sees it: how far it is, in figures and in one word."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ozzie_server_ext.render.graph.view import GraphView, StepState, state_of_all
from tests.unit.render.graphs import NOW, START, reworked, step, tender_scan, weekly_review


def test_skipped_failed_and_stopped_steps_count_as_settled() -> None:
    states: tuple[StepState, ...] = ("Done", "Failed", "Skipped", "Stopped", "Working", "Waiting", "Waiting for you")
    view = GraphView(name="w", steps=tuple(step(state, state=state) for state in states))

    assert view.counts == "4 of 7"
    assert (view.running, view.failed, view.asking) == (1, 1, 1)
    assert [each.title for each in view.problems] == ["Failed", "Waiting for you"]


def test_the_counts_of_a_large_workflow() -> None:
    assert (tender_scan().counts, tender_scan().running, tender_scan().failed) == ("150 of 200", 12, 2)


@pytest.mark.parametrize(
    ("states", "word"),
    [
        (["Waiting for you", "Needs a decision", "Failed"], "Needs a decision"),
        (["Failed", "Waiting for your answer", "Working"], "Waiting for your answer"),
        (["Working", "Failed"], "Failed"),
        (["Done", "Working", "Waiting"], "Working"),
        (["Done", "Waiting"], "Working"),
        (["Paused", "Working"], "Working"),
        (["Paused", "Done", "Waiting"], "Paused"),
        (["Waiting", "Waiting"], "Waiting"),
        (["Done", "Stopped", "Skipped"], "Stopped"),
        (["Done", "Skipped"], "Done"),
        (["Skipped", "Skipped"], "Skipped"),
        (["Done"], "Done"),
    ],
)
def test_several_steps_in_one_word(states: list[StepState], word: StepState) -> None:
    assert state_of_all(states) == word
    assert state_of_all(reversed(states)) == word


def test_a_state_machine_is_as_far_as_its_current_state() -> None:
    assert reworked().state == "Working"
    assert replace(reworked(), current="review").state == "Done"
    assert replace(reworked(), current="nowhere").state == "Working"


def test_what_is_held_is_paused_unless_a_person_is_asked() -> None:
    asking = replace(weekly_review(), is_held=True)
    held = replace(asking, steps=asking.steps[:-1])

    assert (asking.state, held.state, replace(held, is_held=False).state) == ("Waiting for you", "Paused", "Working")
    assert replace(reworked(), is_held=True, current="review").state == "Paused"


def test_how_long_a_step_took_or_has_been_running() -> None:
    ended = step("a", seconds=2.5)
    running = step("b", state="Working")

    assert ended.seconds(NOW) == 2.5
    assert running.seconds(START + timedelta(seconds=4)) == 4
    assert running.seconds() is None
    assert step("c").seconds(NOW) is None
    assert running.seconds(START - timedelta(seconds=4)) == 0
    assert replace(running, state="Stopped").seconds(NOW) is None
    assert replace(running, state="Paused").seconds(NOW) is None
