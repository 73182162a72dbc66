"""Failures by their class, with a next step, and the steps that a run failed by."""

from typing import get_args

import pytest

from ozzie_server_ext.agent.model_call import IncompleteAnswer
from ozzie_server_ext.agent.rounds import LimitExceeded
from ozzie_server_ext.agent.structured_output import UnfitAnswer
from ozzie_server_ext.domain.errors import NotFound, OzzieError, PolicyError
from ozzie_server_ext.domain.events import (
    Draft,
    Event,
    EventBody,
    FailureKind,
    PlannedStep,
    SkillFailed,
    SkillStarted,
    StepFailed,
    StepStarted,
)
from ozzie_server_ext.domain.ids import BlobRef, SessionId, TaskId, task_stream
from ozzie_server_ext.models.driver import ModelChoice
from ozzie_server_ext.models.failures import model_error
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.failures import NEXT_STEPS, SkillFailedError, class_of, failed_steps
from ozzie_server_ext.tools.base import ToolFailed, uncertain

CHOICE = ModelChoice(alias="main", provider="p", driver="openai", model="m")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (model_error("provider.auth", CHOICE), "model"),
        (IncompleteAnswer("It broke off."), "model"),
        (OzzieError("Unknown.", code="model.unknown"), "model"),
        (UnfitAnswer("It is no JSON."), "parse"),
        (ToolFailed("No such file."), "tool"),
        (uncertain("send_mail"), "tool"),
        (LimitExceeded("Too long."), "business"),
        (PolicyError("Not allowed."), "business"),
        (SkillFailedError("No result.", hint="", kind="tool"), "tool"),
        (NotFound("There is no session."), "system"),
    ],
)
def test_each_failure_has_its_class(error: OzzieError, kind: str) -> None:
    assert class_of(error) == kind


def test_each_class_has_a_next_step() -> None:
    assert set(NEXT_STEPS) == set(get_args(FailureKind))
    assert all(step.endswith(".") for step in NEXT_STEPS.values())


async def record(bodies: list[EventBody]) -> tuple[Event, ...]:
    log, task_id = InMemoryEventLog(FakeClock(), CountingIds()), TaskId("t")
    drafts = [
        Draft(body=body, actor="kernel", source="test", session_id=SessionId("s"), task_id=task_id) for body in bodies
    ]
    return await log.append(task_stream(task_id), drafts)


async def test_the_steps_that_a_run_failed_by_come_with_what_to_do_the_one_that_ended_it_first() -> None:
    planned = tuple(PlannedStep(step_id=step_id, title=step_id.upper()) for step_id in "abcd")
    bodies: list[EventBody] = [
        SkillStarted(skill="w", kind="workflow", version="v", file=BlobRef("f"), input={}, steps=planned),
        *(StepStarted(step_id=step_id, task=TaskId(f"t-{step_id}")) for step_id in "abcd"),
        StepFailed(step_id="a", kind="model", code="provider.auth", message="No key."),
        StepFailed(step_id="b", kind="tool", code="tool.failed", message="No file.", hint="Write it."),
        StepFailed(step_id="c", kind="model", code="provider.down", message="Down.", again_in_s=1.0),
        StepFailed(step_id="d", kind="business", code="step.timeout", message="Late.", to="next"),
        SkillFailed(skill="w", message="B: No file.", step_id="b"),
    ]
    recorded = await record(bodies)

    found = failed_steps(recorded)

    assert [(step.step_id, step.title, step.task, step.kind) for step in found] == [
        ("b", "B", "t-b", "tool"),
        ("a", "A", "t-a", "model"),
    ]
    assert [step.hint for step in found] == ["Write it.", NEXT_STEPS["model"]]
    again = await record([*bodies, StepStarted(step_id="b", visit=2)])
    assert [step.step_id for step in failed_steps(again)] == ["a"], "what is begun again has not failed yet"
