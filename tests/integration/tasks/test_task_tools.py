"""The tools with which a model looks at the tasks of its session, and stops one."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.events import TaskCancelled, ToolCallCompleted, ToolCallFailed
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.models.scripted import Say, Use, Wait
from ozzie_server_ext.tasks.service import NewTurn
from tests.integration.tasks.runs_rig import Answer, echo, runs_in
from tests.integration.tasks.test_further_messages import ANA
from tests.integration.tasks.test_updates import Updating


class Looking(Updating):
    async def calls(self, name: str, **args: Any) -> Any:
        """What a turn reads of such a call: its data, or the code of its failure."""
        self.ozzie.plays(self.said(Use(name, args)), self.said(Say("Done.")))
        task_id = await self.turn("Look.")
        assert await self.rests(task_id) == "task.succeeded"
        if failed := await self.facts(task_id, ToolCallFailed):
            return failed[0].code
        return (await self.facts(task_id, ToolCallCompleted))[0].data

    async def another_session(self) -> TaskId:
        session = await self.ozzie.sessions.open("other", title="other", channel="page")
        task_id = (await self.ozzie.submit(NewTurn(session.session_id, "hello", ANA))).task_id
        assert await self.rests(task_id) == "task.succeeded"
        return task_id


@pytest.fixture
async def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Looking]:
    async with runs_in(tmp_path, monkeypatch, Looking) as runs:
        yield runs


async def test_it_lists_those_of_its_session_and_shows_one_with_its_answer(runs: Looking) -> None:
    runs.ozzie.plays(echo, echo)
    first = await runs.turn("hello")
    assert await runs.rests(first) == "task.succeeded"
    elsewhere = await runs.another_session()

    listed = (await runs.calls("list_tasks"))["tasks"]
    shown = await runs.calls("list_tasks", task_id=first)

    assert [(task["title"], task["is_this"]) for task in listed] == [("Look.", True), ("hello", False)]
    assert (shown["status"], shown["answer"], shown["ended"]) == ("SUCCEEDED", "<hello>", True)
    assert await runs.calls("list_tasks", task_id=elsewhere) == "task.unknown"
    assert await runs.calls("list_tasks", task_id="nonsense") == "tool.failed"


async def test_it_stops_what_is_queued_behind_it_and_neither_itself_nor_another_sessions(runs: Looking) -> None:
    tasks: list[TaskId] = []

    def stop(index: int) -> Answer:
        return lambda request: [Use("cancel_task", {"task_id": tasks[index], "reason": "not needed"})]

    elsewhere = await runs.another_session()
    runs.ozzie.plays(runs.said(Wait(runs.go, runs.here), Use("list_tasks", {})), *map(stop, range(3)), echo)
    tasks += [await runs.turn("Go."), elsewhere]
    await runs.reached()
    tasks.append(await runs.turn("Later."))
    runs.go.set()
    await runs.approve()

    assert await runs.rests(tasks[0]) == "task.succeeded"
    assert [fact.code for fact in await runs.facts(tasks[0], ToolCallFailed)] == ["task.own", "task.unknown"]
    (cancelled,) = await runs.facts(tasks[2], TaskCancelled)
    assert (cancelled.by, cancelled.reason) == ("Ozzie", "not needed")
    assert await runs.facts(elsewhere, TaskCancelled) == []
