"""Edits of notebooks in real turns: what asks, whose yes counts, what a yes is for, and how it is taken back."""

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import (
    ApprovalRequested,
    EventBody,
    Origin,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.jupyter.cells import CellKind, version_of
from ozzie_server_ext.models.scripted import Say, Use
from ozzie_server_ext.tasks.approvals import Answerer
from ozzie_server_ext.tasks.service import NewTurn
from tests.scripted_gateway import ScriptedOzzie
from tests.unit.tools.notebook.test_text import cell, file

WAIT_S = 30
ANA = Answerer(name="Ana", way=AuthStrength.BROWSER)
KERNEL = Answerer(name="the kernel", way=AuthStrength.RELAY)
PATH = "a.ipynb"
ALLOW = """{"rules": [{"id": "cells", "decision": "allow", "reason": "Mine.",
"when": {"tools": ["notebook.*", "insert_cell", "edit_cell", "edit_file", "write_file", "apply_changes"]},
"examples": {"match": [{"tool": "insert_cell", "args": {"path": "a.ipynb", "kind": "code", "source": "x"}}]}}]}"""
MARKDOWN = Use("insert_cell", {"path": PATH, "kind": "markdown", "source": "# Found"})
CODE = Use("insert_cell", {"path": PATH, "kind": "code", "source": "import os"})
EDIT_CODE = Use(
    "edit_cell", {"path": PATH, "cell": "a", "version": version_of(CellKind.CODE, "x = 1"), "source": "x = 2"}
)


class Bench:
    def __init__(self, ozzie: ScriptedOzzie, project: Path) -> None:
        self.ozzie = ozzie
        self.project = project

    async def turn(self, *uses: Use, attended: bool = True) -> TaskId:
        self.ozzie.plays(*uses, [Say("Done.")])
        session = await self.ozzie.sessions.open("n", title="n", channel="notebook")
        sent = await self.ozzie.submit(
            NewTurn(session.session_id, "Go on.", Origin(channel="notebook", sender_id="ana"), attended=attended)
        )
        await self.rests(sent.task_id)
        return sent.task_id

    async def rests(self, task_id: TaskId, count: int = 1) -> str:
        return await self.ozzie.rests(task_id, count, wait_s=WAIT_S)

    async def of(self, task_id: TaskId, kind: type[Any]) -> list[Any]:
        bodies: list[EventBody] = [event.body for event in await self.ozzie.log.read_stream(task_stream(task_id))]
        return [body for body in bodies if isinstance(body, kind)]

    async def pending(self, task_id: TaskId) -> Any:
        (found,) = await self.ozzie.approvals.list(task_id=task_id, statuses=["pending"])
        return found

    async def approved(self, task_id: TaskId, count: int = 2) -> str:
        asked = await self.pending(task_id)
        await self.ozzie.approvals.approve(asked.approval_id, ANA, binds=asked.asked.binds)
        return await self.rests(task_id, count)

    def cells(self) -> list[dict[str, Any]]:
        return json.loads((self.project / PATH).read_bytes())["cells"]


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))
    project = tmp_path / "project"
    project.mkdir()
    (project / PATH).write_bytes(file(cell("a", "x = 1"), cell("b", "text", "markdown")))
    home = Home(tmp_path / "home")
    home.create()
    ozzie = await ScriptedOzzie.start(home, project)
    assert isinstance(ozzie, ScriptedOzzie)
    yield Bench(ozzie, project)
    assert (await ozzie.log.verify()).ok
    await ozzie.stop()


async def test_an_edit_asks_is_made_after_the_yes_and_marks_the_file(bench: Bench) -> None:
    task_id = await bench.turn(MARKDOWN)
    before = bench.cells()
    (asked,) = await bench.of(task_id, ApprovalRequested)

    assert await bench.approved(task_id) == "task.succeeded"

    assert asked.sentence == "Add a Markdown cell of 1 line to `a.ipynb`, at its end?"
    assert (asked.shown, asked.needs, asked.cover is not None) == ("diff", AuthStrength.RELAY, True)
    assert [each["source"] for each in bench.cells()] == [*(each["source"] for each in before), ["# Found"]]
    (done,) = await bench.of(task_id, ToolCallCompleted)
    assert (done.summary, done.data["changed_in"]) == ("1 cell added", "file")


@pytest.mark.parametrize("use", [CODE, EDIT_CODE], ids=["insert", "edit"])
async def test_code_in_a_cell_asks_whatever_is_allowed(bench: Bench, use: Use) -> None:
    (bench.ozzie.home.policy_file).write_text(ALLOW)
    task_id = await bench.turn(MARKDOWN, use)
    pending = await bench.pending(task_id)

    assert pending.asked.name == use.name
    assert (pending.asked.needs, pending.asked.cover, pending.asked.rule) == (AuthStrength.CLI, None, "floor.code_cell")
    assert "which can do all that you can" in pending.asked.reason
    approve = partial(bench.ozzie.approvals.approve, pending.approval_id, binds=pending.asked.binds)
    with pytest.raises(OzzieError, match="kernel"):
        await approve(KERNEL)
    with pytest.raises(OzzieError, match="session"):
        await approve(ANA, extent="session")
    assert await bench.approved(task_id) == "task.succeeded"
    # Decided when it was asked for, and once more when it was made.
    rules = [body.rule for body in await bench.of(task_id, ToolCallDecided)]
    assert rules == ["cells", "floor.code_cell", "floor.code_cell"]


@pytest.mark.parametrize(
    "use",
    [
        Use("write_file", {"path": "new.ipynb", "text": file(cell("a", "import os")).decode()}),
        Use("shell", {"command": "sed -i 's/x = 1/x = 2/' a.ipynb", "editable_folder": "."}),
    ],
    ids=["write_file", "apply_changes"],
)
async def test_code_that_comes_in_by_a_file_asks_too(bench: Bench, use: Use) -> None:
    (bench.ozzie.home.policy_file).write_text(ALLOW)
    task_id = await bench.turn(use)
    if use.name == "shell":
        (ran,) = await bench.of(task_id, ToolCallCompleted)
        changes = ran.data["changes"]
        apply = Use("apply_changes", {"artifact": changes["artifact"], "paths": ["a.ipynb"]})
        task_id = await bench.turn(apply)

    assert (await bench.pending(task_id)).asked.rule == "floor.code_cell"


async def test_where_nobody_is_there_code_is_not_written_and_markdown_is_where_a_rule_allows_it(bench: Bench) -> None:
    (bench.ozzie.home.policy_file).write_text(ALLOW)

    task_id = await bench.turn(MARKDOWN, CODE, attended=False)

    (failed,) = await bench.of(task_id, ToolCallFailed)
    assert "nobody was there to ask" in failed.message
    assert len(bench.cells()) == 3


async def test_what_a_person_types_in_another_cell_meanwhile_does_not_void_the_yes(bench: Bench) -> None:
    task_id = await bench.turn(EDIT_CODE)
    (bench.project / PATH).write_bytes(file(cell("n", "mine"), cell("a", "x = 1"), cell("b", "typed", "markdown")))

    assert await bench.approved(task_id) == "task.succeeded"

    assert [each["source"] for each in bench.cells()] == [["mine"], ["x = 2"], ["typed"]]
    assert len(await bench.of(task_id, ApprovalRequested)) == 1


async def test_what_a_person_types_in_that_cell_meanwhile_stays_and_the_model_is_told(bench: Bench) -> None:
    task_id = await bench.turn(EDIT_CODE)
    theirs = file(cell("a", "x = 1  # mine"), cell("b", "text", "markdown"))
    (bench.project / PATH).write_bytes(theirs)

    assert await bench.approved(task_id) == "task.succeeded"

    (failed,) = await bench.of(task_id, ToolCallFailed)
    assert failed.message == "The cell a has changed since it was read; read it again."
    assert (bench.project / PATH).read_bytes() == theirs


async def test_an_edit_is_taken_back_by_what_it_told(bench: Bench) -> None:
    before = bench.cells()
    first = await bench.turn(MARKDOWN)
    await bench.approved(first)
    (done,) = await bench.of(first, ToolCallCompleted)

    second = await bench.turn(Use("undo_cell_edit", {"path": PATH, "undo": done.data["undo"]}))
    assert (await bench.pending(second)).asked.sentence == "Delete cell 3 (Markdown cell) of `a.ipynb`?"
    assert await bench.approved(second) == "task.succeeded"

    assert bench.cells() == before
