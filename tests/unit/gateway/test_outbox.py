"""What one client still gets: text gathered, everything else at once, always in order (DESIGN §2.15)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ozzie_server_ext.domain.events import Draft, Event, SessionRenamed, Transient
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.gateway.outbox import MAX_PENDING, Outbox, frame_text
from ozzie_server_ext.observability.clock import FakeClock, UlidSource
from ozzie_server_ext.protocol.frames import EventFrame, Response, decode_frames, encode_frame
from ozzie_server_ext.store.memory import InMemoryEventLog

WAIT_S = 10


class Socket:
    """A client: `messages` are what it was sent; while `blocked` it does not read."""

    def __init__(self) -> None:
        self.messages: list[list[Any]] = []
        self.taking = asyncio.Event()
        self.taking.set()
        self.sending = asyncio.Event()
        self.changed = asyncio.Event()

    async def send(self, text: str) -> None:
        self.sending.set()
        await self.taking.wait()
        self.messages.append(list(decode_frames(text)))
        self.changed.set()

    async def frames(self, count: int) -> list[Any]:
        """All frames once there are so many."""
        async with asyncio.timeout(WAIT_S):
            while len(found := [frame for message in self.messages for frame in message]) < count:
                await self.changed.wait()
                self.changed.clear()
        return found

    async def text(self, length: int) -> str:
        """What the deltas say, once it is so long."""
        async with asyncio.timeout(WAIT_S):
            while len(found := "".join(map(said, await self.frames(0)))) < length:
                await self.changed.wait()
                self.changed.clear()
        return found


def said(frame: EventFrame) -> str:
    return str(frame.payload.get("content", ""))


@pytest.fixture
def socket() -> Socket:
    return Socket()


@pytest.fixture
async def outbox(socket: Socket) -> AsyncIterator[Outbox]:
    outbox = Outbox(socket.send)
    running = asyncio.create_task(outbox.run())
    yield outbox
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def delta(offset: int, content: str, reply: str = "r") -> Transient:
    payload: dict[str, Any] = {"reply_id": reply, "offset": offset, "phase": "delta", "content": content}
    return Transient(type="reply.delta", session_id=SessionId("s"), task_id=TaskId("t"), payload=payload)


async def event(title: str = "x") -> Event:
    log = InMemoryEventLog(FakeClock(), UlidSource())
    draft = Draft(body=SessionRenamed(title=title), actor="user", source="test", session_id=SessionId("s"))
    return (await log.append("session:s", [draft]))[0]


async def test_pieces_that_go_on_are_sent_as_one(outbox: Outbox, socket: Socket) -> None:
    for offset in range(0, 100, 2):
        await outbox.put(delta(offset, "ab"))

    assert await socket.text(100) == "ab" * 50
    assert len(await socket.frames(1)) <= 3, "each piece was sent by itself"


async def test_the_first_piece_of_a_reply_is_not_held_back(
    outbox: Outbox, socket: Socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ozzie_server_ext.gateway.outbox.INTERVAL_S", 3600)
    await outbox.put(delta(0, "first"))
    await socket.frames(1)
    await outbox.put(delta(0, "second", reply="r2"))
    await outbox.put(delta(6, " goes on", reply="r2"))

    assert [said(frame) for frame in (await socket.frames(2))[:2]] == ["first", "second goes on"]


@pytest.mark.parametrize("kind", ["event", "response", "reset"])
async def test_whatever_is_no_text_goes_at_once_and_takes_the_text_before_it_along(
    outbox: Outbox, socket: Socket, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("ozzie_server_ext.gateway.outbox.INTERVAL_S", 3600)
    await outbox.put(delta(0, "first"))
    await socket.frames(1)
    await outbox.put(delta(5, "then"))
    reset = Transient(type="reply.reset", session_id=None, task_id=None, payload={"reply_id": "r"})
    urgent = {"event": await event(), "response": encode_frame(Response(id="1", ok=True)), "reset": reset}[kind]

    await outbox.put(urgent)

    found = await socket.frames(3)
    assert said(found[1]) == "then"
    assert type(found[2]) is (Response if kind == "response" else EventFrame)
    assert len(socket.messages) == 2, "what was ready at the same moment is one message"


async def test_the_order_is_kept_and_text_is_not_joined_across_an_event(outbox: Outbox, socket: Socket) -> None:
    socket.taking.clear()
    await outbox.put(delta(0, "-"))
    await asyncio.wait_for(socket.sending.wait(), WAIT_S)
    await outbox.put(delta(1, "a"))
    await outbox.put(await event("one"))
    await outbox.put(delta(2, "b"))
    await outbox.put(delta(3, "c"))
    await outbox.put(await event("two"))
    socket.taking.set()

    found = await socket.frames(5)

    assert [said(frame) or frame.payload["title"] for frame in found] == ["-", "a", "one", "bc", "two"]


@pytest.mark.parametrize(
    "following", [delta(5, "x", reply="other"), delta(9, "x"), delta(3, "x")], ids=["other reply", "gap", "overlap"]
)
async def test_text_is_joined_only_where_it_really_goes_on(
    outbox: Outbox, socket: Socket, following: Transient
) -> None:
    socket.taking.clear()
    await outbox.put(delta(0, "-"))
    await asyncio.wait_for(socket.sending.wait(), WAIT_S)
    await outbox.put(delta(1, "abcd"))
    await outbox.put(following)
    socket.taking.set()

    assert [said(frame) for frame in await socket.frames(3)] == ["-", "abcd", "x"]


async def test_a_client_that_does_not_read_holds_up_who_writes_to_it_and_no_more_is_kept(
    outbox: Outbox, socket: Socket
) -> None:
    socket.taking.clear()
    await outbox.put(encode_frame(Response(id="0", ok=True)))
    await asyncio.wait_for(socket.sending.wait(), WAIT_S)
    for number in range(1, MAX_PENDING + 1):
        await asyncio.wait_for(outbox.put(encode_frame(Response(id=str(number), ok=True))), WAIT_S)

    waiting = asyncio.ensure_future(outbox.put(encode_frame(Response(id="last", ok=True))))
    done, _ = await asyncio.wait({waiting}, timeout=0.05)
    assert not done, "a client that is so far behind must hold up its writer"
    socket.taking.set()
    await asyncio.wait_for(waiting, WAIT_S)

    found = await socket.frames(MAX_PENDING + 2)
    assert [frame.id for frame in found] == [*map(str, range(MAX_PENDING + 1)), "last"]


async def test_a_socket_that_is_gone_ends_the_sending() -> None:
    async def gone(text: str) -> None:
        raise ConnectionError("closed")

    outbox = Outbox(gone)
    running = asyncio.ensure_future(outbox.run())
    await outbox.put(delta(0, "x"))

    with pytest.raises(ConnectionError):
        await asyncio.wait_for(running, WAIT_S)


async def test_a_recorded_event_is_the_same_text_for_all_clients() -> None:
    recorded = await event()

    assert frame_text(recorded) is frame_text(recorded)
    assert decode_frames(frame_text(recorded))[0] == decode_frames(frame_text(await event()))[0]
