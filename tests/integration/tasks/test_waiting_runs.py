"""A run whose open steps all wait is waiting itself: it says for what, nothing drives it, and it goes on (ADR 53)."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.events import (
    Draft,
    Event,
    StepFailed,
    StepStarted,
    TaskQueued,
    TaskResumed,
    TaskSignalled,
    TaskStarted,
    TaskSucceeded,
    TaskWaitingApproval,
    TaskWaitingInput,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Step, Wait
from ozzie_server_ext.observability.clock import FakeClock
from ozzie_server_ext.store.tables import Row
from tests.integration.tasks.cut_logs import cut_off, recorded_appends
from tests.integration.tasks.runs_rig import WAIT_S, asked, echo, runs_in
from tests.integration.tasks.test_outside_events import PAID, Telling

GATE: dict[str, Any] = {"id": "gate", "title": "Publish", "approve": {"question": "Go on?"}}
SLOW: dict[str, Any] = {"id": "slow", "instruction": "Take your time"}
ASKS: dict[str, Any] = {"id": "which", "title": "Which year", "ask": {"question": "Which year?"}}


class Waiting(Telling):
    async def waits_for_approval(self, task_id: TaskId, count: int = 1) -> None:
        await self.until(task_id, TaskWaitingApproval, count)
        assert await self.status(task_id) == "WAITING_APPROVAL"

    async def waits_for_input(self, task_id: TaskId, count: int = 1) -> str:
        """Return for what."""
        await self.until(task_id, TaskWaitingInput, count)
        assert await self.status(task_id) == "WAITING_INPUT"
        return (await self.facts(task_id, TaskWaitingInput))[-1].question


@pytest.fixture
async def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Waiting]:
    async with runs_in(tmp_path, monkeypatch, Waiting) as runs:
        yield runs


async def test_it_waits_for_the_yes_of_its_step_and_goes_on_with_it(runs: Waiting) -> None:
    runs.workflow(GATE, {"id": "after", "instruction": "Go", "needs": ["gate"]})
    task_id = await runs.begin()
    await runs.waits_for_approval(task_id)
    (wait,) = await runs.facts(task_id, TaskWaitingApproval)
    assert wait.approval_id == (await runs.pending()).approval_id

    await runs.approve()

    assert await runs.rests(task_id) == "task.succeeded"
    (resumed,) = await runs.facts(task_id, TaskResumed)
    assert resumed.by == "Ana"
    first, second = await runs.facts(task_id, TaskStarted)
    assert first.attempt == second.attempt == 1
    assert first.epoch < second.epoch
    assert len(await runs.facts(task_id, StepStarted)) == 2, "the step goes on, and is not begun again"


async def test_who_answers_while_its_wait_is_recorded_is_who_lets_it_go_on(
    runs: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = runs.ozzie.log.append

    async def answered_meanwhile(stream: str, drafts: Sequence[Draft], **more: Any) -> tuple[Event, ...]:
        recorded = await append(stream, drafts, **more)
        if isinstance(drafts[-1].body, TaskWaitingApproval) and drafts[-1].source == "skill":
            await runs.approve()
        return recorded

    monkeypatch.setattr(runs.ozzie.log, "append", answered_meanwhile)
    runs.workflow(GATE)
    task_id = await runs.begin()

    assert await runs.rests(task_id) == "task.succeeded"
    (resumed,) = await runs.facts(task_id, TaskResumed)
    assert resumed.by == "Ana"


async def test_it_says_for_which_signal_it_waits(runs: Waiting) -> None:
    runs.workflow({**PAID, "title": "The money"})
    task_id = await runs.begin()
    assert await runs.waits_for_input(task_id) == 'The step "The money" waits for the event "paid".'
    assert await runs.ozzie.answers.question(task_id) is None

    await runs.tell(task_id)

    assert await runs.rests(task_id) == "task.succeeded"


async def test_it_says_which_step_waits_for_an_answer_and_quotes_no_question(runs: Waiting) -> None:
    runs.workflow(ASKS)
    task_id = await runs.begin()
    assert await runs.waits_for_input(task_id) == 'The step "Which year" waits for your answer.'


async def test_it_works_as_long_as_one_step_does(runs: Waiting) -> None:
    go_on, here = asyncio.Event(), asyncio.Event()

    def answer(request: ModelRequest) -> Sequence[Step]:
        return [Wait(go_on, here), *echo(request)] if "Take your time" in asked(request) else echo(request)

    runs.answers(answer)
    runs.workflow(GATE, SLOW)
    task_id = await runs.begin()
    await asyncio.wait_for(here.wait(), WAIT_S)
    await runs.pending()
    assert await runs.status(task_id) == "RUNNING"

    go_on.set()

    await runs.waits_for_approval(task_id)
    await runs.approve()
    assert await runs.rests(task_id) == "task.succeeded"


async def test_it_waits_with_the_run_that_a_step_of_it_is(runs: Waiting) -> None:
    runs.write(name="inner", type="workflow", steps=[GATE])
    runs.workflow({"id": "outer", "skill": "inner"})
    task_id = await runs.begin()
    await runs.waits_for_approval(task_id)
    inner = (await runs.facts(task_id, StepStarted))[0].task
    assert inner is not None
    assert await runs.status(inner) == "WAITING_APPROVAL"

    await runs.approve()

    assert await runs.rests(task_id) == "task.succeeded"


async def test_a_restart_records_nothing_for_a_waiting_run(runs: Waiting) -> None:
    runs.workflow(GATE)
    task_id = await runs.begin()
    await runs.waits_for_approval(task_id)
    before = await runs.ozzie.log.version(task_stream(task_id))
    for _ in range(2):
        await runs.restart()
        assert await runs.status(task_id) == "WAITING_APPROVAL"
    assert await runs.ozzie.log.version(task_stream(task_id)) == before, "nothing was to be recorded"

    await runs.approve()

    assert await runs.rests(task_id) == "task.succeeded"
    assert [fact.reason for fact in await runs.facts(task_id, TaskQueued)] == ["created"]


async def test_a_gateway_that_died_before_it_went_on_is_followed_by_one_that_lets_it(runs: Waiting) -> None:
    """Its step was resumed; of the run that had not been recorded."""
    runs.workflow(ASKS, {"id": "after", "instruction": "Go", "needs": ["which"]})
    task_id = await runs.begin()
    await runs.waits_for_input(task_id)
    step = (await runs.facts(task_id, StepStarted))[0].task
    assert step is not None
    runs.ozzie._run_waits._waiting.clear()  # as if it had died here
    await runs.ozzie.answers.answer(step, "2026", by="Ana")
    assert await runs.rests(step) == "task.succeeded"
    assert await runs.status(task_id) == "WAITING_INPUT"

    await runs.restart()
    runs.answers(echo)

    assert await runs.rests(task_id) == "task.succeeded"


@pytest.mark.parametrize("ago_s", [3600, 599.5], ids=["is over before the start", "ends soon after the start"])
async def test_the_time_of_its_step_goes_by_while_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ago_s: float
) -> None:
    """A gateway starts on a log whose step began so long ago. However slow it is, the time ends the step."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    with recorded_appends(monkeypatch) as appends:
        async with runs_in(before, monkeypatch, Waiting) as runs:
            runs.workflow({**GATE, "timeout_s": 600})
            task_id = await runs.begin()
            await runs.waits_for_approval(task_id)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(after / "user-config"))
    home = Home(after / "home")
    home.create()
    shutil.copytree(before / "home" / "data" / "blobs", home.blobs, dirs_exist_ok=True)
    await cut_off(home, appends, FakeClock(datetime.now(UTC) - timedelta(seconds=ago_s)))

    async with runs_in(after, monkeypatch, Waiting) as runs:
        assert await runs.rests(task_id) == "task.failed"
        (failed,) = await runs.facts(task_id, StepFailed)

    assert (failed.code, failed.message) == ("step.timeout", "It did not end within 600 s.")


async def test_it_can_be_paused_and_waits_again_when_it_goes_on(runs: Waiting) -> None:
    runs.workflow(GATE)
    task_id = await runs.begin()
    await runs.waits_for_approval(task_id)
    await runs.pause(task_id)
    await runs.paused(task_id)

    await runs.resume(task_id)

    await runs.waits_for_approval(task_id, 2)
    await runs.approve()
    assert await runs.rests(task_id) == "task.succeeded"


async def test_it_can_be_stopped_with_the_step_that_waits(runs: Waiting) -> None:
    runs.workflow(GATE)
    task_id = await runs.begin()
    await runs.waits_for_approval(task_id)
    step = (await runs.facts(task_id, StepStarted))[0].task
    assert step is not None

    await runs.ozzie.tasks.cancel(task_id, by="Ana")

    assert await runs.rests(task_id) == "task.cancelled"
    assert await runs.rests(step) == "task.cancelled"


async def test_it_is_stopped_with_its_step_as_it_begins_to_wait(runs: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that waits can't be requested to end. Here it has ended before `cancel` looks why it was refused."""
    runs.workflow(GATE)
    tasks, stopping = runs.ozzie.tasks, dict[TaskId, asyncio.Task[None]]()
    get = tasks.get

    async def get_at_its_end(task_id: TaskId) -> Row:
        if task_id in stopping:
            assert await runs.rests(task_id) == "task.cancelled"
        return await get(task_id)

    def stop(events: tuple[Event, ...]) -> None:
        run = next((event.task_id for event in events if event.source == "skill"), None)
        if run is not None:
            stopping[run] = asyncio.create_task(tasks.cancel(run, by="Ana"))

    monkeypatch.setattr(tasks, "get", get_at_its_end)

    runs.ozzie.log.on_commit(stop, types={TaskWaitingApproval.type})
    task_id = await runs.begin()

    assert await runs.rests(task_id) == "task.cancelled"
    await stopping[task_id]
    step = (await runs.facts(task_id, StepStarted))[0].task
    assert step is not None
    assert await runs.status(step) == "CANCELLED"


async def test_a_turn_behind_it_in_its_session_waits_for_it(runs: Waiting) -> None:
    runs.workflow(GATE)
    task_id = await runs.begin()
    await runs.waits_for_approval(task_id)
    behind = await runs.say("hello", attended=False)
    assert await runs.status(behind) == "QUEUED"

    await runs.approve()

    assert await runs.rests(task_id) == "task.succeeded"
    assert await runs.rests(behind) == "task.succeeded"
    (ended,) = await runs.ozzie.log.read(types=frozenset({TaskSucceeded.type}), task_id=task_id)
    (begun,) = await runs.ozzie.log.read(types=frozenset({TaskStarted.type}), task_id=behind)
    assert ended.position < begun.position


async def test_a_signal_for_a_later_step_does_not_wake_it(runs: Waiting) -> None:
    runs.workflow({"id": "first", "wait": {"event": "go"}}, PAID | {"needs": ["first"]})
    task_id = await runs.begin()
    await runs.waits_for_input(task_id)
    assert not await runs.tell(task_id, "paid")

    await runs.tell(task_id, "go")

    assert await runs.rests(task_id) == "task.succeeded"
    # A resume is recorded in the background, so only at the end it is clear that the first signal led to none.
    kinds = frozenset({TaskSignalled.type, TaskResumed.type})
    events = await runs.ozzie.log.read(types=kinds, task_id=task_id)
    assert [event.type for event in events] == [TaskSignalled.type, TaskSignalled.type, TaskResumed.type]
