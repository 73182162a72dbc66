"""What is seen of a run while it is held: its steps as they ended meanwhile, with the time that they took (ADR 41)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from ozzie_server_ext.domain.events import Draft, StepCompleted, StepFailed, StepStarted, TaskCancelRequested
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.gateway.access import Principal
from ozzie_server_ext.gateway.rest import graph_shapes, task_shapes
from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.runs import RunStepQuery, TaskGraphQuery, get_run_step, get_task_graph
from ozzie_server_ext.gateway.rest.tasks import TaskQuery, TasksQuery, get_task, list_tasks
from ozzie_server_ext.gateway.services import Services
from ozzie_server_ext.gateway.state import GatewayState
from ozzie_server_ext.models.scripted import Fail, Say, Wait
from tests.integration.tasks.runs_rig import WAIT_S, asked, runs_in
from tests.integration.tasks.test_pauses import Pausing, Stops

AFTER: dict[str, Any] = {"id": "b", "instruction": "Two", "needs": ["a"]}


class Seen(Pausing):
    """Also what REST tells."""

    @property
    def call(self) -> Call:
        return Call(GatewayState(), cast(Services, self.ozzie), Principal(kind="user", name="ana"))

    async def graph(self, task_id: TaskId) -> graph_shapes.TaskGraph:
        told = await get_task_graph(self.call, TaskGraphQuery(task_id=task_id))
        assert told is not None
        return told

    async def drawn(self, task_id: TaskId, step_id: str = "a") -> graph_shapes.GraphStep:
        return next(step for step in (await self.graph(task_id)).steps if step.step_id == step_id)

    async def detail(self, task_id: TaskId, step_id: str = "a") -> graph_shapes.StepDetail:
        return await get_run_step(self.call, RunStepQuery(task_id=task_id, step_id=step_id))

    async def told(self, task_id: TaskId) -> task_shapes.TaskWithSteps:
        return await get_task(self.call, TaskQuery(task_id=task_id))

    async def held_in(self, stops: Stops) -> tuple[TaskId, TaskId]:
        """A run of the skill that was written, held while its first step is in the middle, and that step's task."""
        self.answers(stops)
        task_id = await self.begin()
        await stops.reached()
        child = (await self.step(StepStarted)).task
        assert child is not None
        await self.pause(task_id)
        await self.paused(task_id)
        return task_id, child


@pytest.fixture
async def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Seen]:
    async with runs_in(tmp_path, monkeypatch, Seen) as runs:
        yield runs


async def test_a_step_that_ends_while_its_run_is_held_is_shown_done_with_the_time_that_it_took(runs: Seen) -> None:
    stops = Stops("One")
    runs.workflow({"id": "a", "instruction": "One"}, AFTER)
    task_id, child = await runs.held_in(stops)
    before = await runs.graph(task_id)
    assert [step.state for step in before.steps] == ["Working", "Waiting"], "its own task goes on"
    assert (before.status, before.state, before.running) == ("PAUSED", "Paused", 1)
    stops.go.set()
    assert await runs.rests(child) == "task.succeeded"
    assert await runs.facts(task_id, StepCompleted) == []

    row = await runs.told(child)
    for _ in range(2):  # the second time, another gateway tells it
        graph = await runs.graph(task_id)
        assert graph.version != before.version
        assert [step.state for step in graph.steps] == ["Done", "Waiting"]
        assert (graph.status, graph.state, graph.settled, graph.running) == ("PAUSED", "Paused", 1, 0)
        assert (graph.steps[0].finished_at, graph.layout.nodes[0].told.state) == (row.finished_at, "Done")
        detail = await runs.detail(task_id)
        assert detail.result == "<One>"
        assert [(each.state, each.finished_at) for each in detail.attempts] == [("Done", row.finished_at)]
        await runs.restart()

    await runs.resume(task_id)
    assert await runs.rests(task_id) == "task.succeeded"
    assert (await runs.drawn(task_id)).finished_at == row.finished_at, "it took no longer for the pause"


async def test_a_step_that_is_stopped_while_its_run_is_held_is_shown_as_the_run_will_record_it(runs: Seen) -> None:
    stops = Stops("One")
    runs.workflow({"id": "a", "instruction": "One"}, AFTER)
    task_id, child = await runs.held_in(stops)
    await runs.ozzie.tasks.cancel(child, by="Ana")
    assert await runs.rests(child) == "task.cancelled"

    step = await runs.drawn(task_id)
    assert (step.state, step.problem, step.finished_at) == (
        "Failed",
        "It was stopped.",
        (await runs.told(child)).finished_at,
    )
    assert (await runs.graph(task_id)).failed == 1
    (attempt,) = (await runs.detail(task_id)).attempts
    assert (attempt.state, attempt.message) == ("Failed", "It was stopped.")
    await runs.resume(task_id)
    assert await runs.rests(task_id) == "task.failed"
    assert [fact.message for fact in await runs.facts(task_id, StepFailed)] == ["It was stopped."]


@pytest.mark.parametrize(("most", "state", "note"), [(1, "Failed", ""), (2, "Paused", "to be tried again")])
async def test_a_step_that_fails_while_its_run_is_held_is_failed_unless_it_is_tried_again(
    runs: Seen, most: int, state: str, note: str
) -> None:
    go, here = asyncio.Event(), asyncio.Event()
    runs.workflow({"id": "a", "instruction": "One", "retry_policy": {"max_attempts": most, "backoff_ms": 1}}, AFTER)
    runs.ozzie.plays([Wait(go, here), Fail("provider.bad_request")], [Say("1")], [Say("2")])
    task_id = await runs.begin()
    await asyncio.wait_for(here.wait(), WAIT_S)
    child = (await runs.step(StepStarted)).task
    assert child is not None
    await runs.pause(task_id)
    await runs.paused(task_id)
    go.set()
    assert await runs.rests(child) == "task.failed"

    step, row = await runs.drawn(task_id), await runs.told(child)
    assert row.error is not None
    assert (step.state, step.note, step.problem, step.finished_at) == (
        state,
        note,
        row.error.message,
        row.finished_at,
    )
    assert (step.attempt, step.attempts) == (1, most)
    (attempt,) = (await runs.detail(task_id)).attempts
    assert (attempt.state, attempt.message, attempt.finished_at) == ("Failed", row.error.message, row.finished_at)
    await runs.resume(task_id)
    assert await runs.rests(task_id) == ("task.failed" if most == 1 else "task.succeeded")
    assert (await runs.drawn(task_id)).state == ("Failed" if most == 1 else "Done")


async def test_what_has_to_be_checked_still_is_not_shown_done_while_its_run_is_held(runs: Seen) -> None:
    stops = Stops("One")
    runs.workflow({"id": "a", "instruction": "One", "acceptance": "It says one."}, AFTER)
    task_id, child = await runs.held_in(stops)
    stops.go.set()
    assert await runs.rests(child) == "task.succeeded"

    graph, step, row = await runs.graph(task_id), await runs.drawn(task_id), await runs.told(child)
    assert (step.state, step.note, step.finished_at) == ("Paused", "to be checked", row.finished_at)
    assert (graph.settled, graph.running, graph.state) == (0, 0, "Paused")
    detail = await runs.detail(task_id)
    assert detail.result == "<One>"
    assert [(each.state, each.finished_at) for each in detail.attempts] == [("Paused", row.finished_at)]


async def test_a_run_within_a_held_run_is_shown_paused(runs: Seen) -> None:
    stops = Stops("One")
    runs.write(name="inner", type="workflow", steps=[{"id": "a", "instruction": "One"}, AFTER])
    runs.workflow({"id": "a", "skill": "inner", "with": {"input": "tea"}})
    task_id, inner = await runs.held_in(stops)
    await runs.paused(inner)
    step = await runs.drawn(task_id)
    assert (step.state, step.finished_at) == ("Paused", None)
    assert (await runs.graph(task_id)).running == 0
    (attempt,) = (await runs.detail(task_id)).attempts
    assert (attempt.state, attempt.finished_at) == ("Paused", None)
    own = (await runs.facts(inner, StepStarted))[0].task
    assert own is not None
    stops.go.set()
    assert await runs.rests(own) == "task.succeeded"
    assert (await runs.drawn(inner)).state == "Done"


@pytest.mark.parametrize(
    ("kind", "says", "state", "note", "problem"),
    [
        ("workflow", "yes", "Done", "approved", ""),
        ("workflow", "no", "Failed", "", "It was rejected. Too dear."),
        ("fsm", "no", "Done", "rejected", ""),
    ],
)
async def test_a_gate_that_is_answered_while_its_run_is_held_is_shown_as_answered(
    runs: Seen, kind: str, says: str, state: str, note: str, problem: str
) -> None:
    gate: dict[str, Any] = {"id": "a", "approve": {"question": "Buy it?"}}
    if kind == "fsm":
        moves = [{"on": "approved", "to": "end"}, {"on": "rejected", "to": "end"}]
        runs.write(name="w", type="fsm", states=[{**gate, "moves": moves}, {"id": "end", "final": True}])
    else:
        runs.workflow(gate, AFTER)
    task_id = await runs.begin()
    await runs.pending()
    await runs.pause(task_id)
    await runs.paused(task_id)
    assert ((await runs.drawn(task_id)).state, (await runs.graph(task_id)).state) == ("Waiting for you",) * 2
    child = (await runs.facts(task_id, StepStarted))[0].task
    assert child is not None
    await (runs.approve() if says == "yes" else runs.reject("Too dear."))
    await runs.rests(child)

    step = await runs.drawn(task_id)
    assert (step.state, step.note, step.problem) == (state, note, problem)
    assert (await runs.graph(task_id)).state == "Paused"
    await runs.resume(task_id)
    await runs.rests(task_id)
    after = await runs.drawn(task_id)
    assert (after.state, after.note, after.problem) == (state, note, problem)


async def test_a_step_that_waits_for_its_next_attempt_does_not_work_while_its_run_is_held(runs: Seen) -> None:
    policy = {"max_attempts": 2, "backoff_ms": 60_000}
    stops = Stops("Two")
    runs.workflow({"id": "a", "instruction": "One", "retry_policy": policy}, {"id": "b", "instruction": "Two"})
    runs.answers(lambda request: [Fail("provider.bad_request")] if asked(request) == "One" else stops(request))
    task_id = await runs.begin()
    await runs.step(StepStarted, lambda fact: fact.attempt == 2)
    await stops.reached()
    await runs.pause(task_id)
    await runs.paused(task_id)
    step = await runs.drawn(task_id)
    assert (step.state, step.note, step.attempt, step.attempts) == ("Paused", "attempt 2 of 2", 2, 2)
    assert [each.state for each in (await runs.detail(task_id)).attempts] == ["Failed", "Paused"]
    other = (await runs.step(StepStarted, lambda fact: fact.step_id == "b")).task
    assert other is not None
    stops.go.set()
    assert await runs.rests(other) == "task.succeeded"


async def test_a_pause_that_is_wished_for_and_has_not_come_is_told_with_the_task(runs: Seen) -> None:
    stops = Stops("hello")
    runs.answers(stops)
    task_id = await runs.turn("hello")
    await stops.reached()
    assert not (await runs.told(task_id)).pausing
    await runs.pause(task_id)
    (listed,) = (await list_tasks(runs.call, TasksQuery())).items
    assert (listed.status, listed.pausing) == ("RUNNING", True)
    await runs.resume(task_id)
    assert not (await runs.told(task_id)).pausing
    await runs.pause(task_id)
    stops.go.set()
    await runs.paused(task_id)
    told = await runs.told(task_id)
    assert (told.status, told.pausing) == ("PAUSED", False)


async def test_a_task_whose_end_was_asked_for_is_told_as_stopping_until_it_has_ended(runs: Seen) -> None:
    stops = Stops("One")
    runs.workflow({"id": "a", "instruction": "One"})
    runs.answers(stops)
    task_id = await runs.begin()
    await stops.reached()
    assert not (await runs.told(task_id)).stopping
    asked_for = Draft(body=TaskCancelRequested(by="Ana", reason=""), actor="user", source="hub", task_id=task_id)
    await runs.ozzie.log.append(task_stream(task_id), [asked_for])
    row = await runs.told(task_id)
    assert (row.status, row.stopping) == ("RUNNING", True)
    await runs.ozzie.tasks.cancel(task_id, by="Ana")
    assert await runs.rests(task_id) == "task.cancelled"
    assert not (await runs.told(task_id)).stopping
