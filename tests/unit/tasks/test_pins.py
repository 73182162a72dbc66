"""Facts that a person pins to a session."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from ozzie_server_ext.agent.conversations import Conversations
from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.pins import MOST_PINNED_CHARS, MOST_PINS, Pins
from ozzie_server_ext.tasks.sessions import Sessions

UNKNOWN = SessionId("sess_01CCCCCCCCCCCCCCCCCCCCCCCC")


@dataclass
class Board:
    """Sessions, and what is pinned to them."""

    sessions: Sessions
    pins: Pins

    async def session(self, key: str = "a") -> SessionId:
        return (await self.sessions.open(key, title=key, channel="notebook")).session_id

    async def texts(self, session_id: SessionId) -> list[str]:
        return [pin.text for pin in await self.pins.of(session_id)]


class Busy(InMemoryEventLog):
    """Lets everybody else go on before it records something."""

    async def append(self, *what: Any, **how: Any) -> Any:
        await asyncio.sleep(0)
        return await super().append(*what, **how)


@pytest.fixture
def board() -> Board:
    ids = CountingIds()
    log = Busy(FakeClock(), ids)
    sessions = Sessions(log, ids)
    return Board(sessions, Pins(log, ids, sessions, Conversations(log)))


async def test_they_are_listed_in_their_order_until_one_is_removed(board: Board) -> None:
    session = await board.session()
    for text in ("The  deadline\nis Friday.", "Prices are in euros.", "Ask Ana."):
        await board.pins.pin(session, text, by="ana")
    await board.pins.unpin(session, (await board.pins.of(session))[1].pin_id, by="ana")

    assert await board.texts(session) == ["The deadline is Friday.", "Ask Ana."]
    assert {pin.by for pin in await board.pins.of(session)} == {"ana"}
    assert await board.texts(await board.session("another")) == []


async def test_a_fork_begins_with_those_of_its_parent_and_changes_its_own_only(board: Board) -> None:
    parent = await board.session()
    await board.pins.pin(parent, "Before.", by="ana")
    fork = (await board.sessions.copy(parent, "fork", title="fork", channel="notebook")).session_id
    await board.pins.pin(parent, "After.", by="ana")
    await board.pins.pin(fork, "Its own.", by="ana")

    assert await board.texts(fork) == ["Before.", "Its own."]
    await board.pins.unpin(fork, (await board.pins.of(fork))[0].pin_id, by="ana")
    assert await board.texts(fork) == ["Its own."]
    assert await board.texts(parent) == ["Before.", "After."]


@pytest.mark.parametrize(
    ("text", "message"), [(" \n", "is empty"), ("x" * (MOST_PINNED_CHARS + 1), "1,001 characters; at most 1,000")]
)
async def test_a_text_that_is_no_fact_is_refused(board: Board, text: str, message: str) -> None:
    session = await board.session()
    with pytest.raises(InputError, match=message):
        await board.pins.pin(session, text, by="ana")
    assert await board.texts(session) == []


async def test_too_many_are_refused_until_one_is_removed(board: Board) -> None:
    session = await board.session()
    for number in range(MOST_PINS):
        await board.pins.pin(session, f"Fact {number}.", by="ana")
    with pytest.raises(Conflict, match="50 facts"):
        await board.pins.pin(session, "One more.", by="ana")
    await board.pins.unpin(session, (await board.pins.of(session))[0].pin_id, by="ana")
    await board.pins.pin(session, "One more.", by="ana")

    assert (await board.texts(session))[-1] == "One more."


async def test_what_is_pinned_already_is_not_pinned_twice(board: Board) -> None:
    """A kernel repeats its request after a lost connection."""
    session = await board.session()
    assert await board.pins.pin(session, "The deadline is Friday.", by="ana")
    assert not await board.pins.pin(session, "The  deadline is\nFriday.", by="ana")
    assert await board.pins.pin(session, "The deadline is Monday.", by="ana")

    assert await board.texts(session) == ["The deadline is Friday.", "The deadline is Monday."]


async def test_an_equal_text_is_pinned_once_however_many_send_it_at_once(board: Board) -> None:
    session = await board.session()
    await asyncio.gather(*(board.pins.pin(session, "Prices are in euros.", by="ana") for _ in range(3)))

    assert await board.texts(session) == ["Prices are in euros."]


async def test_several_at_once_do_not_pass_the_limit(board: Board) -> None:
    session = await board.session()
    for number in range(MOST_PINS - 1):
        await board.pins.pin(session, f"Fact {number}.", by="ana")
    further = [board.pins.pin(session, f"At once {number}.", by="ana") for number in range(3)]
    ends = await asyncio.gather(*further, return_exceptions=True)

    assert [type(end) for end in ends].count(Conflict) == 2
    assert len(await board.texts(session)) == MOST_PINS


async def test_of_two_who_remove_one_at_once_one_finds_nothing(board: Board) -> None:
    session = await board.session()
    await board.pins.pin(session, "The deadline is Friday.", by="ana")
    (pin,) = await board.pins.of(session)
    ends = await asyncio.gather(
        *(board.pins.unpin(session, pin.pin_id, by="ana") for _ in range(2)), return_exceptions=True
    )

    assert [type(end) for end in ends].count(NotFound) == 1


async def test_what_is_not_there_can_not_be_removed(board: Board) -> None:
    with pytest.raises(NotFound, match="no such pinned fact"):
        await board.pins.unpin(await board.session(), "01CCCCCCCCCCCCCCCCCCCCCCCC", by="ana")
    with pytest.raises(NotFound, match="no session"):
        await board.pins.of(UNKNOWN)
