"""What one client still gets: frames that are ready, and what its feeds bring, in order."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import Draft, Event, SessionRenamed, Transient
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.gateway.outbox import ENOUGH_CHARACTERS, MAX_READY, Followed, FrameCache, Outbox
from ozzie_server_ext.observability.clock import FakeClock, UlidSource
from ozzie_server_ext.protocol.frames import Response, decode_frames, encode_frame
from ozzie_server_ext.store.feed import BUFFER_BYTES, Feed, Item
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


def shown(frame: Any) -> str:
    """What tells a frame from others: its id, a delta's content, a title."""
    if isinstance(frame, Response):
        return frame.id
    return str(frame.payload.get("content") or frame.payload.get("title") or frame.canonical)


@pytest.fixture
def socket() -> Socket:
    return Socket()


@pytest.fixture
def log() -> InMemoryEventLog:
    return InMemoryEventLog(FakeClock(), UlidSource())


@pytest.fixture
def feed(log: InMemoryEventLog) -> Feed:
    return Feed(log)


@pytest.fixture
async def outbox(socket: Socket) -> AsyncIterator[Outbox]:
    outbox = Outbox(socket.send)
    running = asyncio.create_task(outbox.run())
    yield outbox
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def follow(outbox: Outbox, feed: Feed, *, until: str = "", ended: "list[str] | None" = None) -> Followed:
    def last(item: Item) -> bool:
        return isinstance(item, Event) and getattr(item.body, "title", "") == until

    followed = Followed(
        feed.subscribe(0, on_news=outbox.notice),
        last=last if until else None,
        on_end=lambda: (ended if ended is not None else []).append("ended"),
    )
    outbox.follow(followed)
    return followed


def delta(offset: int, content: str, reply: str = "r") -> Transient:
    payload: dict[str, Any] = {"reply_id": reply, "offset": offset, "phase": "delta", "content": content}
    return Transient(type="reply.delta", session_id=SessionId("s"), task_id=TaskId("t"), payload=payload)


async def rename(log: InMemoryEventLog, title: str) -> Event:
    draft = Draft(body=SessionRenamed(title=title), actor="user", source="test", session_id=SessionId("s"))
    return (await log.append("session:s", [draft]))[0]


def answer(number: int) -> str:
    return encode_frame(Response(id=str(number), ok=True))


async def test_events_text_and_answers_reach_the_client(
    outbox: Outbox, socket: Socket, feed: Feed, log: InMemoryEventLog
) -> None:
    follow(outbox, feed)
    await rename(log, "one")
    await socket.frames(1)
    feed.publish(delta(0, "Hel"))
    feed.publish(delta(3, "lo"))
    await rename(log, "two")
    await socket.frames(4)
    await outbox.put(answer(1))

    assert [shown(frame) for frame in await socket.frames(5)] == ["one", "Hel", "lo", "two", "1"]


async def test_what_is_ready_at_the_same_moment_is_one_message(
    outbox: Outbox, socket: Socket, feed: Feed, log: InMemoryEventLog
) -> None:
    for title in ("one", "two", "three"):
        await rename(log, title)
    follow(outbox, feed)
    await outbox.put(answer(1))

    assert [shown(frame) for frame in await socket.frames(4)] == ["1", "one", "two", "three"]
    assert len(socket.messages) == 1


async def test_what_no_client_would_take_in_one_message_comes_in_several(
    outbox: Outbox, socket: Socket, feed: Feed, log: InMemoryEventLog
) -> None:
    titles = [letter * (ENOUGH_CHARACTERS // 3) for letter in "abcdefgh"]
    for title in titles:
        await rename(log, title)
    follow(outbox, feed)

    assert [shown(frame) for frame in await socket.frames(8)] == titles
    assert [len(message) for message in socket.messages] == [3, 3, 2]


async def test_of_what_waits_for_a_client_that_does_not_read_one_message_is_encoded(
    outbox: Outbox, socket: Socket, log: InMemoryEventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[int] = []
    text = FrameCache.text

    def counted(cache: FrameCache, item: Item) -> str:
        encoded.append(len(found := text(cache, item)))
        return found

    monkeypatch.setattr(FrameCache, "text", counted)
    size = ENOUGH_CHARACTERS // 10
    for number in range(100):
        await rename(log, f"{number}".ljust(size))
    feeds = [Feed(log), Feed(log)]
    socket.taking.clear()
    followed = [follow(outbox, feed) for feed in feeds]
    await asyncio.wait_for(socket.sending.wait(), WAIT_S)
    before, held = sum(encoded), [each.subscription.held_bytes for each in followed]
    socket.taking.set()
    found = [shown(frame).strip() for frame in await socket.frames(200)]

    assert before <= ENOUGH_CHARACTERS + 2 * size
    assert all(bytes_ <= BUFFER_BYTES + 2 * size for bytes_ in held)
    assert [sorted(found).count(str(number)) for number in range(100)] == [2] * 100


async def test_a_feed_ends_behind_its_last_item_and_brings_nothing_more(
    outbox: Outbox, socket: Socket, feed: Feed, log: InMemoryEventLog
) -> None:
    ended: list[str] = []
    follow(outbox, feed, until="two", ended=ended)
    for title in ("one", "two", "three"):
        await rename(log, title)
    await socket.frames(2)
    await outbox.put(answer(1))

    assert [shown(frame) for frame in await socket.frames(3)] == ["one", "two", "1"]
    assert ended == ["ended"]
    assert feed.subscribers == 0


async def test_a_feed_that_was_ended_brings_nothing_more(
    outbox: Outbox, socket: Socket, feed: Feed, log: InMemoryEventLog
) -> None:
    ended: list[str] = []
    followed = follow(outbox, feed, ended=ended)
    await rename(log, "one")
    await socket.frames(1)
    await rename(log, "two")
    outbox.unfollow(followed)
    outbox.unfollow(followed)
    await outbox.put(answer(1))

    assert [shown(frame) for frame in await socket.frames(2)] == ["one", "1"]
    assert ended == ["ended"]


async def test_a_client_that_does_not_read_holds_nobody_up_and_misses_nothing_durable(
    outbox: Outbox, socket: Socket, log: InMemoryEventLog
) -> None:
    feed = Feed(log, ring=4, buffer=4)
    follow(outbox, feed)
    socket.taking.clear()
    await rename(log, "0")
    await asyncio.wait_for(socket.sending.wait(), WAIT_S)
    for number in range(1, 1000):
        await rename(log, str(number))
    socket.taking.set()

    assert [shown(frame) for frame in await socket.frames(1000)] == list(map(str, range(1000)))


async def test_a_client_that_does_not_read_holds_up_who_answers_it_and_no_more_is_kept(
    outbox: Outbox, socket: Socket
) -> None:
    socket.taking.clear()
    await outbox.put(answer(0))
    await asyncio.wait_for(socket.sending.wait(), WAIT_S)
    for number in range(1, MAX_READY + 1):
        await asyncio.wait_for(outbox.put(answer(number)), WAIT_S)

    waiting = asyncio.ensure_future(outbox.put(answer(MAX_READY + 1)))
    done, _ = await asyncio.wait({waiting}, timeout=0.05)
    assert not done, "a client that is so far behind must hold up its writer"
    socket.taking.set()
    await asyncio.wait_for(waiting, WAIT_S)

    found = await socket.frames(MAX_READY + 2)
    assert [shown(frame) for frame in found] == list(map(str, range(MAX_READY + 2)))


async def test_who_waits_to_answer_a_client_is_let_go_of_when_that_is_gone(outbox: Outbox, socket: Socket) -> None:
    socket.taking.clear()
    await outbox.put(answer(0))
    await asyncio.wait_for(socket.sending.wait(), WAIT_S)
    for number in range(MAX_READY):
        await outbox.put(answer(number))
    waiting = [asyncio.ensure_future(outbox.put(answer(number))) for number in range(2 * MAX_READY)]

    outbox.close()

    _, still_waiting = await asyncio.wait(waiting, timeout=WAIT_S)
    assert not still_waiting


async def test_a_socket_that_is_gone_ends_the_sending() -> None:
    async def gone(text: str) -> None:
        raise ConnectionError("closed")

    outbox = Outbox(gone)
    running = asyncio.ensure_future(outbox.run())
    await outbox.put(answer(0))

    with pytest.raises(ConnectionError):
        await asyncio.wait_for(running, WAIT_S)


async def test_a_feed_that_breaks_ends_the_sending(socket: Socket, feed: Feed) -> None:
    outbox = Outbox(socket.send)
    running = asyncio.ensure_future(outbox.run())
    broken = feed.subscribe(99, on_news=outbox.notice)
    outbox.follow(Followed(broken, last=None, on_end=lambda: None))
    await outbox.put(answer(1))

    with pytest.raises(InputError, match="Position 99"):
        await asyncio.wait_for(running, WAIT_S)
    assert [shown(frame) for frame in await socket.frames(1)] == ["1"], "what was ready before is not lost"


async def test_closing_ends_all_feeds(outbox: Outbox, feed: Feed) -> None:
    ended: list[str] = []
    for _ in range(3):
        follow(outbox, feed, ended=ended)
    outbox.close()

    assert ended == ["ended"] * 3
    assert feed.subscribers == 0


async def test_an_item_is_encoded_once_for_all_clients(log: InMemoryEventLog) -> None:
    cache, recorded, text = FrameCache(), await rename(log, "x"), delta(0, "x")

    assert cache.text(recorded) is cache.text(recorded)
    assert cache.text(text) is cache.text(text)
    assert shown(decode_frames(cache.text(delta(0, "y")))[0]) == "y"


def test_the_texts_that_are_kept_are_bounded_by_their_size() -> None:
    cache = FrameCache(budget=1000)
    first = delta(0, "a" * 400)
    kept = cache.text(first)
    for number in range(10):
        cache.text(delta(number, "b" * 400))

    assert cache.text(first) == kept
    assert cache.text(first) is not kept, "it had to make room"
