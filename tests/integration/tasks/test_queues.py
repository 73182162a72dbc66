"""Limits on what runs at once: turns over all sessions, steps over all runs, and no run that waits for itself."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.events import (
    Origin,
    StepStarted,
    TaskFailed,
    TaskQueued,
    TaskStarted,
    TaskSucceeded,
    TaskWaitingInput,
)
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Step, Wait
from ozzie_server_ext.tasks.service import NewTurn
from tests.integration.tasks.runs_rig import WAIT_S, echo, runs_in
from tests.integration.tasks.test_updates import Updating
from tests.scripted_gateway import ScriptedOzzie


class Queueing(Updating):
    """A gateway whose model answers once it is let."""

    def __init__(self, ozzie: ScriptedOzzie) -> None:
        super().__init__(ozzie)
        self.answers(self._answer, most=200)

    def _answer(self, request: ModelRequest) -> Sequence[Step]:
        return [Wait(self.go), *echo(request)]

    async def limit(self, **settings: Any) -> None:
        (self.ozzie.home.root / "config.jsonc").write_text(json.dumps(settings))
        await self.ozzie.projects.own.configuration.refresh()

    async def turn_in(self, session: str) -> TaskId:
        opened = await self.ozzie.sessions.open(session, title=session, channel="notebook")
        origin = Origin(channel="notebook", sender_id="ana")
        return (await self.ozzie.submit(NewTurn(opened.session_id, f"hello from {session}", origin))).task_id

    async def busy(self, count: int) -> None:
        """Until so many calls of models have begun, over all that was."""
        types = frozenset({"model.call.started"})
        async with asyncio.timeout(WAIT_S), self.ozzie.feed.subscribe(0, types=types) as feed:
            for _ in range(count):
                await anext(feed)

    async def statuses(self) -> dict[str, int]:
        """How many tasks that ask models are in each state."""
        rows = await self.ozzie.log.rows("tasks", where={"mode": "FREE"})
        return dict(Counter(str(row["status"]) for row in rows))

    async def at_once(self) -> int:
        """The most that ran at the same time, by the log."""
        rows = await self.ozzie.log.rows("tasks", where={"mode": "FREE"})
        free, running, most = {row["task_id"] for row in rows}, set[TaskId](), 0
        for event in await self.ozzie.log.read(after=0, limit=10_000):
            if event.task_id in free and event.task_id is not None:
                if isinstance(event.body, TaskStarted):
                    running.add(event.task_id)
                elif isinstance(event.body, TaskSucceeded | TaskFailed | TaskWaitingInput | TaskQueued):
                    running.discard(event.task_id)
            most = max(most, len(running))
        return most


@pytest.fixture
async def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Queueing]:
    async with runs_in(tmp_path, monkeypatch, Queueing) as runs:
        yield runs


async def test_turns_of_all_sessions_share_their_places(runs: Queueing) -> None:
    await runs.limit(tasks={"max_running": 2})
    tasks = [await runs.turn_in(f"s{number}") for number in range(5)]
    await runs.busy(2)
    assert await runs.statuses() == {"RUNNING": 2, "QUEUED": 3}
    runs.go.set()
    assert [await runs.ends(task_id) for task_id in tasks] == ["task.succeeded"] * 5
    assert await runs.at_once() == 2


async def test_one_that_waits_for_a_place_can_be_stopped_and_goes_on_after_a_restart(runs: Queueing) -> None:
    await runs.limit(tasks={"max_running": 1})
    tasks = [await runs.turn_in(f"s{number}") for number in range(3)]
    await runs.busy(1)
    await runs.ozzie.tasks.cancel(tasks[1], by="Ana")
    assert await runs.ends(tasks[1]) == "task.cancelled"
    await runs.restart()
    runs.go.set()
    assert [await runs.ends(task_id) for task_id in tasks] == ["task.succeeded", "task.cancelled", "task.succeeded"]
    assert await runs.at_once() == 1


async def test_runs_share_the_places_of_steps_and_wait_for_none_themselves(runs: Queueing) -> None:
    await runs.limit(skills={"max_parallel_steps": 1}, tasks={"max_running": 1})
    inner = [{"id": "c", "instruction": "Three"}, {"id": "d", "instruction": "Four {{steps.c.output}}", "needs": ["c"]}]
    runs.write(name="inner", type="workflow", steps=inner)
    runs.write(name="middle", type="workflow", steps=[{"id": "m", "skill": "inner", "with": {"input": "tea"}}])
    judged = {"id": "b", "instruction": "Two", "acceptance": "It is short.", "retry_policy": {"max_attempts": 1}}
    nested = [{"id": f"x{number}", "skill": "middle", "with": {"input": "tea"}} for number in range(3)]
    runs.workflow({"id": "a", "instruction": "One"}, judged | {"optional": True}, *nested)
    first, second = await runs.begin(), await runs.begin()
    await runs.busy(1)
    runs.go.set()
    assert [await runs.rests(each) for each in (first, second)] == ["task.succeeded"] * 2
    assert await runs.at_once() == 1


async def test_a_step_that_waits_for_a_person_has_no_place(runs: Queueing) -> None:
    await runs.limit(skills={"max_parallel_steps": 1})
    runs.go.set()
    runs.workflow({"id": "a", "ask": {"question": "Tea?"}}, {"id": "b", "instruction": "Two"})
    task_id = await runs.begin()
    child = (await runs.step(StepStarted, lambda fact: fact.step_id == "a")).task
    other = (await runs.step(StepStarted, lambda fact: fact.step_id == "b")).task
    assert child is not None
    assert other is not None
    assert await runs.ends(other) == "task.succeeded"
    assert await runs.ends(child) == "task.waiting_input"
    await runs.ozzie.answers.answer(child, "skip", by="Ana")
    assert await runs.rests(task_id) == "task.succeeded"
