"""Steps that wait for something outside: told in time, too early, too late, twice, and over a restart."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.errors import Conflict, InputError
from ozzie_server_ext.domain.events import StepCompleted, StepFailed, StepStarted, TaskSignalled, TaskWaitingInput
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.tasks.signals import MOST_KEPT, awaited
from tests.integration.tasks.runs_rig import WAIT_S, runs_in
from tests.integration.tasks.test_pauses import Pausing

PAID: dict[str, Any] = {"id": "payment", "wait": {"event": "paid"}}


class Telling(Pausing):
    async def tell(self, task_id: TaskId, event: str = "paid", data: Json = None, key: str = "") -> bool:
        return await self.ozzie.control.signals.send(task_id, event, data, by="Ana", key=key)

    async def waits(self, task_id: TaskId, *events: str) -> None:
        """Until steps of the run wait for these."""
        async with asyncio.timeout(WAIT_S), self.ozzie.feed.subscribe(0, task_id=task_id) as feed:
            while sorted(awaited(await self.ozzie.log.read_stream(task_stream(task_id)))) != sorted(events):
                await anext(feed)


@pytest.fixture
async def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Telling]:
    async with runs_in(tmp_path, monkeypatch, Telling) as runs:
        yield runs


def order(timeout_s: float | None = None) -> list[dict[str, Any]]:
    wait = {"event": "paid"} if timeout_s is None else {"event": "paid", "timeout_s": timeout_s}
    late = [] if timeout_s is None else [{"on": "failed", "to": "remind"}]
    remind = {"id": "remind", "instruction": "Remind", "moves": [{"to": "done"}]}
    return [
        {"id": "send", "instruction": "Send", "moves": [{"to": "payment"}]},
        {"id": "payment", "wait": wait, "moves": [{"on": "paid", "to": "done"}, *late]},
        *([] if timeout_s is None else [remind]),
        {"id": "done", "final": True},
    ]


async def test_a_machine_takes_the_move_on_the_event_that_it_waited_for(runs: Telling) -> None:
    runs.write(name="order", type="fsm", states=order())
    task_id = await runs.begin("order", input="tea")
    await runs.waits(task_id, "paid")
    assert await runs.tell(task_id, data={"amount": 12})
    assert await runs.rests(task_id) == "task.succeeded"
    moves = [(fact.step_id, fact.event, fact.to) for fact in await runs.facts(task_id, StepCompleted)]
    assert moves == [("send", "done", "payment"), ("payment", "paid", "done")]
    assert (await runs.outputs(task_id))["payment"] == {"amount": 12}
    assert (await runs.facts(task_id, StepStarted))[1].task is None, "no task of its own waits"


async def test_a_wait_outlives_restarts(runs: Telling) -> None:
    runs.workflow(PAID, {"id": "b", "instruction": "Got {{steps.payment.output.amount}}", "needs": ["payment"]})
    task_id = await runs.begin()
    await runs.waits(task_id, "paid")
    await runs.restart()
    await runs.restart()
    await runs.waits(task_id, "paid")
    await runs.tell(task_id, data={"amount": 12})
    assert await runs.rests(task_id) == "task.succeeded"
    assert await runs.result(task_id) == "<Got 12>"
    assert len(await runs.facts(task_id, StepStarted)) == 2


async def test_an_event_that_comes_before_its_wait_is_kept_over_a_restart_and_counts_once(runs: Telling) -> None:
    first = {"id": "first", "wait": {"event": "go"}}
    runs.workflow(first, PAID | {"needs": ["first"]}, PAID | {"id": "again", "needs": ["payment"]})
    task_id = await runs.begin()
    await runs.waits(task_id, "go")
    assert not await runs.tell(task_id, data={"number": 1})
    await runs.restart()
    await runs.tell(task_id, "go")
    await runs.step(StepStarted, lambda fact: fact.step_id == "again")
    assert [fact.step_id for fact in await runs.facts(task_id, StepCompleted)] == ["first", "payment"]
    assert await runs.tell(task_id, data={"number": 2})
    assert await runs.rests(task_id) == "task.succeeded"
    outputs = await runs.outputs(task_id)
    assert (outputs["payment"], outputs["again"]) == ({"number": 1}, {"number": 2})


async def test_of_two_that_wait_for_the_same_each_hears_one(runs: Telling) -> None:
    runs.workflow(PAID, PAID | {"id": "other"})
    task_id = await runs.begin()
    await runs.waits(task_id, "paid", "paid")
    assert await runs.tell(task_id, data={"number": 1})
    assert await runs.tell(task_id, data={"number": 2})
    assert await runs.rests(task_id) == "task.succeeded"
    heard = await runs.facts(task_id, StepCompleted)
    assert sorted(str(fact.output) for fact in heard) == ["{'number': 1}", "{'number': 2}"]
    assert len({fact.told for fact in heard}) == 2


async def test_with_a_key_the_same_is_told_once(runs: Telling) -> None:
    runs.workflow(PAID, PAID | {"id": "again", "needs": ["payment"]})
    task_id = await runs.begin()
    await runs.waits(task_id, "paid")
    assert all([await runs.tell(task_id, key="invoice-7") for _ in range(3)])
    assert len(await runs.facts(task_id, TaskSignalled)) == 1
    await runs.tell(task_id, key="invoice-8")
    assert await runs.rests(task_id) == "task.succeeded"


@pytest.mark.parametrize("restarts", [False, True])
async def test_the_time_of_a_wait_goes_by(runs: Telling, restarts: bool) -> None:
    runs.write(name="order", type="fsm", states=order(timeout_s=0.3))
    task_id = await runs.begin("order", input="tea")
    await runs.waits(task_id, "paid")
    if restarts:
        await runs.restart()
    assert await runs.rests(task_id) == "task.succeeded"
    (failed,) = await runs.facts(task_id, StepFailed)
    assert (failed.step_id, failed.code, failed.to) == ("payment", "step.timeout", "remind")
    assert failed.message == 'It got no signal "paid" within 0.3 s.'


async def test_a_run_within_the_run_hears_of_it(runs: Telling) -> None:
    runs.write(name="inner", type="workflow", steps=[PAID])
    runs.workflow({"id": "x", "skill": "inner", "with": {"input": "tea"}})
    task_id = await runs.begin()
    inner = (await runs.step(StepStarted)).task
    assert inner is not None
    await runs.waits(inner, "paid")
    assert await runs.tell(task_id, data={"amount": 3})
    assert await runs.rests(task_id) == "task.succeeded"
    assert await runs.result(task_id) == {"amount": 3}


async def test_with_a_key_it_is_told_once_also_where_the_run_that_heard_of_it_has_ended(runs: Telling) -> None:
    runs.write(name="inner", type="workflow", steps=[PAID])
    runs.workflow(
        {"id": "x", "skill": "inner", "with": {"input": "tea"}},
        {"id": "y", "skill": "inner", "with": {"input": "mate"}, "needs": ["x"]},
    )
    task_id = await runs.begin()
    first = (await runs.step(StepStarted)).task
    assert first is not None
    await runs.waits(first, "paid")
    assert await runs.tell(task_id, data=1, key="invoice-7")
    second = (await runs.step(StepStarted, lambda fact: fact.step_id == "y")).task
    assert second is not None
    await runs.waits(second, "paid")
    assert await runs.tell(task_id, data=1, key="invoice-7")
    assert await runs.facts(second, TaskSignalled) == []
    assert await runs.tell(task_id, data=2, key="invoice-8")
    assert await runs.rests(task_id) == "task.succeeded"
    assert await runs.outputs(task_id) == {"x": 1, "y": 2}


async def test_a_waiting_run_pauses_is_stopped_and_is_tried_again(runs: Telling) -> None:
    runs.workflow(PAID)
    task_id = await runs.begin()
    await runs.until(task_id, TaskWaitingInput)  # paused before, it would not wait
    await runs.pause(task_id)
    await runs.paused(task_id)
    await runs.tell(task_id, data={"amount": 1})
    assert await runs.facts(task_id, StepCompleted) == []
    await runs.ozzie.tasks.cancel(task_id, by="Ana")
    assert await runs.rests(task_id) == "task.cancelled"
    await runs.retry(task_id)
    assert await runs.ends(task_id, 3) == "task.succeeded"
    assert await runs.every_end(task_id) == ["task.waiting_input", "task.cancelled", "task.succeeded"]
    assert await runs.result(task_id) == {"amount": 1}


async def test_what_nobody_waits_for_is_refused_in_words(runs: Telling) -> None:
    runs.workflow(PAID)
    task_id = await runs.begin()
    await runs.waits(task_id, "paid")
    with pytest.raises(InputError, match='waits for "payd"') as unknown:
        await runs.tell(task_id, "payd")
    assert unknown.value.code == "event.unknown"
    assert unknown.value.hint == 'Did you mean "paid"? It waits for "paid".'
    with pytest.raises(InputError, match="at most 32,768 bytes"):
        await runs.tell(task_id, data={"text": "x" * 40_000})
    turn = await runs.turn("hello")
    with pytest.raises(Conflict, match="no run of a skill"):
        await runs.tell(turn)
    await runs.tell(task_id)
    assert await runs.rests(task_id) == "task.succeeded"
    await runs.rests(turn)
    with pytest.raises(Conflict, match="ended already: succeeded"):
        await runs.tell(task_id)


async def test_a_refusal_names_what_is_still_awaited_now_and_later(runs: Telling) -> None:
    steps = [{"id": each, "wait": {"event": each}} for each in ("ordered", "paid", "sent")]
    runs.workflow(steps[0], steps[1] | {"needs": ["ordered"]}, steps[2] | {"needs": ["paid"]})
    task_id = await runs.begin()

    async def refused(event: str) -> str:
        with pytest.raises(InputError) as unknown:
            await runs.tell(task_id, event)
        assert str(unknown.value) == f'No step of this run waits for "{event}".'
        return unknown.value.hint

    await runs.waits(task_id, "ordered")
    assert await refused("nonsense") == 'It waits for "ordered". Later it waits for "paid", "sent".'
    await runs.tell(task_id, "ordered")
    await runs.waits(task_id, "paid")
    assert await refused("nonsense") == 'It waits for "paid". Later it waits for "sent".'
    assert await refused("ordered") == 'It waits for "paid". Later it waits for "sent".'
    await runs.tell(task_id, "paid")
    await runs.tell(task_id, "sent")
    assert await runs.rests(task_id) == "task.succeeded"


async def test_only_so_many_are_kept(runs: Telling) -> None:
    runs.workflow({"id": "first", "wait": {"event": "go"}}, PAID | {"needs": ["first"]})
    task_id = await runs.begin()
    await runs.waits(task_id, "go")
    told: Sequence[bool] = [await runs.tell(task_id) for _ in range(MOST_KEPT)]
    assert not any(told)
    with pytest.raises(Conflict, match="wait already for a step to take them"):
        await runs.tell(task_id)
    await runs.tell(task_id, "go")
    assert await runs.rests(task_id) == "task.succeeded"
