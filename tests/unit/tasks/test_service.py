"""What may be done to tasks from outside: submit, cancel, look."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound
from ozzie_server_ext.domain.events import (
    Event,
    EventBody,
    Limits,
    MessageReceived,
    SkillStarted,
    TaskCancelled,
    TaskCreated,
    TaskQueued,
    TaskStarted,
    ToolCallCancelled,
    ToolCallFailed,
)
from ozzie_server_ext.domain.ids import BlobRef, CallId, MessageId, SessionId, TaskId
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.rows import limits_of
from ozzie_server_ext.tasks.service import (
    MAX_MESSAGE_CHARS,
    TITLE_LENGTH,
    NewTurn,
    SkillRequest,
    TaskService,
)
from tests.unit.tasks.asked import ANA, Waiting
from tests.unit.tasks.idle import Idle
from tests.unit.tasks.rig import ORIGIN, Gate, TaskRig


async def test_a_message_becomes_a_task_in_one_append(rig: TaskRig) -> None:
    sent = await rig.submit("What is 2+2?")

    message, created, queued = (await rig.bodies(sent.task_id))[:3]
    assert isinstance(message, MessageReceived)
    assert (message.text, message.message_id, message.origin) == ("What is 2+2?", sent.message_id, ORIGIN)
    assert isinstance(created, TaskCreated)
    assert (created.title, created.mode, created.channel, created.sender_id) == ("What is 2+2?", "FREE", "test", "ann")
    assert (created.thread_id, created.scope_id) == ("s1", "chat:test:s1")
    assert queued == TaskQueued(reason="created")
    events = await rig.events(sent.task_id)
    assert sent.position == events[0].position
    assert [event.actor for event in events[:3]] == ["user", "kernel", "kernel"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("", "message.empty"), (" \n\t ", "message.empty"), ("x" * (MAX_MESSAGE_CHARS + 1), "message.too_long")],
)
async def test_a_message_that_can_not_be_answered_is_refused_and_nothing_recorded(
    rig: TaskRig, text: str, code: str
) -> None:
    with pytest.raises(InputError) as refused:
        await rig.submit(text)

    assert (refused.value.code, bool(refused.value.hint)) == (code, True)
    assert (await rig.log.head()).position == 0


async def test_a_message_that_comes_twice_under_its_own_id_is_one_task(rig: TaskRig) -> None:
    named = MessageId(CountingIds().new())
    first, again = await asyncio.gather(*(rig.submit("hello", message_id=named) for _ in range(2)))
    await rig.end(first.task_id)
    later = await rig.submit("hello", message_id=named)

    assert (first.task_id, first.message_id, first.position) == (again.task_id, again.message_id, again.position)
    assert later.position == first.position
    assert [type(body) for body in await rig.bodies(first.task_id)].count(MessageReceived) == 1


async def test_an_id_that_is_none_or_stands_for_something_else_is_refused(rig: TaskRig) -> None:
    sent = await rig.submit("hello")

    with pytest.raises(InputError, match="not a ULID"):
        await rig.submit("hello", message_id=MessageId("mine"))
    with pytest.raises(Conflict, match="stands for something else"):
        await rig.submit("hello", session="other", message_id=MessageId(sent.task_id))


async def test_a_message_of_the_greatest_length_is_taken(rig: TaskRig) -> None:
    sent = await rig.submit("x" * MAX_MESSAGE_CHARS)

    assert await rig.end(sent.task_id) == "SUCCEEDED"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (" two\n  lines ", "two lines"),
        ("x" * TITLE_LENGTH, "x" * TITLE_LENGTH),
        ("x" * (TITLE_LENGTH + 1), "x" * (TITLE_LENGTH - 1) + "…"),
    ],
)
async def test_a_task_is_titled_by_its_message_on_one_short_line(rig: TaskRig, text: str, title: str) -> None:
    sent = await rig.submit(text)

    assert (await rig.service.get(sent.task_id))["title"] == title


async def test_a_task_remembers_its_limits(rig: TaskRig) -> None:
    limits = Limits(max_rounds=3, max_tokens=100, max_cost=5, deadline_s=1.5)

    sent = await rig.service.submit(NewTurn(SessionId("s1"), "hi", ORIGIN), limits)

    assert limits_of(await rig.service.get(sent.task_id)) == limits


async def test_who_submits_is_told_how_many_are_ahead(rig: TaskRig) -> None:
    rig.turns["first"] = gate = Gate()

    ahead = [(await rig.submit(text)).ahead for text in ("first", "second", "third")]
    elsewhere = await rig.submit("other", session="s2")

    assert ahead == [0, 1, 2]
    assert elsewhere.ahead == 0
    gate.go_on.set()


# --- cancelling -----------------------------------------------------------------------------------------


async def test_a_waiting_task_is_cancelled_and_never_begins(rig: TaskRig) -> None:
    rig.turns["first"] = gate = Gate()
    first, second, third = [await rig.submit(text) for text in ("first", "second", "third")]
    await gate.wait()

    await rig.service.cancel(second.task_id, by="ann", reason="changed my mind")
    gate.go_on.set()

    assert [await rig.end(sent.task_id) for sent in (first, second, third)] == ["SUCCEEDED", "CANCELLED", "SUCCEEDED"]
    assert rig.began == ["first", "third"]
    assert (await rig.bodies(second.task_id))[-1] == TaskCancelled(by="ann", reason="changed my mind")


async def test_a_running_task_is_stopped_and_says_by_whom(rig: TaskRig) -> None:
    rig.turns["first"] = gate = Gate()
    sent = await rig.submit("first")
    await gate.wait()

    await rig.service.cancel(sent.task_id, by="ann", reason="enough")

    assert await rig.end(sent.task_id) == "CANCELLED"
    assert (await rig.bodies(sent.task_id))[-1] == TaskCancelled(by="ann", reason="enough")
    assert (await rig.events(sent.task_id))[-1].actor == "user"


async def test_a_task_is_stopped_once_however_often_that_is_asked_for(rig: TaskRig) -> None:
    rig.turns["first"] = gate = Gate()
    sent = await rig.submit("first")
    await gate.wait()

    await asyncio.gather(*(rig.service.cancel(sent.task_id, by="ann", reason=f"click {i}") for i in (1, 2, 3)))

    assert await rig.end(sent.task_id) == "CANCELLED"
    ends = [body for body in await rig.bodies(sent.task_id) if isinstance(body, TaskCancelled)]
    assert ends == [TaskCancelled(by="ann", reason="click 1")]


async def test_a_task_that_has_ended_can_not_be_cancelled(rig: TaskRig) -> None:
    sent = await rig.submit("first")
    await rig.end(sent.task_id)

    with pytest.raises(Conflict, match="ended already: succeeded") as refused:
        await rig.service.cancel(sent.task_id, by="ann")
    assert refused.value.code == "task.ended"


@pytest.mark.parametrize("task_id", ["", "nonsense", "01M800000000000000000000ZZ", "x" * 1000, "'; DROP TABLE tasks"])
async def test_an_unknown_task_is_named_as_such(rig: TaskRig, task_id: str) -> None:
    for ask in (rig.service.get(TaskId(task_id)), rig.service.cancel(TaskId(task_id), by="ann")):
        with pytest.raises(NotFound, match="There is no task"):
            await ask


class Claiming:
    """A runner that claims the task in the moment between the look at its row and the cancellation."""

    def __init__(self) -> None:
        self.asked = 0

    def enqueue(self, task_id: TaskId, session_id: SessionId, *, delegated: bool = False) -> int:
        return 0

    def interrupt(self, task_id: TaskId, by: str, reason: str) -> SessionId | None:
        self.asked += 1
        return SessionId("s1") if self.asked > 1 else None

    def hold(self, task_id: TaskId, session_id: SessionId, *, delegated: bool = False) -> None:
        raise AssertionError("nothing waits here")


async def test_a_task_that_is_claimed_while_it_is_cancelled_does_not_run_on() -> None:
    runner = Claiming()
    service = TaskService(InMemoryEventLog(FakeClock(), CountingIds()), CountingIds(), runner)
    sent = await service.submit(NewTurn(SessionId("s1"), "first", ORIGIN), Limits())

    await service.cancel(sent.task_id, by="ann")

    assert runner.asked == 2
    assert (await service.get(sent.task_id))["status"] == "CANCELLED"


async def stopped(waiting: Waiting, task_id: TaskId) -> list[EventBody]:
    """What stopping it records, in one append."""
    appends: list[list[EventBody]] = []
    waiting.log.on_commit(lambda events: appends.append([event.body for event in events]))
    await TaskService(waiting.log, waiting.ids, Idle()).cancel(task_id, by="ann", reason="enough")
    (recorded,) = appends
    return recorded


def not_done(call_id: CallId, before: str) -> ToolCallCancelled:
    return ToolCallCancelled(call_id=call_id, reason=f"The turn was stopped before it was {before}.")


END = TaskCancelled(by="ann", reason="enough")


async def test_the_calls_of_a_task_that_is_stopped_while_it_waits_for_a_yes_have_an_outcome() -> None:
    waiting = Waiting()
    task_id, (first, second, third) = await waiting.wait("a", "b", "c")
    allowed, open_, rejected = await waiting.calls(task_id)
    await waiting.approvals.approve(first, ANA)
    await waiting.approvals.reject(third, ANA)

    assert await stopped(waiting, task_id) == [not_done(allowed, "begun"), not_done(open_, "allowed"), END]

    assert (await waiting.approvals.get(second)).why == "task"
    ends = [body for body in await waiting.bodies(task_id) if isinstance(body, ToolCallFailed)]
    assert [body.call_id for body in ends] == [rejected], "it has the outcome that it had"


async def test_a_call_whose_time_for_a_yes_was_up_has_an_outcome_when_its_task_is_stopped() -> None:
    waiting = Waiting()
    task_id, _ = await waiting.one(expires_s=60)
    (call_id,) = await waiting.calls(task_id)
    waiting.clock.advance(61)
    await waiting.approvals.expire()

    assert await stopped(waiting, task_id) == [not_done(call_id, "allowed"), END]


async def test_a_call_that_was_allowed_and_whose_task_is_stopped_before_it_goes_on_has_an_outcome() -> None:
    waiting = Waiting()
    task_id, approval_id = await waiting.one()
    (call_id,) = await waiting.calls(task_id)
    await waiting.approvals.approve(approval_id, ANA)
    assert await waiting.status(task_id) == "RUNNING"

    assert await stopped(waiting, task_id) == [not_done(call_id, "begun"), END]


async def test_a_question_of_the_models_whose_task_is_stopped_has_an_outcome() -> None:
    waiting = Waiting()
    task_id, call_id = await waiting.question()

    assert await stopped(waiting, task_id) == [not_done(call_id, "answered"), END]


class Overtaken(InMemoryEventLog):
    """Where `meanwhile` happens between a look at a stream and what is made of it, once."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def read_stream(self, stream: str, *, after_version: int = 0) -> tuple[Event, ...]:
        events = await super().read_stream(stream, after_version=after_version)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return events


async def test_an_answer_in_the_moment_of_the_stop_leaves_each_call_one_outcome() -> None:
    clock = FakeClock()
    log = Overtaken(clock, CountingIds())
    waiting = Waiting(log, clock)
    task_id, (first, _) = await waiting.wait("a", "b")
    rejected, open_ = await waiting.calls(task_id)
    log.meanwhile = lambda: waiting.approvals.reject(first, ANA)

    await TaskService(log, waiting.ids, Idle()).cancel(task_id, by="ann", reason="enough")

    ends = [body for body in await waiting.bodies(task_id) if isinstance(body, ToolCallFailed | ToolCallCancelled)]
    assert [body.call_id for body in ends] == [rejected, open_]
    assert ends[-1] == not_done(open_, "allowed")
    assert await waiting.status(task_id) == "CANCELLED"


# --- listing --------------------------------------------------------------------------------------------


async def test_tasks_are_listed_newest_first_of_one_session_or_all(rig: TaskRig) -> None:
    sent = [await rig.submit("a"), await rig.submit("b", session="s2"), await rig.submit("c")]
    ids = [item.task_id for item in sent]

    assert [row["task_id"] for row in await rig.service.list()] == ids[::-1]
    assert [row["task_id"] for row in await rig.service.list(limit=2)] == ids[:0:-1]
    assert [row["task_id"] for row in await rig.service.list(session_id=SessionId("s1"))] == [ids[2], ids[0]]


async def test_every_task_that_began_says_so_before_it_ends(rig: TaskRig) -> None:
    sent = await rig.submit("a")
    await rig.end(sent.task_id)

    assert isinstance((await rig.bodies(sent.task_id))[3], TaskStarted)


async def test_a_run_without_a_text_is_recorded_as_the_command_that_would_run_it(rig: TaskRig) -> None:
    skill = SkillRequest(name="order", words=("tea=green", "cups=2"))
    started = SkillStarted(skill="order", kind="workflow", version="1", file=BlobRef("sha256:00"), input={}, steps=())
    turn = NewTurn(SessionId("s1"), "", ORIGIN, message_id=MessageId(rig.ids.new()), skill=skill)

    first, again = [await rig.service.submit(turn, Limits(), started) for _ in range(2)]

    assert again.task_id == first.task_id == turn.message_id
    received, created, begun, *_ = await rig.bodies(first.task_id)
    assert isinstance(received, MessageReceived)
    assert received.text == "%run order tea=green cups=2"
    assert isinstance(created, TaskCreated)
    assert created.mode == "GRAPH"
    assert begun == started
