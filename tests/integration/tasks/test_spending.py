"""A rule limits what is spent on a day: over all tasks, also of two at once, and after a restart."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ozzie_server_ext.domain.events import ToolCallDecided, ToolCallStarted
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.domain.toolmeta import Category, ToolResult
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Say, Step, Use
from ozzie_server_ext.tools.base import ToolContext, ToolFailed
from tests.integration.tasks.runs_rig import WAIT_S, Runs, runs_in
from tests.office.contract import acts, money
from tests.workloads.playing import RESTS

RULE = {
    "id": "small-change",
    "decision": "allow",
    "reason": "Up to 100 EUR a day.",
    "when": {"tools": ["till.give"], "spent_today": {"at_most": "100 EUR"}},
    "examples": {
        "match": [{"tool": "give", "args": {"amount": 60, "currency": "EUR"}, "spent_today": "40 EUR"}],
        "no_match": [{"tool": "give", "args": {"amount": 60, "currency": "EUR"}, "spent_today": "41 EUR"}],
    },
}


def give(context: ToolContext, *, amount: float, currency: str = "EUR") -> ToolResult:
    """Give money to somebody."""
    if amount == 1:
        raise ToolFailed("Nobody wants a single one.")
    return ToolResult(ok=True, data="given")


class Till(Runs):
    def begin_with_it(self) -> None:
        """Offer the tool, which a restart leaves out, and give what a message says."""
        self.ozzie.projects.own.tools.register(
            acts("till", give, Category.PAYMENT, brings=None, targets=money("amount"))
        )

        def answer(request: ModelRequest) -> Sequence[Step]:
            last = request.messages[-1]
            return [Use("give", last.content)] if last.role == "user" else [Say("Done.")]

        self.answers(answer)

    async def gives(self, amount: float, notebook: str = "n") -> tuple[TaskId, str]:
        """The task, and what was decided."""
        self.notebook = notebook
        task_id = await self.say(json.dumps({"amount": amount}))
        return task_id, await self.decision(task_id)

    async def decision(self, task_id: TaskId) -> str:
        """What was decided, once the task has ended or asks."""
        async with asyncio.timeout(WAIT_S), self.ozzie.feed.subscribe(0, types=RESTS, task_id=task_id) as events:
            await anext(events)
        return (await self.facts(task_id, ToolCallDecided))[-1].decision


@pytest.fixture
async def till(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Till]:
    async with runs_in(tmp_path, monkeypatch, Till) as till:
        till.begin_with_it()
        (till.ozzie.home.root / "policy.jsonc").write_text(json.dumps({"rules": [RULE]}))
        yield till


async def test_what_other_sessions_spent_counts_and_what_failed_does_not(till: Till) -> None:
    first, decision = await till.gives(60)
    assert decision == "ALLOW"
    assert [each.amounts for each in await till.facts(first, ToolCallStarted)] == [("60.00 EUR",)]

    _, decision = await till.gives(1, "another")
    assert decision == "ALLOW", "it fails, and is not counted"
    _, decision = await till.gives(40, "another")
    assert decision == "ALLOW"

    last, decision = await till.gives(0.01, "a third")
    assert decision == "ASK"
    assert (await till.facts(last, ToolCallDecided))[-1].spent == ("100.00 EUR",)
    asked = await till.approve()
    assert asked.asked.rule == "floor.payment"
    assert await till.rests(last) == "task.succeeded"


async def test_it_is_remembered_over_a_restart(till: Till) -> None:
    await till.gives(90)

    await till.restart()
    till.begin_with_it()

    task_id, decision = await till.gives(20)
    assert decision == "ASK"
    await till.reject("no")
    await till.rests(task_id)


async def test_of_two_tasks_at_once_the_second_counts_the_first(till: Till) -> None:
    tasks: list[TaskId] = []
    for notebook in ("one", "two", "three"):
        till.notebook = notebook
        tasks.append(await till.say('{"amount": 60}'))

    assert sorted([await till.decision(task_id) for task_id in tasks]) == ["ALLOW", "ASK", "ASK"]
    for _ in range(2):
        await till.reject("no")
    for task_id in tasks:
        await till.rests(task_id)
