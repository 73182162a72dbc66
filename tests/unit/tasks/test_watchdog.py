"""Tasks that get nowhere are told of, go on with a cheaper model, or are stopped; time is a test's own."""

from collections.abc import AsyncIterator

import pytest

from ozzie_server_ext.config.settings import Settings, WatchdogSettings
from ozzie_server_ext.domain.events import (
    Draft,
    EventBody,
    TaskCancelled,
    TaskModelChosen,
    TaskPaused,
    TaskStalled,
    TaskWaitingInput,
    ToolCallRequested,
    ToolCallStarted,
    Transient,
)
from ozzie_server_ext.domain.ids import CallId, SessionId, TaskId, task_stream
from ozzie_server_ext.domain.tasks import TaskHeld
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tasks.watchdog import Watchdog
from tests.unit.tasks.rig import Gate, TaskRig

REQUESTED = ToolCallRequested(
    call_id=CallId("c"), use_id="u", tool_id="shell.run", name="shell", version="1", args={}, round=1, index=0
)


class Watched(TaskRig):
    def __init__(self) -> None:
        self.clock = FakeClock()
        super().__init__(InMemoryEventLog(self.clock, CountingIds()))
        self.settings = WatchdogSettings(after_s=60)
        self.cheaper: object | None = "cheap"
        self.watchdog = self.another()

    def another(self) -> Watchdog:
        """The watchdog of a gateway that begins now."""
        return Watchdog(self.log, self.service, self.clock, self._settings_of, self._cheaper_of)

    async def _settings_of(self, session_id: SessionId) -> Settings:
        return Settings(watchdog=self.settings)

    async def _cheaper_of(self, session_id: SessionId) -> object | None:
        return self.cheaper

    async def running(self, text: str = "a", session: str = "s1") -> TaskId:
        self.turns[text] = gate = Gate()
        sent = await self.submit(text, session)
        await gate.wait()
        return sent.task_id

    async def record(self, task_id: TaskId, *bodies: EventBody) -> None:
        drafts = [
            Draft(body=body, actor="kernel", source="test", session_id=SessionId("s1"), task_id=task_id)
            for body in bodies
        ]
        await self.log.append(task_stream(task_id), drafts)

    async def later(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.watchdog.look()

    async def stalls(self, task_id: TaskId) -> list[tuple[str, float]]:
        found = [body for body in await self.bodies(task_id) if isinstance(body, TaskStalled)]
        return [(body.action, body.quiet_s) for body in found]


@pytest.fixture
async def rig() -> AsyncIterator[Watched]:
    rig = Watched()
    yield rig
    await rig.driver.stop()


async def test_a_task_from_which_nothing_came_is_told_of_once(rig: Watched) -> None:
    task_id = await rig.running()
    await rig.later(59)
    assert await rig.stalls(task_id) == []
    for _ in range(5):
        await rig.later(61)
    assert await rig.stalls(task_id) == [("remind", 120.0)]


async def test_it_is_told_what_it_is_doing_and_what_to_do(rig: Watched) -> None:
    task_id = await rig.running()
    await rig.record(task_id, REQUESTED, ToolCallStarted(call_id=CallId("c")))
    await rig.later(60)
    (stalled,) = [body for body in await rig.bodies(task_id) if isinstance(body, TaskStalled)]
    assert stalled.doing == "It waits for shell."
    assert f"ozzie tasks cancel {task_id}" in stalled.hint


async def test_whatever_comes_from_it_begins_the_time_anew(rig: Watched) -> None:
    task_id = await rig.running()
    delta = Transient(
        type="reply.delta", session_id=SessionId("s1"), task_id=task_id, payload={"reply_id": "r", "offset": 0}
    )
    reasons = Transient(
        type="task.progress", session_id=SessionId("s1"), task_id=task_id, payload={"step": "reasoning"}
    )
    for comes in (delta, reasons, None):
        await rig.later(50)
        if comes is not None:
            rig.watchdog.hear(comes)
        else:
            await rig.record(task_id, REQUESTED)
    await rig.later(50)
    assert await rig.stalls(task_id) == []
    waits = Transient(type="task.progress", session_id=SessionId("s1"), task_id=task_id, payload={"step": "waiting"})
    rig.watchdog.hear(waits)
    await rig.later(10)
    assert await rig.stalls(task_id) == [("remind", 60.0)]
    await rig.record(task_id, ToolCallStarted(call_id=CallId("c")))
    await rig.later(60)
    assert len(await rig.stalls(task_id)) == 2


async def test_it_goes_on_with_the_cheaper_model_where_that_is_wanted_and_there_is_one(rig: Watched) -> None:
    rig.settings = WatchdogSettings(after_s=60, action="degrade")
    first = await rig.running("a", "s1")
    for _ in range(4):
        await rig.later(60)
    assert [action for action, _ in await rig.stalls(first)] == ["remind", "degrade"]
    assert TaskModelChosen(model="cheap", reason="task.stalled") in await rig.bodies(first)
    rig.cheaper = None
    second = await rig.running("b", "s2")
    for _ in range(4):
        await rig.later(60)
    assert [action for action, _ in await rig.stalls(second)] == ["remind"]


async def test_it_is_stopped_once_where_that_is_wanted(rig: Watched) -> None:
    rig.settings = WatchdogSettings(after_s=60, action="cancel")
    task_id = await rig.running()
    await rig.later(60)
    assert await rig.status(task_id) == "RUNNING"
    await rig.later(60)
    assert await rig.end(task_id) == "CANCELLED"
    (end,) = [body for body in await rig.bodies(task_id) if isinstance(body, TaskCancelled)]
    assert (end.by, end.reason) == ("watchdog", "nothing came from it for 2 min 0 s")
    before = len(await rig.bodies(task_id))
    rig.watchdog = rig.another()
    for _ in range(3):
        await rig.later(120)
    assert len(await rig.bodies(task_id)) == before


async def test_the_time_begins_anew_with_a_gateway(rig: Watched) -> None:
    rig.settings = WatchdogSettings(after_s=60, action="cancel")
    task_id = await rig.running()
    await rig.later(60)
    rig.watchdog = rig.another()
    await rig.later(60)
    await rig.later(59)
    assert await rig.status(task_id) == "RUNNING"


@pytest.mark.parametrize("holds", [TaskWaitingInput(question="Tea?"), TaskPaused(by="ann", reason="by you")])
async def test_waiting_for_a_person_is_no_stall(rig: Watched, holds: EventBody) -> None:
    async def wait(recorder: Recorder) -> int:
        await recorder.append(holds)
        raise TaskHeld

    rig.turns["a"] = wait
    sent = await rig.submit("a")
    await rig.reach(sent.task_id, "WAITING_INPUT", "PAUSED")
    for _ in range(3):
        await rig.later(600)
    assert await rig.stalls(sent.task_id) == []


async def test_what_waits_for_its_turn_is_no_stall_and_nothing_is_looked_at_where_that_is_off(rig: Watched) -> None:
    first, second = await rig.running("a"), (await rig.submit("b")).task_id
    await rig.later(60)
    assert await rig.stalls(second) == []
    rig.settings = WatchdogSettings(after_s=None)
    for _ in range(3):
        await rig.later(600)
    assert len(await rig.stalls(first)) == 1
