"""A skill as a tool of an agent, and how it runs then: by itself or as a graph."""

import json
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.toolmeta import SideEffect
from ozzie_server_ext.skills.as_tool import SkillTool, skill_tools
from ozzie_server_ext.skills.library import Found, Shelf, SkillFile, read
from ozzie_server_ext.skills.spec import mode_of
from ozzie_server_ext.tools.base import InvalidArguments
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.registry import ToolRegistry

BUILTIN = ToolRegistry(builtin_tools())
STEPS: dict[str, Any] = {"type": "workflow", "steps": [{"id": "a", "instruction": "x"}]}


def skill(name: str = "scout", **more: Any) -> SkillFile:
    return read(Path(f"{name}.jsonc"), json.dumps({"name": name, "instruction": "Look.", **more}).encode())


def shelf(*files: SkillFile) -> Shelf:
    return Shelf(tuple(Found(name=file.skill.name, path=file.path, origin="yours", file=file) for file in files))


def test_its_contract_is_what_its_file_says() -> None:
    tool = SkillTool(skill(description="Looks it up.", vars={"what": {"required": True}}, risk_level="medium"))
    assert (tool.meta.tool_id, tool.meta.name, tool.meta.delegates_to) == ("delegate.scout", "skill_scout", "scout")
    assert (tool.meta.side_effect, tool.meta.risk_level.value) == (SideEffect.NONE, "medium")
    assert tool.spec.description == "Looks it up."
    assert tool.spec.parameters["required"] == ["what"]
    assert tool.check({"what": "tea"}) == {"what": "tea"}


def test_another_file_is_another_version_of_it() -> None:
    assert SkillTool(skill()).meta.version != SkillTool(skill(description="New.")).meta.version


@pytest.mark.parametrize("args", [{}, {"what": 1}, {"what": "tea", "more": "x"}])
def test_what_does_not_fit_is_refused_in_words_that_the_model_can_act_on(args: dict[str, Any]) -> None:
    tool = SkillTool(skill(vars={"what": {"required": True}}))
    with pytest.raises(InvalidArguments, match="The arguments of skill_scout do not fit: "):
        tool.check(args)


@pytest.mark.parametrize(
    ("name", "tool_id"),
    [("code-review", "delegate.code_review"), ("Daily", "delegate.daily"), ("3d", "delegate.n3d")],
)
def test_every_name_of_a_skill_makes_an_id_that_rules_can_name(name: str, tool_id: str) -> None:
    tool = SkillTool(skill(name))
    assert tool.meta.tool_id == tool_id
    assert ToolRegistry([tool]).find(f"skill_{name}") is tool


def test_a_skill_that_is_not_to_be_delegated_to_is_no_tool() -> None:
    found = skill_tools(shelf(skill("a"), skill("b", triggers={"delegation": False})))
    assert [tool.meta.name for tool in found] == ["skill_a"]


def test_files_that_change_change_the_tools_and_take_no_name_of_another() -> None:
    registry = ToolRegistry(builtin_tools())
    count = len(registry.all())
    first = registry.replace((), skill_tools(shelf(skill("a"), skill("b-c"), skill("b_c"))))
    assert [tool.meta.name for tool in first] == ["skill_a", "skill_b-c"]
    second = registry.replace(first, skill_tools(shelf(skill("d"))))
    assert [tool.meta.name for tool in second] == ["skill_d"]
    assert registry.find("skill_a") is None
    assert registry.find("delegate.a") is None
    assert len(registry.all()) == count + 1
    assert registry.replace(second, ()) == ()
    assert len(registry.all()) == count


@pytest.mark.parametrize(
    ("more", "mode", "reason"),
    [
        ({}, "FREE", "Nothing that it may do has to be checked, undone or played again."),
        ({"tools": ["read_file", "edit_file"]}, "FREE", "Nothing that it may do"),
        (STEPS, "GRAPH", "It has steps of its own."),
        ({"type": "fsm", "states": [{"id": "a", "final": True}]}, "GRAPH", "It has steps of its own."),
        ({"dangerous_tools": ["edit_file"]}, "GRAPH", "It may call edit_file, which it asks for first."),
        ({"tools": ["host_command"]}, "GRAPH", "It may call host_command, whose effect can't be undone"),
        ({"acceptance": "It rhymes."}, "GRAPH", "Its result is checked before it counts."),
        ({"output_model": {"type": "object"}}, "GRAPH", "Its result is checked before it counts."),
        ({"risk_level": "high"}, "GRAPH", "Its risk is high."),
    ],
)
def test_how_an_agent_has_it_run_follows_from_what_it_may_do(more: dict[str, Any], mode: str, reason: str) -> None:
    if "type" in more:
        more = {"instruction": None, **more}
    document = {key: value for key, value in {"name": "s", "instruction": "x", **more}.items() if value is not None}
    found = mode_of(read(Path("s.jsonc"), json.dumps(document).encode()).skill, BUILTIN.meta, "delegation")
    assert found.mode == mode
    assert found.reason.startswith(reason)


def test_whoever_runs_it_by_its_name_gets_a_graph_to_look_at() -> None:
    assert mode_of(skill().skill, BUILTIN.meta, "name").mode == "GRAPH"
