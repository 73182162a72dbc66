"""Which tools there are: found by every name, and no name taken twice."""

from typing import Any

import pytest

from ozzie_server_ext.domain.approvals import may_cover, weakest_way
from ozzie_server_ext.domain.content import Label
from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.toolmeta import RiskLevel, SideEffect, TargetKind
from ozzie_server_ext.policy.engine import default_for
from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.unit.tools.test_base import tool


def named(tool_id: str, name: str, *further: str) -> Tool:
    return tool(tool_id=tool_id, name=name, further_names=further)


def test_a_tool_is_found_by_its_id_its_name_and_its_further_names() -> None:
    read = named("fs.read", "read_file", "file_read")
    registry = ToolRegistry([read])

    assert [registry.find(name) for name in ("fs.read", "read_file", "file_read")] == [read, read, read]
    assert registry.find("read") is None
    assert registry.find("READ_FILE") is None


@pytest.mark.parametrize(
    "thief",
    [
        ("evil.read", "read_file"),
        ("fs.read", "other"),
        ("evil.read", "other", "file_read"),
        ("evil.read", "file_read"),
    ],
)
def test_a_tool_can_not_take_anothers_name_in_any_way(thief: tuple[str, ...]) -> None:
    honest = named("fs.read", "read_file", "file_read")
    registry = ToolRegistry([honest])

    with pytest.raises(Conflict, match=r"belongs to the tool fs\.read already") as refused:
        registry.register(named(*thief))

    assert refused.value.code == "tool.name_taken"
    assert registry.all() == (honest,)
    assert registry.find("other") is None, "a refused tool must leave nothing behind"


def test_tools_are_listed_by_id_whatever_the_order_they_came_in() -> None:
    tools = [named("b.b", "x"), named("a.a", "z"), named("c.c", "y")]

    assert [item.meta.tool_id for item in ToolRegistry(tools).all()] == ["a.a", "b.b", "c.c"]


@pytest.mark.parametrize("item", builtin_tools(), ids=lambda item: item.meta.tool_id)
def test_every_built_in_tool_says_what_it_is_for_and_what_it_acts_on(item: Any) -> None:
    named = {target.argument for target in item.meta.targets if target.kind is not TargetKind.OBJECT}
    told = ("argv", "url")
    paths = {name for name in item.spec.parameters["properties"] if "path" in name or "folder" in name or name in told}
    assert named == paths, "what a rule can't see, it can't forbid"
    assert item.spec.name == item.meta.name
    assert len(item.spec.description) > 20
    longest = item.spec.parameters["properties"].get("timeout_s", {}).get("maximum", 0)
    assert 0 < item.meta.timeout_s <= longest + 60


def test_what_changes_files_can_be_undone_a_note_is_of_a_low_risk_and_only_code_in_a_kernel_can_do_anything() -> None:
    changing = [item.meta for item in builtin_tools() if item.meta.side_effect is not SideEffect.NONE]

    assert {meta.tool_id: (meta.side_effect, meta.risk_level) for meta in changing} == {
        "fs.write": (SideEffect.REVERSIBLE, RiskLevel.MEDIUM),
        "fs.edit": (SideEffect.REVERSIBLE, RiskLevel.MEDIUM),
        "fs.trash": (SideEffect.REVERSIBLE, RiskLevel.MEDIUM),
        "fs.apply": (SideEffect.REVERSIBLE, RiskLevel.MEDIUM),
        "kernel.run": (SideEffect.IRREVERSIBLE, RiskLevel.HIGH),
        "notebook.delete": (SideEffect.REVERSIBLE, RiskLevel.MEDIUM),
        "notebook.edit": (SideEffect.REVERSIBLE, RiskLevel.MEDIUM),
        "notebook.insert": (SideEffect.REVERSIBLE, RiskLevel.MEDIUM),
        "notebook.move": (SideEffect.REVERSIBLE, RiskLevel.MEDIUM),
        "notebook.run": (SideEffect.IRREVERSIBLE, RiskLevel.HIGH),
        "notebook.undo": (SideEffect.REVERSIBLE, RiskLevel.MEDIUM),
        "note.write": (SideEffect.REVERSIBLE, RiskLevel.LOW),
        "task.cancel": (SideEffect.REVERSIBLE, RiskLevel.MEDIUM),
        "host.run": (SideEffect.IRREVERSIBLE, RiskLevel.HIGH),
    }


def test_the_built_in_tools_have_the_names_that_several_parts_share() -> None:
    names = {item.meta.tool_id: (item.meta.name, *item.meta.further_names) for item in builtin_tools()}

    assert names == {
        "calc.eval": ("calculator",),
        "time.now": ("current_time",),
        "user.ask": ("ask_user",),
        "session.list": ("ozzie_sessions",),
        "session.read": ("ozzie_session_read",),
        "session.artifact": ("ozzie_artifact_read",),
        "task.list": ("list_tasks",),
        "task.cancel": ("cancel_task",),
        "fs.list": ("list_files",),
        "fs.read": ("read_file", "file_read"),
        "fs.search": ("search",),
        "fs.find": ("find_files",),
        "artifact.read": ("read_artifact",),
        "fs.write": ("write_file",),
        "fs.edit": ("edit_file",),
        "fs.trash": ("trash_file",),
        "fs.apply": ("apply_changes",),
        "note.read": ("read_note",),
        "note.write": ("write_note",),
        "shell.run": ("shell", "cmd"),
        "code.python": ("python",),
        "kernel.list": ("list_kernels",),
        "kernel.inspect": ("inspect_kernel",),
        "kernel.run": ("run_in_kernel",),
        "notebook.read": ("read_notebook",),
        "notebook.insert": ("insert_cell",),
        "notebook.edit": ("edit_cell",),
        "notebook.move": ("move_cell",),
        "notebook.delete": ("delete_cell",),
        "notebook.undo": ("undo_cell_edit",),
        "notebook.run": ("run_cell",),
        "host.run": ("host_command",),
        "web.fetch": ("fetch_url",),
        "web.search": ("web_search",),
        "tool.find": ("find_tools",),
        "skill.gate": ("gate",),
    }


def test_what_reaches_out_says_so_and_what_it_brings() -> None:
    """A call that changes nothing can carry content away."""
    out = {item.meta.tool_id: item.meta.brings for item in builtin_tools() if item.meta.is_outbound}

    assert out == {"host.run": Label.OUTPUT, "web.fetch": Label.WEB, "web.search": Label.WEB}


def test_of_every_tool_that_comes_with_ozzie_it_is_known_what_it_may_do_unasked() -> None:
    """Whoever adds a tool says here what holds for it: runs it or asks, who may answer, and whether for the session."""
    known = {
        "artifact.read": ("ALLOW", "relay", True),
        "calc.eval": ("ALLOW", "relay", True),
        "code.python": ("ALLOW", "relay", True),
        "fs.apply": ("ASK", "relay", True),
        "fs.edit": ("ASK", "relay", True),
        "fs.find": ("ALLOW", "relay", True),
        "fs.list": ("ALLOW", "relay", True),
        "fs.read": ("ALLOW", "relay", True),
        "fs.search": ("ALLOW", "relay", True),
        "fs.trash": ("ASK", "relay", True),
        "fs.write": ("ASK", "relay", True),
        "kernel.inspect": ("ALLOW", "relay", True),
        "kernel.list": ("ALLOW", "relay", True),
        "kernel.run": ("ASK", "cli", False),
        "notebook.delete": ("ASK", "relay", True),
        "notebook.edit": ("ASK", "relay", True),
        "notebook.insert": ("ASK", "relay", True),
        "notebook.move": ("ASK", "relay", True),
        "notebook.read": ("ALLOW", "relay", True),
        "notebook.run": ("ASK", "cli", False),
        "notebook.undo": ("ASK", "relay", True),
        "host.run": ("ASK", "cli", False),
        "note.read": ("ALLOW", "relay", True),
        "note.write": ("ALLOW", "relay", True),
        "shell.run": ("ALLOW", "relay", True),
        "session.artifact": ("ALLOW", "relay", True),
        "session.list": ("ALLOW", "relay", True),
        "session.read": ("ALLOW", "relay", True),
        "skill.gate": ("ALLOW", "relay", False),
        "task.cancel": ("ASK", "relay", True),
        "task.list": ("ALLOW", "relay", True),
        "time.now": ("ALLOW", "relay", True),
        "tool.find": ("ALLOW", "relay", True),
        "user.ask": ("ALLOW", "relay", True),
        "web.fetch": ("ALLOW", "relay", True),
        "web.search": ("ALLOW", "relay", True),
    }

    found = {
        meta.tool_id: (default_for(meta).decision.value, weakest_way(meta).value, may_cover(meta))
        for meta in (item.meta for item in builtin_tools())
    }

    assert found == known
