"""The tools with which a model looks at the tasks of its session, and stops one."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.events import (
    TaskCancelled,
    TaskCancelRequested,
    ToolCallCompleted,
    ToolCallFailed,
)
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.models.scripted import Say, Use, Wait
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.tasks.rows import session_of, user_recorder
from ozzie_server_ext.tasks.service import NewTurn
from ozzie_server_ext.tasks.session_tasks import TasksOfSession
from ozzie_server_ext.tools.base import SessionTasks, ToolContext, ToolFailed
from ozzie_server_ext.tools.builtin.tasks import cancel_task, plan_cancel, was_cancelled
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

    async def context(self, task_id: TaskId) -> ToolContext:
        """That of a call by this task."""
        session = await self.ozzie.sessions.open(self.notebook, title="n", channel="notebook")
        tasks = TasksOfSession(self.ozzie.log, self.ozzie.tasks, session.session_id, task_id)
        return ToolContext(self.ozzie.project, SystemClock(), tasks=tasks)

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


async def test_a_task_above_is_refused_before_a_person_is_asked(runs: Looking) -> None:
    """The task of a step can't stop the run that it is a step of."""
    runs.workflow({"id": "a", "instruction": "One"})
    run = await runs.run()
    (step,) = await runs.ozzie.tasks.list(parent=run)
    context = await runs.context(TaskId(str(step["task_id"])))

    with pytest.raises(ToolFailed) as refused:
        await plan_cancel(context, task_id=run)
    assert refused.value.code == "task.own"


async def test_a_stop_that_was_requested_is_not_denied_after_a_crash(runs: Looking) -> None:
    runs.ozzie.plays(runs.said(Wait(runs.go, runs.here), Say("Done.")))
    task_id = await runs.turn("Go.")
    await runs.reached()
    context = await runs.context(TaskId("01CCCCCCCCCCCCCCCCCCCCCCCC"))
    session = session_of(await runs.ozzie.tasks.get(task_id))
    assert await was_cancelled(context, {"task": task_id}) is False
    # As a gateway leaves it that dies before the task has stopped.
    await user_recorder(runs.ozzie.log, session, task_id).append(TaskCancelRequested(by="Ozzie", reason=""))

    shown, _ = await context.tasks.show(task_id)
    assert (shown["status"], shown["ended"]) == ("STOPPING", False)
    assert await was_cancelled(context, {"task": task_id}) is True
    runs.go.set()
    await runs.rests(task_id)


class OneTask(SessionTasks):
    """A task with a title from the web, that goes through these states."""

    content = Content.of(Label.WEB, ["https://example.com"])

    def __init__(self, *statuses: str) -> None:
        self.statuses = list(statuses)

    async def show(self, task_id: TaskId) -> tuple[JsonObject, Content]:
        status = self.statuses.pop(0)
        ended = status in ("SUCCEEDED", "CANCELLED")
        shown: JsonObject = {"title": "Buy!", "status": status, "ended": ended, "is_this": False, "is_above": False}
        return shown, self.content

    async def cancel(self, task_id: TaskId, reason: str) -> None:
        pass


TARGET = "01DDDDDDDDDDDDDDDDDDDDDDDD"


@pytest.mark.parametrize(
    ("after", "summary"),
    [("STOPPING", "stopping"), ("CANCELLED", "stopped"), ("SUCCEEDED", "it has ended already")],
)
async def test_what_it_says_has_happened(tmp_path: Path, after: str, summary: str) -> None:
    context = ToolContext(tmp_path, SystemClock(), tasks=OneTask("RUNNING", after))
    result = await cancel_task(context, await plan_cancel(context, task_id=TARGET))

    assert (result.data, result.summary) == ({"task_id": TARGET, "status": after}, summary)


async def test_a_question_that_quotes_a_title_is_made_from_it(tmp_path: Path) -> None:
    plan = await plan_cancel(ToolContext(tmp_path, SystemClock(), tasks=OneTask("RUNNING")), task_id=TARGET)
    assert plan.content == OneTask.content
