"""What the model of a step is told of the run's input."""

import json
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.skills.briefing import order_for
from ozzie_server_ext.skills.library import read
from ozzie_server_ext.skills.spec import FsmSkill, WorkflowSkill
from ozzie_server_ext.skills.templates import Output, Values

GIVEN: JsonObject = {"target": "main", "focus": "speed"}


def text_of(step_id: str, *, given: JsonObject = GIVEN, **skill: Any) -> str:
    """The text of a step's order, behind steps that gave "ok"."""
    found = read(Path("s"), json.dumps({"name": "s", "vars": {name: {} for name in given}, **skill}).encode()).skill
    assert isinstance(found, WorkflowSkill | FsmSkill)
    works = {work.id: work for work in (found.steps if isinstance(found, WorkflowSkill) else found.states)}
    values = Values(given)
    values.outputs = {each: Output("ok") for each in works if each != step_id}
    return order_for(found, works[step_id], values).text


def test_input_that_no_text_mentions_is_passed_to_the_first_steps() -> None:
    steps = [{"id": "a", "instruction": "Look."}, {"id": "b", "instruction": "Judge.", "needs": ["a"]}]

    assert text_of("a", type="workflow", steps=steps) == "Look.\n\ntarget: main\nfocus: speed"
    assert text_of("b", type="workflow", steps=steps) == 'Judge.\n\nWhat the step "a" gave:\n\nok'


@pytest.mark.parametrize(
    "mentions",
    [
        {"instruction": "Judge {{target}}."},
        {"call": {"tool": "read_file", "args": {"path": "{{target}}"}}},
        {"instruction": "Judge.", "when": "{{target}} == 'main'"},
        {"instruction": "Judge.", "acceptance": "It is about {{target}}."},
    ],
    ids=["an instruction", "an argument", "a condition", "an acceptance"],
)
def test_input_that_any_text_mentions_is_not(mentions: JsonObject) -> None:
    steps = [{"id": "a", "instruction": "Look."}, {"id": "b", "needs": ["a"], **mentions}]

    assert text_of("a", type="workflow", steps=steps) == "Look.\n\nfocus: speed"


def test_only_the_initial_state_of_a_machine_gets_the_input() -> None:
    states = [
        {"id": "a", "instruction": "Look.", "moves": [{"to": "b"}]},
        {"id": "b", "instruction": "Judge.", "final": True},
    ]

    assert text_of("a", type="fsm", states=states) == "Look.\n\ntarget: main\nfocus: speed"
    assert text_of("b", type="fsm", states=states) == "Judge."


def test_a_run_without_input_adds_nothing_to_an_order() -> None:
    assert text_of("a", given={}, type="workflow", steps=[{"id": "a", "instruction": "Look."}]) == "Look."
