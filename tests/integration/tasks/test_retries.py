"""Tasks that are tried again: turns from what was done, runs with what is missing, never what nobody knows."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.events import (
    MessageCompleted,
    Origin,
    StepFailed,
    StepStarted,
    TaskCancelled,
    TaskFailed,
    TaskRetried,
    TaskStarted,
    TaskWaitingInput,
    ToolCallStarted,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.domain.toolmeta import Idempotency, RiskLevel, SideEffect, ToolMeta, ToolResult
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Fail, Say, Step, Use, Wait
from ozzie_server_ext.tasks.service import NewTurn
from ozzie_server_ext.tools.base import FunctionTool, ToolContext
from tests.integration.tasks.runs_rig import WAIT_S, Runs, asked, echo, runs_in
from tests.scripted_gateway import ScriptedOzzie

DOWN = "provider.unavailable"
ENDS = frozenset({"task.succeeded", "task.failed", "task.cancelled", "task.waiting_input"})
"""How a task ends, or stops for an answer."""


class Retrying(Runs):
    """Also turns, and a tool whose effect is counted, and is broken off in the middle where a test wants that."""

    def __init__(self, ozzie: ScriptedOzzie) -> None:
        super().__init__(ozzie)
        self.effects = 0
        self.breaks = False
        ozzie.projects.own.tools.register(FunctionTool(self._spend, SPENDING))

    async def _spend(self, context: ToolContext) -> ToolResult:
        """Have an effect that can't be looked for."""
        self.effects += 1
        if self.breaks:
            raise RuntimeError("gone in the middle")
        return ToolResult(ok=True, data={"spent": self.effects}, summary="spent")

    async def turn(self, text: str, *, attended: bool = True) -> TaskId:
        session = await self.ozzie.sessions.open("n", title="n", channel="notebook")
        origin = Origin(channel="notebook", sender_id="ana")
        return (await self.ozzie.submit(NewTurn(session.session_id, text, origin, attended=attended))).task_id

    async def ends(self, task_id: TaskId, count: int = 1) -> str:
        """How the task ended for the `count`th time."""
        async with asyncio.timeout(WAIT_S), self.ozzie.feed.subscribe(0, types=ENDS, task_id=task_id) as events:
            for _ in range(count - 1):
                await anext(events)
            return (await anext(events)).type

    async def every_end(self, task_id: TaskId) -> list[str]:
        """All ends so far."""
        events = await self.ozzie.log.read_stream(task_stream(task_id))
        return [event.type for event in events if event.type in ENDS]

    async def retry(self, task_id: TaskId) -> TaskRetried:
        await self.ozzie.control.retries.retry(task_id, by="Ana")
        return (await self.facts(task_id, TaskRetried))[-1]

    async def status(self, task_id: TaskId) -> str:
        return str((await self.ozzie.tasks.get(task_id))["status"])


SPENDING = ToolMeta(
    tool_id="test.spend",
    name="spend",
    side_effect=SideEffect.REVERSIBLE,
    risk_level=RiskLevel.LOW,
    timeout_s=30,
    idempotency=Idempotency.NOT_SUPPORTED,
)


@pytest.fixture
async def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Retrying]:
    async with runs_in(tmp_path, monkeypatch, Retrying) as runs:
        yield runs


# --- turns -------------------------------------------------------------------------------------------------


async def test_a_turn_goes_on_from_what_was_done_and_makes_no_call_twice(runs: Retrying) -> None:
    seen: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Sequence[Step]:
        seen.append(request)
        return [Say("42")]

    runs.ozzie.plays(Use("calculator", '{"expr": "6*7"}'), [Fail("provider.auth")], answer)
    task_id = await runs.turn("How much is 6*7?")
    assert await runs.ends(task_id) == "task.failed"
    told = await runs.ozzie.control.retries.retry(task_id, by="Ana")
    assert (told.attempt, told.rounds_left, told.ahead) == (2, 24, 0)
    assert await runs.ends(task_id, 2) == "task.succeeded"
    assert [fact.attempt for fact in await runs.facts(task_id, TaskStarted)] == [1, 2]
    assert len(await runs.facts(task_id, ToolCallStarted)) == 1
    assert [message.role for message in seen[0].messages] == ["system", "user", "assistant", "tool"]


async def test_a_turn_that_was_stopped_in_its_answer_is_asked_anew_behind_what_was_said_since(runs: Retrying) -> None:
    go, here = asyncio.Event(), asyncio.Event()
    seen: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Sequence[Step]:
        seen.append(request)
        return [Say("whole")]

    runs.ozzie.plays([Say("half a"), Wait(go, here), Say(" word")], [Say("meanwhile")], answer)
    first = await runs.turn("first")
    await asyncio.wait_for(here.wait(), WAIT_S)
    await runs.ozzie.tasks.cancel(first, by="Ana")
    assert await runs.ends(first) == "task.cancelled"
    second = await runs.turn("second")
    assert await runs.ends(second) == "task.succeeded"
    await runs.retry(first)
    assert await runs.ends(first, 2) == "task.succeeded"
    said = [message.content for message in seen[0].messages if message.role != "system"]
    assert said == ["second", "meanwhile", "first"], "half an answer is no part of it, and it comes last"
    assert [fact.text for fact in await runs.facts(first, MessageCompleted)] == ["half a", "whole"]


async def test_a_retry_is_durable(runs: Retrying) -> None:
    runs.ozzie.plays([Fail("provider.auth")], [Say("there")])
    task_id = await runs.turn("Where?")
    await runs.ends(task_id)
    driver = runs.ozzie.driver
    driver._stopping = True
    await runs.retry(task_id)
    assert await runs.status(task_id) == "QUEUED"
    await runs.restart()
    assert await runs.ends(task_id, 2) == "task.succeeded"
    assert (await runs.ozzie.tasks.get(task_id))["attempt"] == 2


async def test_what_can_not_be_tried_again_is_refused_in_words(runs: Retrying) -> None:
    go, here = asyncio.Event(), asyncio.Event()
    runs.ozzie.plays([Wait(go, here), Say("done")])
    task_id = await runs.turn("Wait.")
    await asyncio.wait_for(here.wait(), WAIT_S)
    with pytest.raises(Conflict, match="has not ended") as refused:
        await runs.retry(task_id)
    assert refused.value.code == "task.open"
    go.set()
    await runs.ends(task_id)
    with pytest.raises(Conflict, match="has succeeded") as refused:
        await runs.retry(task_id)
    assert (refused.value.code, bool(refused.value.hint)) == ("task.succeeded", True)


async def test_a_turn_that_has_no_round_left_is_refused(runs: Retrying) -> None:
    (runs.ozzie.home.root / "config.jsonc").write_text('{"agent": {"max_rounds": 1}}')
    runs.ozzie.plays(Use("calculator", '{"expr": "6*7"}'))
    task_id = await runs.turn("How much?")
    assert await runs.ends(task_id) == "task.failed"
    with pytest.raises(Conflict, match="all of its 1 rounds") as refused:
        await runs.retry(task_id)
    assert refused.value.code == "limit.rounds"


async def test_an_effect_that_nobody_knows_of_is_asked_about_and_not_had_again(runs: Retrying) -> None:
    runs.breaks = True
    runs.ozzie.plays(Use("spend", "{}"), [Say("done")])
    task_id = await runs.turn("Spend it.")
    assert await runs.ends(task_id, 1) == "task.waiting_input"
    await runs.ozzie.answers.answer(task_id, "leave", by="Ana")
    assert await runs.ends(task_id, 2) == "task.failed"

    await runs.retry(task_id)

    assert await runs.ends(task_id, 3) == "task.waiting_input"
    assert runs.effects == 1
    await runs.ozzie.answers.answer(task_id, "done", by="Ana")
    assert await runs.ends(task_id, 4) == "task.succeeded"
    assert runs.effects == 1
    assert len(await runs.facts(task_id, TaskWaitingInput)) == 2


# --- runs --------------------------------------------------------------------------------------------------


def once(what: str, *then: Step) -> "Failing":
    return Failing(what, then or (Fail("provider.auth"),))


class Failing:
    """Answers as `echo`, but the first time that it is told `what`."""

    def __init__(self, what: str, then: Sequence[Step]) -> None:
        self._what = what
        self._then = list(then)
        self.heard: list[str] = []

    def __call__(self, request: ModelRequest) -> Sequence[Step]:
        said = asked(request).splitlines()[0]
        self.heard.append(said)
        if said == self._what and self._then:
            then, self._then = self._then, []
            return then
        return echo(request)


async def test_a_run_goes_on_with_what_is_missing(runs: Retrying) -> None:
    answer = once("Two")
    runs.answers(answer)
    runs.workflow(
        {"id": "a", "instruction": "One"},
        {"id": "b", "instruction": "Two", "needs": ["a"], "retry_policy": {"max_attempts": 1}},
        {"id": "c", "instruction": "Three {{steps.b.output}}", "needs": ["b"]},
    )
    task_id = await runs.run()
    assert await runs.status(task_id) == "FAILED"
    told = await runs.ozzie.control.retries.retry(task_id, by="Ana")
    assert (told.attempt, told.steps_left) == (2, 2)
    assert await runs.ends(task_id, 2) == "task.succeeded"
    assert answer.heard == ["One", "Two", "Two", "Three <Two>"]
    starts = [(fact.step_id, fact.visit, fact.attempt) for fact in await runs.facts(task_id, StepStarted)]
    assert starts == [("a", 1, 1), ("b", 1, 1), ("b", 2, 1), ("c", 1, 1)]
    assert len({fact.task for fact in await runs.facts(task_id, StepStarted)}) == 4, "each by a task of its own"


async def test_a_run_that_was_stopped_begins_the_step_that_ran_anew(runs: Retrying) -> None:
    here = asyncio.Event()
    answer = once("Two", Wait(asyncio.Event(), here))
    runs.answers(answer)
    runs.workflow({"id": "a", "instruction": "One"}, {"id": "b", "instruction": "Two", "needs": ["a"]})
    task_id = await runs.begin()
    await asyncio.wait_for(here.wait(), WAIT_S)
    await runs.ozzie.tasks.cancel(task_id, by="Ana")
    assert await runs.ends(task_id) == "task.cancelled"
    await runs.retry(task_id)
    assert await runs.ends(task_id, 2) == "task.succeeded"
    assert answer.heard == ["One", "Two", "Two"]
    (stopped,) = await runs.facts(task_id, StepFailed)
    assert (stopped.step_id, stopped.code, stopped.again_in_s) == ("b", "step.stopped", 0.0)


async def test_a_step_is_tried_again_with_its_run_only(runs: Retrying) -> None:
    runs.answers(once("One"))
    runs.workflow({"id": "a", "instruction": "One", "retry_policy": {"max_attempts": 1}})
    task_id = await runs.run()
    (started,) = await runs.facts(task_id, StepStarted)
    assert started.task is not None
    with pytest.raises(Conflict) as refused:
        await runs.retry(started.task)
    assert (refused.value.code, refused.value.hint) == ("task.part", f"ozzie tasks retry {task_id}")


async def test_a_run_within_a_run_goes_on_where_it_was(runs: Retrying) -> None:
    answer = once("Two")
    runs.answers(answer)
    runs.write(
        name="inner",
        type="workflow",
        steps=[
            {"id": "a", "instruction": "One"},
            {"id": "b", "instruction": "Two", "needs": ["a"], "retry_policy": {"max_attempts": 1}},
        ],
    )
    runs.workflow({"id": "x", "skill": "inner", "with": {"input": "tea"}, "retry_policy": {"max_attempts": 1}})
    task_id = await runs.run()
    assert await runs.status(task_id) == "FAILED"
    retried = await runs.retry(task_id)
    assert await runs.ends(task_id, 2) == "task.succeeded"
    assert answer.heard == ["One", "Two", "Two"], "what the inner run had done is not done again"
    first, second = await runs.facts(task_id, StepStarted)
    assert retried.taken_up == {"x": first.task}
    assert first.task == second.task


async def test_what_a_step_may_have_done_is_asked_about_when_its_run_is_tried_again(runs: Retrying) -> None:
    runs.breaks = True
    runs.workflow({"id": "a", "call": {"tool": "spend", "args": {}}})
    task_id = await runs.begin()
    child = (await runs.step(StepStarted)).task
    assert child is not None
    assert await runs.ends(child) == "task.waiting_input"
    assert await runs.ends(task_id) == "task.waiting_input", "it waits with its step"
    await runs.ozzie.answers.answer(child, "leave", by="Ana")
    assert await runs.rests(task_id) == "task.failed"

    await runs.retry(task_id)

    assert await runs.ends(child, 3) == "task.waiting_input"
    assert await runs.ends(task_id, 3) == "task.waiting_input"
    assert runs.effects == 1
    runs.breaks = False
    await runs.ozzie.answers.answer(child, "again", by="Ana")
    assert await runs.ends(task_id, 4) == "task.succeeded"
    ends = ["task.waiting_input", "task.failed", "task.waiting_input", "task.succeeded"]
    assert await runs.every_end(task_id) == ends
    assert runs.effects == 2, "a person said that it was not done"


async def test_a_run_whose_doubt_nobody_can_be_asked_about_is_refused(runs: Retrying) -> None:
    runs.breaks = True
    runs.workflow({"id": "a", "call": {"tool": "spend", "args": {}}})
    task_id = await runs.begin(attended=False)
    assert await runs.rests(task_id) == "task.failed"
    assert runs.effects == 1
    with pytest.raises(Conflict, match="may or may not") as refused:
        await runs.retry(task_id)
    assert refused.value.code == "task.uncertain"
    assert await runs.status(task_id) == "FAILED"


async def test_a_machine_that_ended_in_a_failed_state_is_not_tried_again(runs: Retrying) -> None:
    runs.write(
        name="m",
        type="fsm",
        states=[
            {"id": "look", "instruction": "Look", "moves": [{"to": "no"}]},
            {"id": "no", "final": True, "outcome": "failed"},
        ],
    )
    task_id = await runs.run("m")
    with pytest.raises(Conflict, match="has ended by itself") as refused:
        await runs.retry(task_id)
    assert refused.value.hint == "Begin another one: ozzie skills run m"


async def test_a_machine_comes_once_more_to_the_state_that_failed(runs: Retrying) -> None:
    answer = once("Look")
    runs.answers(answer)
    work = {"id": "look", "instruction": "Look", "retry_policy": {"max_attempts": 1}}
    moves = [{"on": "done", "to": "end"}]
    runs.write(name="m", type="fsm", states=[{**work, "moves": moves}, {"id": "end", "final": True}])
    task_id = await runs.run("m")
    assert await runs.status(task_id) == "FAILED"
    await runs.retry(task_id)
    assert await runs.ends(task_id, 2) == "task.succeeded"
    assert answer.heard == ["Look", "Look"]


async def test_stopping_a_run_that_waits_to_be_tried_again_stops_what_it_goes_on_by(runs: Retrying) -> None:
    runs.breaks = True
    runs.workflow({"id": "a", "call": {"tool": "spend", "args": {}}})
    task_id = await runs.begin()
    started = await runs.step(StepStarted)
    assert started.task is not None
    await runs.ends(started.task)
    await runs.ozzie.answers.answer(started.task, "leave", by="Ana")
    await runs.rests(task_id)
    runs.ozzie.driver._stopping = True
    await runs.retry(task_id)
    assert [await runs.status(each) for each in (task_id, started.task)] == ["QUEUED", "QUEUED"]
    await runs.ozzie.tasks.cancel(task_id, by="Ana")
    assert [await runs.status(each) for each in (task_id, started.task)] == ["CANCELLED", "CANCELLED"]
    ends = [event.body for event in await runs.ozzie.log.read_stream(task_stream(started.task))]
    assert isinstance(ends[-1], TaskCancelled)
    assert sum(isinstance(end, TaskFailed) for end in ends) == 1
