"""Tasks that are held and let go on: turns before their next calls, runs before their next steps, over restarts."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.events import StepCompleted, StepStarted, TaskPaused, TaskQueued, TaskStarted
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Say, Step, Use, Wait
from tests.integration.tasks.runs_rig import WAIT_S, asked, echo, runs_in
from tests.integration.tasks.test_retries import Retrying

SUM = Use("calculator", '{"expr": "6*7"}')


class Pausing(Retrying):
    async def pause(self, task_id: TaskId) -> None:
        await self.ozzie.control.pauses.pause(task_id, by="Ana")

    async def resume(self, task_id: TaskId) -> None:
        await self.ozzie.control.pauses.resume(task_id, by="Ana")

    async def paused(self, task_id: TaskId, count: int = 1) -> None:
        await self.until(task_id, TaskPaused, count)


@pytest.fixture
async def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pausing]:
    async with runs_in(tmp_path, monkeypatch, Pausing) as runs:
        yield runs


class Stops:
    """Stops the first time that it is told `what`, until `go` is set."""

    def __init__(self, what: str) -> None:
        self.go, self.here = asyncio.Event(), asyncio.Event()
        self._what = what
        self.heard: list[str] = []

    def __call__(self, request: ModelRequest) -> Sequence[Step]:
        said = asked(request).splitlines()[0]
        self.heard.append(said)
        wait = [Wait(self.go, self.here)] if said == self._what and not self.here.is_set() else []
        return [*wait, *echo(request)]

    async def reached(self) -> None:
        await asyncio.wait_for(self.here.wait(), WAIT_S)


async def test_a_turn_pauses_before_its_next_call_and_goes_on_from_there(runs: Pausing) -> None:
    go, here = asyncio.Event(), asyncio.Event()
    runs.ozzie.plays([Wait(go, here), SUM], [Say("42")])
    task_id = await runs.turn("How much is 6*7?")
    await asyncio.wait_for(here.wait(), WAIT_S)
    await runs.pause(task_id)
    assert await runs.status(task_id) == "RUNNING"
    go.set()
    await runs.paused(task_id)
    (paused,) = await runs.facts(task_id, TaskPaused)
    assert (paused.by, paused.reason) == ("Ana", "by you")
    await runs.resume(task_id)
    assert await runs.ends(task_id) == "task.succeeded"
    assert [fact.reason for fact in await runs.facts(task_id, TaskQueued)] == ["created"]
    first, second = await runs.facts(task_id, TaskStarted)
    assert first.attempt == second.attempt == 1
    assert first.epoch < second.epoch


async def test_an_answer_that_comes_before_the_pause_is_paused_behind_and_not_asked_for_again(runs: Pausing) -> None:
    stops = Stops("hello")
    runs.answers(stops)
    task_id = await runs.turn("hello")
    await stops.reached()
    await runs.pause(task_id)
    stops.go.set()
    await runs.paused(task_id)
    await runs.resume(task_id)
    assert await runs.ends(task_id) == "task.succeeded"
    assert stops.heard == ["hello"]


async def test_a_pause_that_is_taken_back_before_it_comes_holds_nothing(runs: Pausing) -> None:
    go, here = asyncio.Event(), asyncio.Event()
    runs.ozzie.plays([Wait(go, here), SUM], [Say("42")])
    task_id = await runs.turn("How much?")
    await asyncio.wait_for(here.wait(), WAIT_S)
    await runs.pause(task_id)
    with pytest.raises(Conflict, match="about to pause"):
        await runs.pause(task_id)
    await runs.resume(task_id)
    go.set()
    assert await runs.ends(task_id) == "task.succeeded"
    assert await runs.facts(task_id, TaskPaused) == []


async def test_what_a_gateway_was_asked_to_hold_the_next_one_holds(runs: Pausing) -> None:
    stops = Stops("hello")
    runs.answers(stops)
    task_id = await runs.turn("hello")
    behind = await runs.turn("next")
    await stops.reached()
    await runs.pause(task_id)
    await runs.pause(behind)
    await runs.restart()
    assert await runs.status(task_id) == "PAUSED"
    assert await runs.status(behind) == "QUEUED", "its session is held"
    await runs.restart()
    assert await runs.status(task_id) == "PAUSED"
    await runs.resume(task_id)
    assert await runs.ends(task_id) == "task.succeeded"
    await runs.paused(behind)
    await runs.resume(behind)
    assert await runs.ends(behind) == "task.succeeded"


async def test_a_paused_turn_can_be_stopped_and_its_session_goes_on(runs: Pausing) -> None:
    stops = Stops("first")
    runs.answers(stops)
    task_id, behind = await runs.turn("first"), await runs.turn("second")
    await stops.reached()
    await runs.pause(task_id)
    stops.go.set()
    await runs.paused(task_id)
    await runs.ozzie.tasks.cancel(task_id, by="Ana")
    assert await runs.ends(task_id) == "task.cancelled"
    assert await runs.ends(behind) == "task.succeeded"


async def test_a_turn_that_waits_for_an_answer_pauses_once_it_has_it(runs: Pausing) -> None:
    runs.ozzie.plays(Use("ask_user", '{"question": "Tea?"}'), [Say("Tea it is.")])
    task_id = await runs.turn("Ask me.")
    assert await runs.ends(task_id) == "task.waiting_input"
    await runs.pause(task_id)
    await runs.ozzie.answers.answer(task_id, "skip", by="Ana")
    await runs.paused(task_id)
    await runs.resume(task_id)
    assert await runs.ends(task_id, 2) == "task.succeeded"


async def test_what_is_not_to_be_held_or_let_go_is_refused_in_words(runs: Pausing) -> None:
    task_id = await runs.turn("hello")
    assert await runs.ends(task_id) == "task.succeeded"
    with pytest.raises(Conflict, match="ended already"):
        await runs.pause(task_id)
    with pytest.raises(Conflict, match="is not paused") as refused:
        await runs.resume(task_id)
    assert refused.value.code == "task.not_paused"


async def test_a_run_begins_no_step_while_it_is_paused_and_takes_in_what_had_ended(runs: Pausing) -> None:
    stops = Stops("One")
    runs.answers(stops)
    runs.workflow(
        {"id": "a", "instruction": "One"},
        {"id": "b", "instruction": "Two {{steps.a.output}}", "needs": ["a"]},
    )
    task_id = await runs.begin()
    await stops.reached()
    child = (await runs.step(StepStarted)).task
    assert child is not None
    await runs.pause(task_id)
    await runs.paused(task_id)
    with pytest.raises(Conflict, match="paused already") as refused:
        await runs.pause(task_id)
    assert refused.value.hint == f"Let it go on with: ozzie tasks resume {task_id}"
    stops.go.set()
    assert await runs.rests(child) == "task.succeeded"
    assert await runs.facts(task_id, StepCompleted) == []
    await runs.restart()
    assert await runs.status(task_id) == "PAUSED"
    await runs.resume(task_id)
    assert await runs.rests(task_id) == "task.succeeded"
    assert stops.heard == ["One", "Two <One>"]
    assert await runs.result(task_id) == "<Two <One>>"


async def test_a_paused_run_can_be_stopped_with_the_steps_that_run(runs: Pausing) -> None:
    stops = Stops("One")
    runs.answers(stops)
    runs.workflow({"id": "a", "instruction": "One"}, {"id": "b", "instruction": "Two", "needs": ["a"]})
    task_id = await runs.begin()
    await stops.reached()
    child = (await runs.step(StepStarted)).task
    assert child is not None
    await runs.pause(task_id)
    await runs.paused(task_id)
    await runs.ozzie.tasks.cancel(task_id, by="Ana")
    assert await runs.rests(task_id) == "task.cancelled"
    assert await runs.rests(child) == "task.cancelled"


async def test_the_runs_within_a_run_pause_with_it(runs: Pausing) -> None:
    stops = Stops("One")
    runs.answers(stops)
    runs.write(
        name="inner",
        type="workflow",
        steps=[{"id": "a", "instruction": "One"}, {"id": "b", "instruction": "Two", "needs": ["a"]}],
    )
    runs.workflow({"id": "x", "skill": "inner", "with": {"input": "tea"}})
    task_id = await runs.begin()
    await stops.reached()
    inner = (await runs.step(StepStarted)).task
    assert inner is not None
    await runs.pause(task_id)
    await runs.paused(task_id)
    await runs.paused(inner)
    step = (await runs.facts(inner, StepStarted))[0].task
    assert step is not None
    stops.go.set()
    assert await runs.rests(step) == "task.succeeded"
    assert stops.heard == ["One"]
    await runs.resume(task_id)
    assert await runs.rests(task_id) == "task.succeeded"
    assert stops.heard == ["One", "Two"]


async def test_a_step_is_held_by_itself(runs: Pausing) -> None:
    go, here = asyncio.Event(), asyncio.Event()
    runs.ozzie.plays([Wait(go, here), SUM], [Say("42")])
    runs.workflow({"id": "a", "instruction": "One"})
    task_id = await runs.begin()
    await asyncio.wait_for(here.wait(), WAIT_S)
    child = (await runs.step(StepStarted)).task
    assert child is not None
    await runs.pause(child)
    go.set()
    await runs.paused(child)
    assert await runs.status(task_id) == "RUNNING"
    await runs.resume(child)
    assert await runs.rests(task_id) == "task.succeeded"
