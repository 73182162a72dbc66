"""What is said to tasks that go on already: read at the next call of a model, and never lost."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.errors import Conflict, InputError
from ozzie_server_ext.domain.events import (
    Draft,
    Event,
    MessageCompleted,
    ModelCallStarted,
    StepStarted,
    TaskStarted,
    TaskSucceeded,
    TaskUpdated,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Say, Step, Use, Wait
from tests.integration.tasks.runs_rig import WAIT_S, Answer, asked, echo, runs_in
from tests.integration.tasks.test_pauses import SUM, Pausing
from tests.scripted_gateway import ScriptedOzzie


class Updating(Pausing):
    def __init__(self, ozzie: ScriptedOzzie) -> None:
        super().__init__(ozzie)
        self.go, self.here = asyncio.Event(), asyncio.Event()
        self.requests: list[ModelRequest] = []

    async def update(self, task_id: TaskId, text: str, key: str = "") -> None:
        await self.ozzie.control.updates.update(task_id, text, by="Ana", key=key)

    def said(self, *steps: Step) -> Answer:
        """A round that keeps what it was asked."""

        def answer(request: ModelRequest) -> Sequence[Step]:
            self.requests.append(request)
            return steps

        return answer

    async def reached(self) -> None:
        await asyncio.wait_for(self.here.wait(), WAIT_S)

    async def begun_within(self) -> TaskId:
        """A run whose only step is a run, whose agent is in the middle of an answer that it does not come to."""
        self.ozzie.plays(*([self.said(Wait(asyncio.Event(), self.here), Say("no"))] + [self.said(Say("yes"))] * 9))
        self.write(name="inner", type="workflow", steps=[{"id": "a", "instruction": "One"}])
        self.workflow({"id": "x", "skill": "inner", "with": {"input": "tea"}})
        task_id = await self.begin()
        await self.reached()
        return task_id

    async def within(self) -> tuple[TaskId, TaskId]:
        """The run within that one, and its agent's task."""
        inner = (await self.step(StepStarted)).task
        assert inner is not None
        (started,) = await self.facts(inner, StepStarted)
        assert started.task is not None
        return inner, started.task

    def conversation(self, number: int) -> list[tuple[str, str]]:
        return [(each.role, each.content) for each in self.requests[number].messages if each.role != "system"]


@pytest.fixture
async def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Updating]:
    async with runs_in(tmp_path, monkeypatch, Updating) as runs:
        yield runs


async def test_a_turn_reads_it_behind_what_its_tools_gave(runs: Updating) -> None:
    runs.ozzie.plays([Wait(runs.go, runs.here), SUM], runs.said(Say("42, in French: quarante-deux.")))
    task_id = await runs.turn("How much is 6*7?")
    await runs.reached()
    await runs.update(task_id, "  In French, please. ")
    runs.go.set()
    assert await runs.ends(task_id) == "task.succeeded"
    roles = [role for role, _ in runs.conversation(0)]
    assert roles == ["user", "assistant", "tool", "user"]
    assert runs.conversation(0)[-1] == ("user", "In French, please.")
    (said,) = await runs.facts(task_id, TaskUpdated)
    assert (said.text, said.by) == ("In French, please.", "Ana")
    (event,) = [e for e in await runs.ozzie.log.read_stream(task_stream(task_id)) if e.type == "task.updated"]
    assert (event.actor, event.labels) == ("user", ())


async def test_a_turn_that_was_about_to_end_goes_on_for_it(runs: Updating) -> None:
    runs.ozzie.plays([Say("first"), Wait(runs.go, runs.here)], runs.said(Say("second")))
    task_id = await runs.turn("Tell me.")
    await runs.reached()
    await runs.update(task_id, "And more.")
    runs.go.set()
    assert await runs.ends(task_id) == "task.succeeded"
    assert runs.conversation(0) == [("user", "Tell me."), ("assistant", "first"), ("user", "And more.")]
    assert [fact.updates for fact in await runs.facts(task_id, ModelCallStarted)] == [0, 1]


async def test_what_comes_between_the_last_look_and_the_end_is_read_too(
    runs: Updating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end itself is refused then, in the log; its answer is not."""
    runs.ozzie.plays(SUM, [Say("first")], runs.said(Say("second")))
    append, told = runs.ozzie.log.append, list[bool]()

    async def told_late(stream: str, drafts: Sequence[Draft], **how: Any) -> tuple[Event, ...]:
        if not told and any(isinstance(draft.body, TaskSucceeded) for draft in drafts):
            told.append(True)
            await runs.update(task_id, "And more.")
        return await append(stream, drafts, **how)

    monkeypatch.setattr(runs.ozzie.log, "append", told_late)
    task_id = await runs.turn("Tell me.")
    assert await runs.ends(task_id) == "task.succeeded"
    assert runs.conversation(0)[-1] == ("user", "And more.")
    assert [each.text for each in await runs.facts(task_id, MessageCompleted)] == ["first", "second"]
    assert len(await runs.facts(task_id, TaskStarted)) == 1


async def test_the_last_answer_is_recorded_together_with_the_end(runs: Updating) -> None:
    runs.ozzie.plays([Say("done")])
    task_id = await runs.turn("Tell me.")
    assert await runs.ends(task_id) == "task.succeeded"
    *_, completed, message, end = await runs.ozzie.log.read_stream(task_stream(task_id))
    assert [completed.type, message.type, end.type] == ["model.call.completed", "message.completed", "task.succeeded"]
    assert completed.ts == end.ts, "an append has one time"


async def test_a_queued_turn_reads_it_with_its_message(runs: Updating) -> None:
    runs.ozzie.plays([Wait(runs.go, runs.here), Say("one")], runs.said(Say("two")))
    await runs.turn("first")
    second = await runs.turn("second")
    await runs.reached()
    await runs.update(second, "Shortly.")
    runs.go.set()
    assert await runs.ends(second) == "task.succeeded"
    assert runs.conversation(0)[-1] == ("user", "second\n\nShortly.")


async def test_it_is_there_after_a_restart_and_an_answer_without_it_is_none(runs: Updating) -> None:
    other = asyncio.Event()
    runs.ozzie.plays(
        [Say("first"), Wait(runs.go, runs.here)],
        [Wait(asyncio.Event(), other), Say("cut off")],
        runs.said(Say("whole")),
    )
    task_id = await runs.turn("Tell me.")
    await runs.reached()
    await runs.update(task_id, "And more.")
    runs.go.set()
    await asyncio.wait_for(other.wait(), WAIT_S)
    await runs.restart()
    assert await runs.ends(task_id) == "task.succeeded"
    assert runs.conversation(0) == [("user", "Tell me."), ("assistant", "first"), ("user", "And more.")]


async def test_a_turn_that_waits_reads_it_once_it_goes_on(runs: Updating) -> None:
    runs.ozzie.plays(Use("ask_user", '{"question": "Tea?"}'), runs.said(Say("Tea.")))
    task_id = await runs.turn("Ask me.")
    assert await runs.ends(task_id) == "task.waiting_input"
    await runs.update(task_id, "Or mate.")
    await runs.ozzie.answers.answer(task_id, "skip", by="Ana")
    assert await runs.ends(task_id, 2) == "task.succeeded"
    assert runs.conversation(0)[-1] == ("user", "Or mate.")


async def test_a_run_hands_it_to_the_agents_that_run_and_to_those_that_begin(runs: Updating) -> None:
    def answer(request: ModelRequest) -> Sequence[Step]:
        runs.requests.append(request)
        wait = [Wait(runs.go, runs.here)] if asked(request) == "One" else []
        return [*wait, *echo(request)]

    runs.answers(answer)
    runs.workflow(
        {"id": "a", "instruction": "One"},
        {"id": "sum", "call": {"tool": "calculator", "args": {"expr": "1"}}, "needs": ["a"]},
        {"id": "b", "instruction": "Two", "needs": ["sum"]},
    )
    task_id = await runs.begin()
    await runs.reached()
    await runs.update(task_id, "In French.")
    runs.go.set()
    assert await runs.rests(task_id) == "task.succeeded"
    said = [asked(request).split("\n\n")[-1] for request in runs.requests]
    assert said == ["One", "In French.", "In French."]
    assert runs.conversation(2)[0][1].startswith("Two")


async def test_it_reaches_runs_within_runs_once_also_over_a_restart(runs: Updating) -> None:
    task_id = await runs.begun_within()
    await runs.update(task_id, "In French.")
    await runs.restart()
    assert await runs.rests(task_id) == "task.succeeded"
    inner, step = await runs.within()
    assert [len(await runs.facts(each, TaskUpdated)) for each in (task_id, inner, step)] == [1, 1, 1]
    assert runs.conversation(-1)[-1][1].endswith("In French.")


async def test_what_a_gateway_died_over_handing_on_is_said_to_the_steps_before_they_go_on(runs: Updating) -> None:
    async def dies(task_id: TaskId, updates: list[Event]) -> None:
        """Before any of those below hear of it."""

    task_id = await runs.begun_within()
    runs.ozzie.control.updates._forward_below = dies
    await runs.update(task_id, "In French.")
    await runs.restart()
    assert await runs.rests(task_id) == "task.succeeded"
    _, step = await runs.within()
    types = [event.type for event in await runs.ozzie.log.read_stream(task_stream(step))]
    assert types.count("task.updated") == 1
    assert types.index("task.updated") < max(at for at, each in enumerate(types) if each == "task.started")


async def test_who_judges_a_result_does_not_read_it(runs: Updating) -> None:
    def answer(request: ModelRequest) -> Sequence[Step]:
        runs.requests.append(request)
        if "The criterion" in asked(request):
            return [Say('{"holds": true, "why": "It is so."}')]
        return [*([] if runs.here.is_set() else [Wait(runs.go, runs.here)]), *echo(request)]

    runs.answers(answer)
    runs.workflow({"id": "a", "instruction": "One", "acceptance": "It is short."})
    task_id = await runs.begin()
    await runs.reached()
    await runs.update(task_id, "In French.")
    runs.go.set()
    assert await runs.rests(task_id) == "task.succeeded"
    assert "In French." not in runs.conversation(-1)[-1][1].removesuffix("<In French.>")
    assert [role for role, _ in runs.conversation(-1)] == ["user"]


async def test_what_can_not_be_said_is_refused_in_words(runs: Updating) -> None:
    task_id = await runs.turn("hello")
    assert await runs.ends(task_id) == "task.succeeded"
    with pytest.raises(Conflict, match="ended already: succeeded") as refused:
        await runs.update(task_id, "more")
    assert refused.value.hint.startswith("Send it as a new message")
    for text, code in ((" \n", "update.empty"), ("x" * 20_001, "update.too_long")):
        with pytest.raises(InputError) as wrong:
            await runs.update(task_id, text)
        assert wrong.value.code == code


async def test_a_step_that_makes_one_call_reads_nothing(runs: Updating) -> None:
    runs.workflow({"id": "a", "ask": {"question": "Tea?"}})
    task_id = await runs.begin()
    child = (await runs.step(StepStarted)).task
    assert child is not None
    assert await runs.ends(child) == "task.waiting_input"
    await runs.update(task_id, "Or mate.")
    with pytest.raises(Conflict, match="makes one call"):
        await runs.update(child, "Or mate.")
    await runs.ozzie.answers.answer(child, "skip", by="Ana")
    assert await runs.rests(task_id) == "task.succeeded"


async def test_an_update_with_a_key_counts_once_for_all_below_also_when_the_run_has_ended(runs: Updating) -> None:
    task_id = await runs.begun_within()
    inner, agent = await runs.within()
    await asyncio.gather(*(runs.update(task_id, "With milk.", key="k1") for _ in range(3)))
    await runs.update(task_id, "With milk.", key="k2")
    await runs.update(task_id, "With milk.")
    for each in (task_id, inner, agent):
        assert len(await runs.facts(each, TaskUpdated)) == 3

    await runs.ozzie.tasks.cancel(task_id, by="Ana")
    await runs.rests(task_id)
    await runs.update(task_id, "With milk.", key="k1")
    with pytest.raises(Conflict, match="ended already"):
        await runs.update(task_id, "With milk.", key="k3")
    assert len(await runs.facts(task_id, TaskUpdated)) == 3
