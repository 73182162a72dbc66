"""A cell's message and the page's confirmation find each other, whichever comes first, once."""

import asyncio
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from ozzie_server_ext.domain.events import Limits, MessageConfirmed, TaskCancelled
from ozzie_server_ext.domain.ids import MessageId, SessionId, TaskId
from ozzie_server_ext.domain.toolmeta import Said, TargetKind
from ozzie_server_ext.observability.clock import FakeClock
from ozzie_server_ext.policy.words import Confirmation
from ozzie_server_ext.tasks.confirmations import (
    CONFIRMATION_KEPT_S,
    MESSAGE_KEPT_S,
    MOST_WAITING,
    Confirmations,
    Execution,
)
from ozzie_server_ext.tasks.rows import user_recorder
from ozzie_server_ext.tasks.service import NewTurn
from tests.unit.tasks.rig import ORIGIN, TaskRig

TEXT = "Send it to ana@firm.example."
RUN = Execution.of("m1", TEXT)
BY_ANN = Confirmation.of("ann", "cell", TEXT)
ANA = Said(TargetKind.RECIPIENT, "ana@firm.example")


@dataclass
class Desk:
    rig: TaskRig = field(default_factory=TaskRig)
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.confirmations = Confirmations(self.rig.log, self.clock)

    async def send(self) -> TaskId:
        """A message of which the page has said nothing yet."""
        sent = await self.rig.submit(TEXT, "s1")
        await self.confirmations.await_confirmation(RUN, sent)
        return sent.task_id

    async def confirm(self, execution: Execution = RUN, confirmation: Confirmation = BY_ANN) -> None:
        await self.confirmations.confirm(execution, confirmation)

    def take(self, execution: Execution = RUN) -> Confirmation | None:
        return self.confirmations.confirmation_of(execution)

    async def confirmed(self, task_id: TaskId) -> list[MessageConfirmed]:
        return [body for body in await self.rig.bodies(task_id) if isinstance(body, MessageConfirmed)]


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_what_a_page_says_first_is_taken_with_the_message_once(desk: Desk) -> None:
    await desk.confirm()

    assert desk.take() == BY_ANN
    assert desk.take() is None


async def test_what_a_page_says_later_is_recorded_with_the_messages_task_once(desk: Desk) -> None:
    task_id = await desk.send()
    await desk.confirm()
    await desk.confirm(confirmation=replace(BY_ANN, by="ben"))

    (found,) = await desk.confirmed(task_id)
    assert (found.by, found.way, found.names) == ("ann", "cell", (ANA,))
    assert found.message_id == (await desk.rig.service.get(task_id))["message_id"]


async def test_what_a_page_says_while_the_message_is_recorded_is_not_lost(desk: Desk) -> None:
    assert desk.take() is None
    sent = await desk.rig.submit(TEXT, "s1")
    await desk.confirm()
    await desk.confirmations.await_confirmation(RUN, sent)

    assert [each.names for each in await desk.confirmed(sent.task_id)] == [(ANA,)]


@pytest.mark.parametrize(
    "other",
    [
        Execution.of("m2", TEXT),
        Execution.of("m1", f"{TEXT} And to x@evil.example."),
        Execution.of("m1", TEXT.upper()),
    ],
    ids=["request", "text", "case"],
)
@pytest.mark.parametrize("comes_first", ["message", "page"])
async def test_another_request_or_text_is_another_message(desk: Desk, other: Execution, comes_first: str) -> None:
    if comes_first == "page":
        await desk.confirm(other)
        assert desk.take() is None
    else:
        task_id = await desk.send()
        await desk.confirm(other)
        assert await desk.confirmed(task_id) == []


async def test_blanks_around_a_text_do_not_matter(desk: Desk) -> None:
    await desk.confirm(Execution.of("m1", f"  {TEXT}\n"))

    assert desk.take() == BY_ANN


async def test_a_message_may_be_queued_for_long_and_a_confirmation_of_one_comes_at_once(desk: Desk) -> None:
    await desk.confirm()
    desk.clock.advance(CONFIRMATION_KEPT_S - 1)
    assert desk.take() == BY_ANN

    await desk.confirm()
    desk.clock.advance(CONFIRMATION_KEPT_S + 1)
    assert desk.take() is None

    task_id = await desk.send()
    desk.clock.advance(MESSAGE_KEPT_S + 1)
    await desk.confirm()
    assert await desk.confirmed(task_id) == []


async def test_nothing_is_recorded_behind_the_end_of_a_task(desk: Desk) -> None:
    """A word that comes too late would move what others read as the end of the task's events."""
    task_id = await desk.send()
    await user_recorder(desk.rig.log, SessionId("s1"), task_id).append(TaskCancelled(by="ann", reason=""))
    await desk.confirm()

    assert await desk.confirmed(task_id) == []


async def test_the_oldest_is_forgotten(desk: Desk) -> None:
    for number in range(MOST_WAITING + 1):
        await desk.confirm(Execution.of(str(number), TEXT))

    assert desk.take(Execution.of("0", TEXT)) is None
    assert desk.take(Execution.of("1", TEXT)) == BY_ANN


async def test_a_message_that_is_known_to_be_a_persons_is_recorded_so_in_one_append(desk: Desk) -> None:
    turn = NewTurn(
        SessionId("s1"), TEXT, ORIGIN, message_id=MessageId("01M800000000000000000000ZZ"), confirmation=BY_ANN
    )
    sent = await desk.rig.service.submit(turn, Limits())

    types = [event.type for event in await desk.rig.events(sent.task_id)]
    assert types[:3] == ["message.received", "message.confirmed", "task.created"]
    assert [each.message_id for each in await desk.confirmed(sent.task_id)] == [sent.message_id]


async def test_a_message_that_makes_calls_at_once_waits_a_moment_for_the_page(desk: Desk) -> None:
    waiting = asyncio.ensure_future(desk.confirmations.arrival(RUN))
    await asyncio.sleep(0)
    await desk.confirm()

    assert await waiting == BY_ANN
    assert desk.take() is None


async def test_without_a_page_it_goes_on_without(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ozzie_server_ext.tasks.confirmations.ARRIVES_S", 0.01)

    assert await desk.confirmations.arrival(RUN) is None
