"""A skill file is taken, or told what is wrong with it, and where."""

from pathlib import Path

import pytest

from ozzie_server_ext.config.jsonc import ConfigError, JsoncError
from ozzie_server_ext.skills.library import SkillError, of_tools, read
from ozzie_server_ext.skills.spec import FsmSkill, SimpleSkill, WorkflowSkill
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.unit.skills.broken import BROKEN, Broken
from tests.unit.skills.documents import ALL, CODE_REVIEW_S3, COMPLIANCE_CHECKER_S0, RESEARCHER_S0

FILE = Path("FILE")


@pytest.mark.parametrize("broken", BROKEN.values(), ids=list(BROKEN))
def test_a_broken_file_is_told_what_is_wrong_and_where(broken: Broken) -> None:
    with pytest.raises((ConfigError, JsoncError)) as caught:
        read(FILE, broken.text.encode())
    assert str(caught.value) == broken.says
    assert caught.value.hint or isinstance(caught.value, ConfigError)


@pytest.mark.parametrize("text", ALL.values(), ids=list(ALL))
def test_the_examples_of_the_specifications_are_taken_and_their_tools_are_here(text: str) -> None:
    registry = ToolRegistry(builtin_tools())
    file = read(FILE, text.encode())
    assert not list(of_tools(file.skill, registry))


def test_a_simple_skill_has_what_its_file_says() -> None:
    skill = read(FILE, RESEARCHER_S0.encode()).skill
    assert isinstance(skill, SimpleSkill)
    assert (skill.name, skill.model, skill.max_iterations) == ("researcher", "sonnet", 15)
    assert skill.tools == ("web_search", "fetch_url")
    assert skill.triggers.keywords == ("research", "find out", "investigate")
    assert skill.triggers.delegation
    assert skill.triggers.cron is None


def test_a_workflow_has_its_steps_in_their_order_with_what_they_need() -> None:
    skill = read(FILE, CODE_REVIEW_S3.encode()).skill
    assert isinstance(skill, WorkflowSkill)
    assert {step.id: step.needs for step in skill.steps} == {
        "gather-context": (),
        "review-correctness": ("gather-context",),
        "review-security": ("gather-context",),
        "review-style": ("gather-context",),
        "synthesize": ("review-correctness", "review-security", "review-style"),
    }
    assert skill.steps[4].acceptance == "All critical issues addressed"
    assert (skill.vars["target"].required, skill.vars["focus"].default) == (True, "all")


def test_a_selector_is_read_as_that_of_an_alias_is() -> None:
    skill = read(FILE, COMPLIANCE_CHECKER_S0.encode()).skill
    assert skill.model_selector is not None
    assert [str(each) for each in skill.model_selector.required] == [
        "security >= 3",
        "capability in [compliance, general]",
    ]


def test_the_names_of_octoagents_template_are_understood() -> None:
    text = """{"name": "s", "version": "1.2.0", "risk_level": "medium", "tools_allowed": ["search"],
      "tool_policy": "sequential", "approval_policy": {"mode": "human_in_loop"},
      "retry_policy": {"max_attempts": 2, "backoff_ms": 0, "upgrade_model_on_fail": false},
      "input_model": {"properties": {"x": {"type": "integer"}}}, "output_model": {"type": "object"}}"""
    skill = read(FILE, text.encode()).skill
    assert skill.tools == ("search",)
    assert skill.retry_policy is not None
    assert skill.retry_policy.max_attempts == 2
    assert skill.approval_policy is not None
    assert skill.approval_policy.mode == "human_in_loop"


def test_a_state_machine_may_go_back_and_begins_in_its_first_state() -> None:
    text = """{"name": "f", "type": "fsm", "states": [
      {"id": "draft", "instruction": "Write.", "moves": [{"to": "review"}]},
      {"id": "review", "approve": {"question": "Good?", "show": "{{steps.draft.output}}"},
       "moves": [{"on": "approved", "to": "done"}, {"on": "rejected", "to": "draft"}]},
      {"id": "done", "final": true}]}"""
    skill = read(FILE, text.encode()).skill
    assert isinstance(skill, FsmSkill)
    assert skill.first == "draft"


def test_an_unknown_tool_is_told_with_its_place_and_the_nearest_one() -> None:
    text = '{"name": "w", "type": "workflow", "steps": [\n  {"id": "a", "instruction": "x", "tools": ["serch"]}]}'
    registry = ToolRegistry(builtin_tools())
    file = read(FILE, text.encode())
    error = file.error(of_tools(file.skill, registry))
    assert isinstance(error, SkillError)
    assert str(error) == ('FILE, line 2, column 45: steps.0.tools.0: there is no tool "serch"; did you mean "search"?')


def test_a_file_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        read(FILE, b'{"name": "\xff"}')


def test_the_version_of_a_skill_is_that_of_its_file() -> None:
    one, other = read(FILE, b'{"name": "a"}'), read(FILE, b'{"name": "a" }')
    assert one.version != other.version
    assert one.version == read(FILE, b'{"name": "a"}').version
