"""A state machine goes from state to state, back too, and ends in a final one."""

from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.events import StepCompleted, StepFailed, StepStarted
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.skills.library import read
from ozzie_server_ext.skills.run import Begin, Done, Failed, FsmRun
from ozzie_server_ext.skills.spec import FsmSkill
from ozzie_server_ext.skills.templates import Output, Values

LETTER: list[dict[str, Any]] = [
    {"id": "draft", "instruction": "x", "moves": [{"to": "review"}, {"on": "failed", "to": "given-up"}]},
    {
        "id": "review",
        "approve": {"question": "Send it?"},
        "moves": [{"on": "approved", "to": "sent"}, {"on": "rejected", "to": "rework"}],
    },
    {
        "id": "rework",
        "instruction": "x",
        "moves": [{"to": "sent", "when": "{{steps.rework.output}} == 'final'"}, {"to": "review"}],
    },
    {"id": "sent", "final": True},
    {"id": "given-up", "final": True, "outcome": "failed"},
]


def machine(states: list[dict[str, Any]], **more: Json) -> FsmRun:
    skill = read(Path("FILE"), dumps({"name": "f", "type": "fsm", "states": states, **more}).encode()).skill
    assert isinstance(skill, FsmSkill)
    return FsmRun(skill, Values({}))


def begin(run: FsmRun) -> str:
    (each,) = run.next()
    assert isinstance(each, Begin)
    run.apply(StepStarted(step_id=each.work.id, visit=each.visit, attempt=each.attempt))
    return each.work.id


def end(run: FsmRun, event: str = "done", value: Json = "text") -> None:
    record = run.records[run.current]
    to = run.leads_to(run.steps[run.current], event, Output(value))
    done = StepCompleted(
        step_id=run.current, output=value, visit=record.visit, attempt=record.attempt, event=event, to=to
    )
    run.apply(done)


def fail(run: FsmRun) -> None:
    record = run.records[run.current]
    failed = StepFailed(
        step_id=run.current,
        kind="model",
        code="c",
        message="It broke.",
        visit=record.visit,
        attempt=record.attempt,
        to=run.leads_to(run.steps[run.current], "failed"),
    )
    run.apply(failed)


def test_it_goes_back_as_often_as_it_is_rejected_and_ends_with_what_was_written_last() -> None:
    run = machine(LETTER)
    assert begin(run) == "draft"
    assert list(run.next()) == []
    end(run, value="first")
    for number in (1, 2):
        assert begin(run) == "review"
        assert run.records["review"].visit == number
        end(run, "rejected", {"comment": "No."})
        assert begin(run) == "rework"
        end(run, value=f"version {number + 1}")
    assert begin(run) == "review"
    end(run, "approved", "version 3")
    assert run.ended == Done(Output("version 3"))
    assert list(run.next()) == []


def test_the_first_move_whose_condition_holds_is_taken() -> None:
    run = machine(LETTER)
    begin(run)
    end(run)
    begin(run)
    end(run, "rejected")
    begin(run)
    end(run, value="final")
    assert isinstance(run.ended, Done)
    assert run.current == "sent"


def test_a_failure_leads_on_only_where_a_move_says_so() -> None:
    run = machine(LETTER)
    begin(run)
    fail(run)
    assert run.ended == Failed("It ended in the state given-up.", "given-up")

    run = machine(LETTER)
    begin(run)
    end(run)
    begin(run)
    fail(run)
    assert run.ended == Failed("review: It broke.", "review")


def test_a_retry_comes_to_the_state_that_failed_once_more() -> None:
    run = machine(LETTER)
    begin(run)
    end(run)
    begin(run)
    fail(run)
    run.retried()
    assert begin(run) == "review"
    assert (run.records["review"].visit, run.records["review"].attempt) == (2, 1)


def test_an_event_that_leads_nowhere_ends_it_in_words() -> None:
    states = [{**LETTER[1], "moves": [{"on": "approved", "to": "sent"}]}, LETTER[3]]
    run = machine(states)
    begin(run)
    end(run, "rejected")
    assert run.ended == Failed('review ended with "rejected", and no move leads on from there.', "review")


@pytest.mark.parametrize("most", [1, 7])
def test_one_that_goes_round_for_ever_is_ended(most: int) -> None:
    states: list[dict[str, Any]] = [
        {"id": "a", "instruction": "x", "moves": [{"to": "b"}]},
        {"id": "b", "instruction": "x", "moves": [{"to": "a"}, {"to": "c"}]},
        {"id": "c", "final": True},
    ]
    run = machine(states, max_moves=most)
    moves = 0
    while run.ended is None and moves < 100:
        begin(run)
        end(run)
        moves += 1
    assert moves == most
    assert isinstance(run.ended, Failed)
    assert f"within {most} moves" in run.ended.message
