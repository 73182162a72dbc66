"""What the gateway words for a cell is told in a terminal's own words."""

from typing import Any, get_args

import pytest

from ozzie_server_ext.cli.terminal import failure_lines, for_terminal, state_word
from ozzie_server_ext.models.driver import ModelChoice, ModelErrorCode
from ozzie_server_ext.models.failures import model_error

CHOICE = ModelChoice(alias="main", provider="p", driver="openai", model="m")


@pytest.mark.parametrize("code", get_args(ModelErrorCode))
def test_no_hint_of_a_failed_model_speaks_of_cells_and_magics(code: ModelErrorCode) -> None:
    hint = for_terminal(model_error(code, CHOICE, after_s=3).hint)
    assert "%" not in hint
    assert "cell" not in hint


@pytest.mark.parametrize(
    ("in_a_cell", "here"),
    [
        (
            "Run the cell again in 7 s, or choose another model with %model.",
            "Ask again in 7 s, or choose another model with --model.",
        ),
        (
            "Go on in it with %session resume sess_1, or begin another with %session new.",
            "Go on in it with ozzie sessions resume sess_1, or begin another with --session NAME.",
        ),
        ("List them with %session list.", "List them with ozzie sessions list."),
        ("Check the disk.", "Check the disk."),
    ],
)
def test_a_hint_names_what_one_does_here(in_a_cell: str, here: str) -> None:
    assert for_terminal(in_a_cell) == here


def test_a_failure_is_its_sentence_and_what_to_do() -> None:
    assert failure_lines({"message": "No.\x1b[31m", "hint": "Run the cell again."}) == ["No.\\u001b[31m", "Ask again."]
    assert failure_lines({"message": "No.", "hint": ""}) == ["No."]


def a_task(status: str, **other: Any) -> dict[str, Any]:
    return {"status": status, "mode": "FREE", "waiting": [], "stopping": False, "pausing": False, **other}


def test_a_task_that_is_to_be_held_says_so_unless_it_waits_for_a_person() -> None:
    words = [state_word(a_task(status, pausing=True)) for status in ("RUNNING", "QUEUED", "WAITING_APPROVAL")]
    assert words == ["Pausing", "Pausing", "Waiting for you"]
    assert (state_word(a_task("RUNNING")), state_word(a_task("PAUSED"))) == ("Working", "Paused")


def test_a_run_is_shown_as_its_step_that_waits_for_a_person_and_else_waits_for_a_signal() -> None:
    asks = {"task_id": "t", "title": "x: gate", "status": "WAITING_APPROVAL"}
    assert state_word(a_task("RUNNING", waiting=[asks], mode="GRAPH")) == "Waiting for you"
    assert state_word(a_task("WAITING_INPUT", waiting=[asks], mode="GRAPH")) == "Waiting for you"
    assert state_word(a_task("WAITING_INPUT", mode="GRAPH")) == "Waiting"
    assert state_word(a_task("WAITING_INPUT")) == "Waiting for you"


def test_a_task_whose_end_was_asked_for_says_so_whatever_else_was_asked_of_it() -> None:
    assert state_word(a_task("RUNNING", stopping=True)) == "Stopping"
    assert state_word(a_task("RUNNING", stopping=True, pausing=True)) == "Stopping"
    assert state_word(a_task("CANCELLED", stopping=True)) == "Stopped"
