"""docs/skills.md: every key stands in it, and its examples are taken as they stand."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from ozzie_server_ext.skills.library import read
from ozzie_server_ext.skills.spec import (
    ApprovalPolicy,
    Approve,
    Ask,
    Budget,
    Call,
    FsmSkill,
    Move,
    RetryPolicy,
    SimpleSkill,
    State,
    Step,
    Triggers,
    Var,
    Wait,
    WorkflowSkill,
)

TEXT = (Path(__file__).parents[2] / "docs" / "skills.md").read_text()
EXAMPLES = re.findall(r"```jsonc\n(.*?)```", TEXT, re.DOTALL)
MODELS = (
    SimpleSkill, WorkflowSkill, FsmSkill, Step, State, Move, Var, Triggers, Budget, RetryPolicy, ApprovalPolicy, Call,
    Ask, Approve, Wait,
)  # fmt: skip


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_key_stands_in_the_document(model: type[BaseModel]) -> None:
    keys = {name.removesuffix("_") for name in model.model_fields}
    missing = {key for key in keys if f"`{key}`" not in TEXT and f'"{key}"' not in TEXT}
    assert not missing


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_its_examples_are_taken_as_they_stand(text: str) -> None:
    assert read(Path("FILE"), text.encode()).skill.name


def test_there_is_an_example_of_each_type() -> None:
    assert {read(Path("FILE"), text.encode()).skill.type for text in EXAMPLES} == {"simple", "workflow", "fsm"}
