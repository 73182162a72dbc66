"""A run that only waits for people or for something outside keeps no gateway up; one that works does (TK-4)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ozzie_server_ext.domain.events import StepStarted
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Step, Wait
from tests.integration.tasks.runs_rig import WAIT_S, Runs, asked, echo, runs_in

GATE = {"id": "gate", "approve": {"question": "Go on?"}}
SLOW = {"id": "slow", "instruction": "Take your time"}


@pytest.fixture
async def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Runs]:
    async with runs_in(tmp_path, monkeypatch, Runs) as runs:
        yield runs


async def until_it_rests(runs: Runs) -> None:
    async with asyncio.timeout(WAIT_S):
        while runs.ozzie.busy:  # noqa: ASYNC110  # a gateway tells nobody that it rests
            await asyncio.sleep(0)


async def test_a_run_that_waits_for_a_yes_rests_and_goes_on_with_it(runs: Runs) -> None:
    runs.workflow(GATE, {"id": "after", "instruction": "Go", "needs": ["gate"]})
    task_id = await runs.begin()
    assert runs.ozzie.busy
    await runs.pending()
    await until_it_rests(runs)

    await runs.approve()

    assert await runs.rests(task_id) == "task.succeeded"


async def test_it_goes_on_in_the_next_gateway_where_this_one_went(runs: Runs) -> None:
    runs.workflow(GATE, {"id": "after", "instruction": "Go", "needs": ["gate"]})
    task_id = await runs.begin()
    await runs.pending()
    await until_it_rests(runs)
    await runs.restart()
    runs.answers(echo)
    await until_it_rests(runs)

    await runs.approve()

    assert await runs.rests(task_id) == "task.succeeded"


async def test_a_run_of_which_one_step_still_works_is_busy(runs: Runs) -> None:
    go_on = asyncio.Event()

    def answer(request: ModelRequest) -> Sequence[Step]:
        return [Wait(go_on), *echo(request)] if "Take your time" in asked(request) else echo(request)

    runs.ozzie.plays(*([answer] * 10))
    runs.workflow(GATE, SLOW)
    task_id = await runs.begin()
    await runs.step(StepStarted, lambda fact: fact.step_id == "slow")
    await runs.pending()

    for _ in range(200):
        await asyncio.sleep(0)
        assert runs.ozzie.busy
    go_on.set()
    await until_it_rests(runs)
    await runs.approve()

    assert await runs.rests(task_id) == "task.succeeded"


async def test_a_run_that_waits_for_an_event_rests(runs: Runs) -> None:
    runs.workflow({"id": "paid", "wait": {"event": "paid"}})
    task_id = await runs.begin()
    await runs.step(StepStarted)
    await until_it_rests(runs)

    assert await runs.ozzie.control.tells.tell(task_id, "paid", None, by="Ana", key="")

    assert await runs.rests(task_id) == "task.succeeded"


async def test_a_run_whose_step_runs_a_skill_that_waits_rests_with_it(runs: Runs) -> None:
    runs.write(name="inner", type="workflow", steps=[GATE])
    runs.workflow({"id": "outer", "skill": "inner"})
    task_id = await runs.begin()
    await runs.pending()
    await until_it_rests(runs)

    await runs.approve()

    assert await runs.rests(task_id) == "task.succeeded"
    await until_it_rests(runs)
