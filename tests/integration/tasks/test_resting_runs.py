"""A run that only waits for people or for something outside keeps no gateway up; one that works does."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.events import AgentDelegated, StepStarted
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Say, Step, Use, Wait
from ozzie_server_ext.tasks.recovery import MAX_DEATHS
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


async def expect_busy_until_it_may_go_on(runs: Runs, task_id: TaskId, go_on: asyncio.Event) -> None:
    """What still works is waited for, and then nothing but the yes."""
    for _ in range(200):
        await asyncio.sleep(0)
        assert runs.ozzie.busy
    go_on.set()
    await until_it_rests(runs)
    await runs.approve()
    assert await runs.rests(task_id) == "task.succeeded"


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

    await expect_busy_until_it_may_go_on(runs, task_id, go_on)


async def test_a_run_that_waits_for_an_event_rests(runs: Runs) -> None:
    runs.workflow({"id": "paid", "wait": {"event": "paid"}})
    task_id = await runs.begin()
    await runs.step(StepStarted)
    await until_it_rests(runs)

    assert await runs.ozzie.control.signals.send(task_id, "paid", None, by="Ana", key="")

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


async def test_a_turn_rests_with_what_it_handed_over_and_its_time_stands_still(runs: Runs) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()
    hands_over_to_a_gate(runs, Wait(go_on, reached))
    task_id = await runs.say("Have it checked.")
    await asyncio.wait_for(reached.wait(), WAIT_S)
    assert runs.ozzie.busy
    assert runs.ozzie.times.passes(task_id)
    go_on.set()
    await runs.pending()
    await until_it_rests(runs)
    assert not runs.ozzie.times.passes(task_id)

    await runs.approve()

    assert await runs.rests(task_id) == "task.succeeded"
    await until_it_rests(runs)


async def test_so_it_does_after_a_restart(runs: Runs) -> None:
    hands_over_to_a_gate(runs)
    task_id = await runs.say("Have it checked.")
    await runs.pending()
    await runs.restart()
    hands_over_to_a_gate(runs)
    await until_it_rests(runs)
    assert not runs.ozzie.times.passes(task_id)
    worked = await runs.ozzie.times.spent(task_id)

    await until_it_rests(runs)
    assert await runs.ozzie.times.spent(task_id) == worked
    await runs.approve()

    assert await runs.rests(task_id) == "task.succeeded"


@pytest.mark.parametrize("skill", [{"type": "workflow", "steps": [GATE]}, {"instruction": "Check it."}])
async def test_it_waits_for_a_person_over_any_number_of_restarts(runs: Runs, skill: dict[str, Any]) -> None:
    """The next one that stopped it here would have ended it, and the question with it."""
    hands_over_to_a_gate(runs, **skill)
    task_id = await runs.say("Have it checked.")
    for _ in range(MAX_DEATHS + 1):
        await runs.pending()
        await until_it_rests(runs)
        await runs.restart()
        hands_over_to_a_gate(runs, **skill)
    asked_again = await runs.pending()
    await until_it_rests(runs)

    assert (await runs.approve()).approval_id == asked_again.approval_id
    assert await runs.rests(task_id) == "task.succeeded"
    assert len(await runs.facts(task_id, AgentDelegated)) == 1


async def test_a_turn_of_which_another_call_goes_on_is_busy(runs: Runs) -> None:
    go_on = asyncio.Event()

    def answer(request: ModelRequest) -> Sequence[Step]:
        if "Look it up." in request.messages[0].content:
            return [Wait(go_on), Say("found")]
        if request.messages[-1].role == "user":
            return [Use("skill_check", {}, "1"), Use("skill_scout", {"input": "tea"}, "2")]
        return [Say("Both came.")]

    runs.answers(answer)
    runs.write(name="check", description="Checks.", type="workflow", steps=[GATE])
    runs.write(name="scout", description="Looks something up.", instruction="Look it up.")
    task_id = await runs.say("Have both done.")
    await runs.pending()

    await expect_busy_until_it_may_go_on(runs, task_id, go_on)


def hands_over_to_a_gate(runs: Runs, *before: Step, **skill: Any) -> None:
    """The agent, whose turns may work for a minute, hands what it is told over to a skill that asks a person first."""

    def answer(request: ModelRequest) -> Sequence[Step]:
        if "Check it." in request.messages[0].content:
            checks = Use("write_file", {"path": "checked.md", "text": "It is."})
            return [checks if request.messages[-1].role == "user" else Say("It is noted.")]
        if request.messages[-1].role == "user":
            return [*before, Use("skill_check", {"input": "it"})]
        return [Say("It is checked.")]

    (runs.ozzie.home.root / "config.jsonc").write_text(json.dumps({"budgets": {"task": {"deadline_s": 60}}}))
    runs.answers(answer)
    skill = skill or {"type": "workflow", "steps": [GATE]}
    runs.write(name="check", description="Checks.", **skill)
