"""The documents' skills, read and run."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import ConfigError, JsoncError
from ozzie_server_ext.config.settings import Settings
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import (
    SkillStarted,
    StepCompleted,
    StepStarted,
    TaskCreated,
)
from ozzie_server_ext.domain.ids import task_stream
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Say, Step, Wait
from ozzie_server_ext.protocol.frames import (
    event_frame,
)
from ozzie_server_ext.skills.library import Library, of_tools
from ozzie_server_ext.skills.library import read as read_skill
from ozzie_server_ext.skills.spec import WorkflowSkill
from tests.documents.examples_read import (
    EXAMPLES,
    TOOLS,
    WAIT_S,
    configured,
    jsonc,
    one_of,
    put_skill,
    quoted,
    skill,
    template,
    text,
)
from tests.integration.tasks.runs_rig import Runs

SKILLS = sorted(path.name for path in EXAMPLES.glob("skill_*.jsonc"))


@pytest.mark.parametrize("name", SKILLS)
def test_a_skill_is_read_whole_and_its_tools_are_here(name: str) -> None:
    found = skill(name)

    assert found.skill.model_dump(mode="json", exclude_unset=True) == jsonc(name)
    assert list(of_tools(found.skill, TOOLS)) == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("skill_researcher.jsonc", ""),
        ("skill_researcher_short.jsonc", ""),
        ("skill_quick_translate.jsonc", ""),
        ("skill_compliance_checker.jsonc", ""),
        ("skill_code_review.jsonc", ""),
        ("skill_deploy.jsonc", ""),
        (
            "skill_code_review_simple.jsonc",
            'line 6, column 3: model: there is no model "claude-sonnet". There are: offline, sonnet, haiku, '
            "gemini-pro, gpt4, infomaniak-llm, local-llama, compliance-ft.",
        ),
    ],
)
def test_a_skill_is_used_if_the_documents_models_have_what_it_names(tmp_path: Path, name: str, problem: str) -> None:
    settings = configured(tmp_path, text("config_models.jsonc")).settings
    path = tmp_path / "home" / "skills" / name
    path.write_text(text(name))
    library = Library(Home(tmp_path / "home"), tmp_path / "project", tmp_path / "shipped", lambda: settings)
    (found,) = library.shelf().found

    assert found.problem == (f"{path}, {problem}" if problem else "")
    assert (found.file is None) == bool(problem)


def test_a_skill_is_not_used_if_no_model_meets_its_selector(tmp_path: Path) -> None:
    path = tmp_path / "skill_compliance_checker.jsonc"
    path.write_text(text(path.name))
    home = Home(tmp_path / "home")
    (found,) = Library(home, tmp_path / "project", tmp_path, Settings).shelf().found

    assert found.problem == (
        f"{path}, line 3, column 3: model_selector: no model is configured, so none can be chosen by its tags."
    )


async def test_the_workflow_runs_its_steps_in_order(runs: Runs) -> None:
    put_skill(runs, "skill_deploy.jsonc")
    with pytest.raises(InputError, match=r'^deploy needs "env"\.$'):
        await runs.begin("deploy")
    task_id = await runs.run("deploy", env="prod")

    assert list((await runs.outputs(task_id)).items()) == [
        ("build", "<Build the project.>"),
        ("test", "<Run tests.>"),
        ("deploy", "<Deploy to prod.>"),
    ]
    names = [event_frame(event).event for event in await runs.ozzie.log.read_stream(task_stream(task_id))]
    of_skills = [name for name in quoted("event_names_s1.md") if name.startswith("skill.")]
    assert [name for name in names if name in of_skills] == [
        "skill.started",
        *["skill.step.started", "skill.step.completed"] * 3,
        "skill.completed",
    ]


async def test_the_reviews_run_side_by_side_and_the_acceptance_is_checked(runs: Runs) -> None:
    put_skill(runs, "skill_code_review.jsonc")
    go, waiting = asyncio.Event(), [asyncio.Event() for _ in range(3)]
    there = iter(waiting)

    def answer(request: ModelRequest) -> Sequence[Step]:
        said = request.messages[-1].content
        if said.startswith("Check"):
            return [Wait(go, next(there)), Say("fine")]
        return [Say('{"holds": true, "why": "None is left."}' if '"holds"' in request.messages[0].content else "read")]

    runs.answers(answer)
    task_id = await runs.begin("code-review", target="main")
    async with asyncio.timeout(WAIT_S):
        for each in waiting:
            await each.wait()
    go.set()
    assert await runs.rests(task_id) == "task.succeeded"

    (started,) = await runs.facts(task_id, SkillStarted)
    assert started.input == {"target": "main", "focus": "all"}
    begun = await runs.facts(task_id, StepStarted)
    assert begun[0].step_id == "gather-context"
    assert {each.step_id for each in begun[1:4]} == {"review-correctness", "review-security", "review-style"}
    assert (await runs.facts(task_id, StepCompleted))[-1].accepted == "None is left."
    workflow = skill("skill_code_review.jsonc").skill
    assert isinstance(workflow, WorkflowSkill)
    for each in begun:
        assert each.task is not None
        (created,) = await runs.facts(each.task, TaskCreated)
        assert [created.model] == [step.model for step in workflow.steps if step.id == each.step_id]


async def test_the_first_step_is_told_what_is_to_be_reviewed(runs: Runs) -> None:
    put_skill(runs, "skill_code_review.jsonc")
    told: list[str] = []

    def answer(request: ModelRequest) -> Sequence[Step]:
        told.append("\n".join(message.content for message in request.messages))
        return [Say('{"holds": true, "why": "None is left."}')]

    runs.answers(answer)
    await runs.run("code-review", target="the-branch-in-question")

    assert "the-branch-in-question" in told[0]


def test_a_skill_in_yaml_is_refused_and_its_keys_are_taken_in_json() -> None:
    with pytest.raises(JsoncError) as caught:
        skill("skill_spec.yaml")
    assert str(caught.value) == "skill_spec.yaml, line 1, column 1: expected a value, found 'SkillSpec:\\n '."

    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    values = template("skill_spec.yaml") | {"name": "s", "version": "1.2.0", "tools_allowed": ["search"]}
    for level in one_of(values["risk_level"]):
        for policy in one_of(values["tool_policy"]):
            for mode in one_of(values["approval_policy"]["mode"]):
                given = values | {"input_model": schema, "output_model": schema}
                given |= {"risk_level": level, "tool_policy": policy, "approval_policy": {"mode": mode}}
                found = read_skill(Path("s"), json.dumps(given).encode()).skill.model_dump(exclude_unset=True)
                assert found.pop("tools") == ("search",)
                assert found == {key: value for key, value in given.items() if key != "tools_allowed"}
    with pytest.raises(ConfigError, match="input_model: must be an object in braces; it is 'PydanticModel'"):
        read_skill(Path("s"), json.dumps(values).encode())
