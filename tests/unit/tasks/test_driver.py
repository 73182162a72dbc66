"""Carrying tasks out: one at a time in a session, sessions side by side, every end recorded."""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from ozzie_server_ext.agent.rounds import LimitExceeded
from ozzie_server_ext.domain.errors import Bug, NotFound, OzzieError, Unavailable
from ozzie_server_ext.domain.events import (
    Draft,
    Event,
    TaskFailed,
    TaskQueued,
    TaskResumed,
    TaskStarted,
    TaskSucceeded,
    TaskWaitingInput,
    ToolCallRequested,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import CallId, SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.tasks import Claim, TaskHeld
from ozzie_server_ext.models.driver import ModelChoice
from ozzie_server_ext.models.failures import model_error
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tasks.driver import TaskDriver
from ozzie_server_ext.tasks.reconciliation import Reconciler
from ozzie_server_ext.tasks.service import TaskService
from tests.unit.tasks.rig import Gate, TaskRig, always

CHOICE = ModelChoice(alias="main", provider="p", driver="openai", model="m")


async def test_a_task_is_claimed_run_and_succeeds(rig: TaskRig) -> None:
    sent = await rig.submit("first")

    assert await rig.end(sent.task_id) == "SUCCEEDED"
    started, succeeded = (await rig.bodies(sent.task_id))[3:]
    assert isinstance(started, TaskStarted)
    assert (started.attempt, bool(started.epoch)) == (1, True)
    assert succeeded == TaskSucceeded(rounds=1)
    assert not rig.driver.busy


async def test_turns_of_one_session_run_one_after_the_other_in_their_order(rig: TaskRig) -> None:
    gates = {text: Gate() for text in ("a", "b", "c")}
    rig.turns |= gates
    sent = [await rig.submit(text) for text in gates]

    for text, gate in gates.items():
        await gate.wait()
        assert rig.began[-1] == text
        assert [other.reached.is_set() for other in gates.values()].count(True) == len(rig.began)
        gate.go_on.set()

    assert [await rig.end(item.task_id) for item in sent] == ["SUCCEEDED"] * 3
    assert rig.began == ["a", "b", "c"]


async def test_sessions_run_side_by_side(rig: TaskRig) -> None:
    rig.turns |= {"a": Gate(), "b": Gate()}
    gates = [rig.turns["a"], rig.turns["b"]]
    await rig.submit("a", session="s1")
    await rig.submit("b", session="s2")

    for gate in gates:
        assert isinstance(gate, Gate)
        await gate.wait()
    assert rig.driver.busy


async def test_what_is_stopped_before_its_first_step_is_cancelled_and_its_session_goes_on(rig: TaskRig) -> None:
    rig.turns["first"] = gate = Gate()
    first = await rig.submit("first")
    assert rig.began == [], "the turn has begun already: this test would show nothing"

    assert rig.driver.interrupt(first.task_id, "ann", "at once")

    assert await rig.end(first.task_id) == "CANCELLED"
    assert not gate.reached.is_set()
    second = await rig.submit("second")
    assert await rig.end(second.task_id) == "SUCCEEDED"


async def test_only_what_runs_here_can_be_interrupted(rig: TaskRig) -> None:
    rig.turns["first"] = gate = Gate()
    first, second = await rig.submit("first"), await rig.submit("second")
    await gate.wait()

    assert not rig.driver.interrupt(second.task_id, "ann", "")
    assert rig.driver.interrupt(first.task_id, "ann", "")


async def test_a_turn_that_ends_in_the_moment_it_is_stopped_keeps_one_end(rig: TaskRig) -> None:
    async def finish(recorder: Recorder) -> int:
        rig.driver.interrupt(recorder.task_id, "ann", "too late")
        return 1

    rig.turns["first"] = finish
    sent = await rig.submit("first")

    ended = await rig.end(sent.task_id)

    assert ended in ("SUCCEEDED", "CANCELLED")
    second = await rig.submit("second")
    assert await rig.end(second.task_id) == "SUCCEEDED"


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (model_error("provider.auth", CHOICE), "model", "provider.auth"),
        (Unavailable("There is no key.", hint="Set it.", code="provider.no_key"), "model", "provider.no_key"),
        (OzzieError("Unknown.", code="model.unknown"), "model", "model.unknown"),
        (LimitExceeded("Too long.", hint="Less.", code="limit.rounds"), "business", "limit.rounds"),
        (NotFound("There is no session."), "system", "input.not_found"),
        (Bug("An invariant."), "system", "bug"),
    ],
)
async def test_a_failure_is_recorded_by_its_class_with_words_and_a_next_step(
    rig: TaskRig, error: OzzieError, kind: str, code: str
) -> None:
    async def fail(recorder: Recorder) -> int:
        raise error

    rig.turns["first"] = fail
    sent = await rig.submit("first")

    assert await rig.end(sent.task_id) == "FAILED"
    failed = (await rig.bodies(sent.task_id))[-1]
    assert isinstance(failed, TaskFailed)
    assert (failed.kind, failed.code, failed.message, failed.hint) == (kind, code, str(error), error.hint)


async def test_a_mistake_of_ozzies_own_tells_its_kind_and_nothing_from_inside(
    rig: TaskRig, caplog: pytest.LogCaptureFixture
) -> None:
    async def break_down(recorder: Recorder) -> int:
        raise ZeroDivisionError("the inside")

    rig.turns["first"] = break_down
    sent = await rig.submit("first")

    assert await rig.end(sent.task_id) == "FAILED"
    failed = (await rig.bodies(sent.task_id))[-1]
    assert isinstance(failed, TaskFailed)
    assert (failed.kind, failed.code) == ("system", "bug")
    assert "ZeroDivisionError" in failed.message
    assert "the inside" not in f"{failed.message}{failed.hint}"
    assert "the inside" in caplog.text


async def test_after_a_failure_the_session_goes_on(rig: TaskRig) -> None:
    async def fail(recorder: Recorder) -> int:
        raise Unavailable("No.")

    rig.turns["first"] = fail
    await rig.submit("first")
    second = await rig.submit("second")

    assert await rig.end(second.task_id) == "SUCCEEDED"


async def test_when_the_gateway_stops_what_runs_stays_running_and_what_waits_stays_queued(rig: TaskRig) -> None:
    rig.turns["first"] = gate = Gate()
    first, second = await rig.submit("first"), await rig.submit("second")
    await gate.wait()

    await rig.driver.stop()

    assert [await rig.status(sent.task_id) for sent in (first, second)] == ["RUNNING", "QUEUED"]
    assert rig.began == ["first"]


async def test_what_is_stopped_before_its_first_step_by_the_gateways_end_stays_queued(rig: TaskRig) -> None:
    first = await rig.submit("first")

    await rig.driver.stop()

    assert await rig.status(first.task_id) == "QUEUED"
    assert rig.began == []


async def test_a_task_that_somebody_else_has_claimed_is_left_to_them(rig: TaskRig) -> None:
    rig.turns["first"] = gate = Gate()
    await rig.submit("first")
    second = await rig.submit("second")
    await gate.wait()
    other = Recorder(log=rig.log, session_id=SessionId("s1"), task_id=second.task_id)
    await other.append(TaskStarted(attempt=1, epoch="another gateway"))

    gate.go_on.set()
    third = await rig.submit("third")

    assert await rig.end(third.task_id) == "SUCCEEDED"
    assert await rig.status(second.task_id) == "RUNNING"
    assert rig.began == ["first", "third"]


async def test_a_recovered_task_goes_on_in_the_same_attempt_with_another_claim(rig: TaskRig) -> None:
    rig.turns["first"] = gate = Gate()
    sent = await rig.submit("first")
    await gate.wait()
    await rig.driver.stop()
    again = TaskRig(rig.log)
    recorder = Recorder(log=rig.log, session_id=SessionId("s1"), task_id=sent.task_id)
    await recorder.append(TaskQueued(reason="recovered"))

    again.driver.enqueue(sent.task_id, SessionId("s1"))

    assert await again.end(sent.task_id) == "SUCCEEDED"
    starts = [body for body in await again.bodies(sent.task_id) if isinstance(body, TaskStarted)]
    assert [body.attempt for body in starts] == [1, 1]
    assert starts[0].epoch != starts[1].epoch


class FullDisk(InMemoryEventLog):
    """A log that refuses the first two tries to record each of some kinds of facts, as on a full disk."""

    def __init__(self, *kinds: str) -> None:
        super().__init__(FakeClock(), CountingIds())
        self._left = dict.fromkeys(kinds, 2)

    async def append(
        self,
        stream: str,
        drafts: Sequence[Draft],
        *,
        expected_version: int | None = None,
        claim: Claim | None = None,
    ) -> tuple[Event, ...]:
        kind = drafts[0].body.type
        if self._left.get(kind, 0) > 0:
            self._left[kind] -= 1
            raise Unavailable("The disk is full.")
        return await super().append(stream, drafts, expected_version=expected_version, claim=claim)


@pytest.mark.parametrize("kind", ["task.started", "task.succeeded"])
async def test_a_task_is_neither_lost_nor_left_running_while_the_log_cannot_be_written(kind: str) -> None:
    rig = TaskRig(FullDisk(kind))

    task = (await rig.submit("one")).task_id

    assert await rig.end(task) == "SUCCEEDED"
    assert rig.began == ["one"], "the turn ran more than once"


async def test_a_stop_is_recorded_once_the_log_can_be_written_again() -> None:
    rig = TaskRig(FullDisk("task.cancelled"))
    gate = Gate()
    rig.turns["one"] = gate
    task = (await rig.submit("one")).task_id
    await gate.wait()

    await rig.service.cancel(task, by="ann")

    assert await rig.end(task) == "CANCELLED"


async def test_who_waits_is_told_each_time_that_fewer_are_before_it() -> None:
    rig, gates = TaskRig(), [Gate() for _ in range(3)]
    told: list[tuple[str, int]] = []
    rig.driver = TaskDriver(
        rig.log, rig.ids, rig._run_turn, on_ahead=lambda session_id, task_id, ahead: told.append((task_id, ahead))
    )
    rig.service = TaskService(rig.log, rig.ids, rig.driver)
    for number, gate in enumerate(gates):
        rig.turns[str(number)] = gate
    first, second, third = [await rig.submit(str(number)) for number in range(3)]

    assert [sent.ahead for sent in (first, second, third)] == [0, 1, 2]
    for gate in gates:
        await gate.wait()
        gate.go_on.set()
    await rig.end(third.task_id)
    assert told == [(third.task_id, 1)]


# --- waiting for a person -------------------------------------------------------------------------------


def waits(
    rig: TaskRig, then: Callable[[Recorder], Awaitable[None]] | None = None
) -> Callable[[Recorder], Awaitable[int]]:
    """A turn that asks something in its first run, and succeeds in its second. `then` happens between the record of
    its question and the moment at which the driver lets go of it."""

    async def turn(recorder: Recorder) -> int:
        if len([title for title in rig.began if title == "asks"]) > 1:
            return 1
        await recorder.append(TaskWaitingInput(question="More?"))
        if then is not None:
            await then(recorder)
        raise TaskHeld

    return turn


async def answer(rig: TaskRig, task_id: TaskId, session_id: SessionId) -> None:
    recorder = Recorder(log=rig.log, session_id=session_id, task_id=task_id)
    await recorder.append(TaskResumed(by="ann"), TaskQueued(reason="answered"))


async def test_what_asks_holds_its_session_and_goes_on_first_when_it_is_answered(rig: TaskRig) -> None:
    rig.turns["asks"] = waits(rig)
    asks, behind = await rig.submit("asks"), await rig.submit("behind")
    other = await rig.submit("other", session="s2")
    assert await rig.reach(asks.task_id, "WAITING_INPUT") == "WAITING_INPUT"
    assert await rig.end(other.task_id) == "SUCCEEDED"
    assert await rig.status(behind.task_id) == "QUEUED"
    assert not rig.driver.busy, "it waits in the log"

    late = await rig.submit("late")
    assert late.ahead == 2
    await answer(rig, asks.task_id, SessionId("s1"))

    for sent in (asks, behind, late):
        assert await rig.end(sent.task_id) == "SUCCEEDED"
    assert [title for title in rig.began if title != "other"] == ["asks", "asks", "behind", "late"]


async def test_an_answer_that_comes_before_the_driver_has_let_go_is_not_lost(rig: TaskRig) -> None:
    async def at_once(recorder: Recorder) -> None:
        await answer(rig, recorder.task_id, recorder.session_id)

    rig.turns["asks"] = waits(rig, at_once)
    asks, behind = await rig.submit("asks"), await rig.submit("behind")

    assert await rig.end(asks.task_id) == "SUCCEEDED"
    assert await rig.end(behind.task_id) == "SUCCEEDED"


async def test_a_stop_that_comes_before_the_driver_has_let_go_is_not_lost(rig: TaskRig) -> None:
    async def at_once(recorder: Recorder) -> None:
        await rig.service.cancel(recorder.task_id, by="ann")

    rig.turns["asks"] = waits(rig, at_once)
    asks, behind = await rig.submit("asks"), await rig.submit("behind")

    assert await rig.end(asks.task_id) == "CANCELLED"
    assert await rig.end(behind.task_id) == "SUCCEEDED"


async def test_stopping_what_waits_lets_its_session_go_on(rig: TaskRig) -> None:
    rig.turns["asks"] = waits(rig)
    asks, behind = await rig.submit("asks"), await rig.submit("behind")
    await rig.reach(asks.task_id, "WAITING_INPUT")

    await rig.service.cancel(asks.task_id, by="ann")

    assert await rig.status(asks.task_id) == "CANCELLED"
    assert await rig.end(behind.task_id) == "SUCCEEDED"


@pytest.mark.parametrize(
    ("happened", "outcome", "code"),
    [
        (True, "tool.call.completed", "bug"),
        (False, "tool.call.cancelled", "bug"),
        (None, "tool.call.uncertain", "tool.uncertain"),
    ],
)
async def test_a_call_whose_outcome_could_not_be_recorded_has_one_when_its_task_ends(
    happened: bool | None, outcome: str, code: str
) -> None:
    """Or the next turn of the session would be told that it was stopped, and make the change again."""
    rig = TaskRig()
    asked: list[object] = []

    async def look(tool_id: str, effect: JsonObject) -> bool | None:
        asked.append((tool_id, effect))
        return happened

    rig.driver = TaskDriver(
        rig.log, rig.ids, rig._run_turn, reconciler_of=always(Reconciler(lambda tool_id: False, look))
    )
    rig.service = TaskService(rig.log, rig.ids, rig.driver)
    call_id = CallId("c1")

    async def breaks(recorder: Recorder) -> int:
        requested = ToolCallRequested(
            call_id=call_id, use_id="u", tool_id="fs.write", name="write_file", version="1", args={}, round=1, index=0
        )
        await recorder.append(requested, ToolCallStarted(call_id=call_id, effect={"of": "a"}))
        raise RuntimeError("the disk is full")

    rig.turns["break"] = breaks
    task = (await rig.submit("break")).task_id
    assert await rig.end(task) == "FAILED"

    *_, told, end = await rig.bodies(task)
    assert asked == [("fs.write", {"of": "a"})]
    assert told.type == outcome
    assert isinstance(end, TaskFailed)
    assert end.code == code


async def test_a_task_that_fails_before_a_call_in_doubt_is_made_again_says_that_it_may_have_happened() -> None:
    rig = TaskRig()
    call_id = CallId("c1")

    async def breaks(recorder: Recorder) -> int:
        requested = ToolCallRequested(
            call_id=call_id, use_id="u", tool_id="shop.pay", name="pay", version="1", args={}, round=1, index=0
        )
        doubt = ToolCallUncertain(call_id=call_id, reason="It was cut off.", again=True)
        await recorder.append(requested, ToolCallStarted(call_id=call_id), doubt)
        raise RuntimeError("the rules can't be read")

    rig.turns["break"] = breaks
    task = (await rig.submit("break")).task_id

    assert await rig.end(task) == "FAILED"
    *_, last, end = await rig.bodies(task)
    assert isinstance(last, ToolCallUncertain)
    assert isinstance(end, TaskFailed)
    assert end.message.startswith("pay may or may not have happened. It was cut off.")
