"""The feed: no gap, no duplicate, nobody held up, and whole replies for those who come late."""

import asyncio
import gc
import random
from collections.abc import AsyncIterator, Set
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from ozzie_server_ext.domain.errors import Bug, InputError, NotFound
from ozzie_server_ext.domain.events import Event, TaskCancelled, Transient
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.feed import Feed, Item, Subscription
from ozzie_server_ext.store.log import EventLog, Head, Listener
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.replay.histories import SESSION, TASK, completed, draft, renamed, task_created, task_draft

SOON = 10.0  # a time-out, not a wait


@pytest_asyncio.fixture(params=["memory", "sqlite"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventLog]:
    opened: EventLog
    if request.param == "memory":
        opened = InMemoryEventLog(FakeClock(), CountingIds())
    else:
        opened = await SqliteEventLog.open(tmp_path / "ozzie.db", clock=FakeClock(), ids=CountingIds())
    yield opened
    await opened.close()


async def append(log: EventLog, count: int = 1, *, stream: str = "s") -> None:
    for _ in range(count):
        await log.append(stream, [renamed("a")])


async def take(subscription: Subscription, count: int) -> list[Item]:
    return [await asyncio.wait_for(anext(subscription), SOON) for _ in range(count)]


async def positions(subscription: Subscription, count: int) -> list[int]:
    return [item.position for item in await take(subscription, count) if isinstance(item, Event)]


async def nothing_waits(subscription: Subscription) -> bool:
    """Whether the next item is still to come."""
    for _ in range(3):
        await asyncio.sleep(0)
    return await subscription.take(1) == []


def delta(offset: int, content: str, *, reply_id: str = "r", session_id: str = SESSION) -> Transient:
    return Transient(
        type="reply.delta",
        session_id=SessionId(session_id),
        task_id=TASK,
        payload={"reply_id": reply_id, "offset": offset, "phase": "delta", "content": content},
    )


def said(item: Item) -> tuple[object, object, object]:
    """Reply, offset and content of a delta."""
    assert isinstance(item, Transient)
    return item.payload["reply_id"], item.payload["offset"], item.payload["content"]


def reset(reply_id: str = "r") -> Transient:
    return Transient(type="reply.reset", session_id=SESSION, task_id=TASK, payload={"reply_id": reply_id})


class Reader:
    """Puts deltas together as a front end does, and insists that each one continues what is there."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def see(self, item: Item) -> None:
        if not isinstance(item, Transient):
            return
        payload: dict[str, Any] = item.payload
        if item.type == "reply.reset":
            self.texts[payload["reply_id"]] = ""
        elif item.type == "reply.delta":
            text = self.texts.get(payload["reply_id"], "")
            assert payload["offset"] in {0, len(text)}
            self.texts[payload["reply_id"]] = text[: payload["offset"]] + payload["content"]


# --- durable events -----------------------------------------------------------------------------------


async def test_a_subscriber_gets_what_was_and_then_what_comes(log: EventLog) -> None:
    await append(log, 3)
    feed = Feed(log)
    async with feed.subscribe(0) as subscription:
        assert await positions(subscription, 3) == [1, 2, 3]
        await append(log, 2)
        assert await positions(subscription, 2) == [4, 5]


async def test_from_the_head_on_there_is_only_what_is_new(log: EventLog) -> None:
    feed = Feed(log)
    await append(log, 3)
    subscription = feed.subscribe((await log.head()).position)
    await append(log)
    assert await positions(subscription, 1) == [4]


async def test_a_subscriber_may_start_anywhere(log: EventLog) -> None:
    await append(log, 3)
    feed = Feed(log)
    await append(log, 3)
    assert await positions(feed.subscribe(1), 5) == [2, 3, 4, 5, 6]
    assert await positions(feed.subscribe(4), 2) == [5, 6]


async def test_a_commit_that_is_more_than_a_subscriber_may_have_waiting_wakes_it(log: EventLog) -> None:
    feed = Feed(log, buffer=2)
    news: list[None] = []
    asleep = feed.subscribe(0)
    told = feed.subscribe(0, on_news=lambda: news.append(None))
    assert await told.take(1) == []
    reading = asyncio.create_task(positions(asleep, 5))
    for _ in range(10):
        await asyncio.sleep(0)
    await log.append("s", [renamed("a")] * 5)
    assert await asyncio.wait_for(reading, SOON) == [1, 2, 3, 4, 5]
    assert news


@pytest.mark.parametrize("ring", [1, 7, 2048])
async def test_no_gap_and_no_duplicate_while_others_append(log: EventLog, ring: int) -> None:
    feed = Feed(log, ring=ring, buffer=16)
    total = 300

    async def write(stream: str) -> None:
        for _ in range(total // 3):
            await log.append(stream, [renamed("a")])

    async def read(start: int) -> list[int]:
        return await positions(feed.subscribe(start), total - start)

    writers = [asyncio.create_task(write(f"s{n}")) for n in range(3)]
    readers = [asyncio.create_task(read(0)) for _ in range(3)]
    await positions(feed.subscribe(0), 50)
    readers += [asyncio.create_task(read(start)) for start in (0, 20, 50)]
    await asyncio.gather(*writers)
    found = await asyncio.wait_for(asyncio.gather(*readers), SOON)
    assert found == [list(range(start + 1, total + 1)) for start in (0, 0, 0, 0, 20, 50)]


async def test_one_who_does_not_read_holds_nobody_up_and_misses_nothing(log: EventLog) -> None:
    feed = Feed(log, ring=8, buffer=8)
    slow, quick = feed.subscribe(0), feed.subscribe(0)
    seen: list[int] = []
    for _ in range(100):
        await append(log)
        seen += await positions(quick, 1)
    assert seen == list(range(1, 101))
    assert await positions(slow, 100) == seen


async def test_a_stream_of_more_than_a_page_replays_whole(log: EventLog) -> None:
    await log.append("s", [renamed("a") for _ in range(700)])
    feed = Feed(log)
    subscription = feed.subscribe(0)
    assert await positions(subscription, 700) == list(range(1, 701))
    await append(log)
    assert await positions(subscription, 1) == [701]


async def test_a_subscriber_gets_only_what_it_asked_for(log: EventLog) -> None:
    feed = Feed(log)
    other = draft(task_created(), session_id=SessionId("sess_other"), task_id=TaskId("other"))

    async def write() -> None:
        await log.append("a", [renamed("a")])
        await log.append("b", [task_draft(task_created())], expected_version=0)

    await write()
    await log.append("c", [other])
    by_type = feed.subscribe(0, types=frozenset({"task.created"}))
    by_session = feed.subscribe(0, session_id=SESSION)
    by_task = feed.subscribe(0, task_id=TaskId("other"))
    assert await positions(by_type, 2) == [2, 3]
    assert await positions(by_session, 2) == [1, 2]
    assert await positions(by_task, 1) == [3]
    feed.publish(delta(0, "x"))
    await log.append("d", [draft(task_created(), session_id=None, task_id=TaskId("third"))])
    await log.append("a", [renamed("b")])
    assert await positions(by_type, 1) == [4]
    assert [item.type for item in await take(by_session, 2)] == ["reply.delta", "session.renamed"]
    assert await nothing_waits(by_task)


async def test_a_position_that_the_log_has_not_reached_is_refused(log: EventLog) -> None:
    await append(log, 2)
    feed = Feed(log)
    with pytest.raises(InputError, match="ends at 2"):
        await anext(feed.subscribe(3))
    with pytest.raises(InputError):
        feed.subscribe(-1)
    assert await nothing_waits(feed.subscribe(2))


async def test_waiting_with_a_time_out_loses_nothing(log: EventLog) -> None:
    feed = Feed(log)
    subscription = feed.subscribe(0)
    for _ in range(3):
        assert await nothing_waits(subscription)
    await append(log, 2)
    assert await positions(subscription, 2) == [1, 2]


async def test_one_may_take_what_is_there_and_is_told_of_more(log: EventLog) -> None:
    await append(log, 5)
    feed, news = Feed(log), list[str]()
    subscription = feed.subscribe(0, on_news=lambda: news.append("news"))
    assert len(await subscription.take(3)) == 3
    assert news == ["news"], "two were left"
    assert len(await subscription.take(3)) == 2
    assert await subscription.take(3) == []
    told = len(news)
    await append(log)
    assert len(news) == told + 1
    assert len(await subscription.take(3)) == 1


class _Committing(InMemoryEventLog):
    """A log whose readers see events that nobody has heard of yet, as they do right after a commit."""

    published = 0

    def on_commit(self, listener: Listener, *, types: Set[str] | None = None) -> None:
        self._listener = listener

    async def head(self) -> Head:
        return Head(self.published, "")

    async def publish(self, up_to: int) -> None:
        events = await self.read(after=self.published, limit=up_to - self.published)
        self.published = up_to
        self._listener(events)


@pytest.mark.parametrize("published", [0, 100, 300, 512])
async def test_what_is_read_before_it_is_published_comes_once(published: int) -> None:
    log = _Committing(FakeClock(), CountingIds())
    feed = Feed(log, ring=16)
    await log.append("s", [renamed("a") for _ in range(600)])
    if published:
        await log.publish(published)
    subscription = feed.subscribe(0)
    assert await positions(subscription, published) == list(range(1, published + 1))
    assert await nothing_waits(subscription)
    await log.publish(600)
    assert await positions(subscription, 600 - published) == list(range(published + 1, 601))
    assert await nothing_waits(subscription)


class _Broken(InMemoryEventLog):
    """A log that can't be read for a while."""

    broken = True

    async def read(self, **filters: Any) -> tuple[Event, ...]:
        if self.broken:
            raise NotFound("no")
        return await super().read(**filters)


async def test_an_error_reaches_the_one_who_reads_and_nobody_else() -> None:
    log = _Broken(FakeClock(), CountingIds())
    await append(log, 3)
    feed = Feed(log)
    following, reading = feed.subscribe(3), feed.subscribe(0)
    with pytest.raises(NotFound):
        await anext(reading)
    await append(log)
    assert await positions(following, 1) == [4]
    log.broken = False
    assert await positions(reading, 4) == [1, 2, 3, 4]


# --- what it holds ------------------------------------------------------------------------------------

KB = 1024


async def append_large(log: EventLog, count: int) -> None:
    """Events of 10 KB each."""
    for _ in range(count):
        await log.append("s", [renamed("x" * 10 * KB)])


async def test_one_who_does_not_read_holds_no_more_than_so_many_bytes_and_misses_nothing(log: EventLog) -> None:
    feed = Feed(log, ring_bytes=100 * KB, buffer_bytes=50 * KB)
    slow = feed.subscribe(0)
    assert await nothing_waits(slow)
    most = 0
    for _ in range(40):
        await append_large(log, 1)
        most = max(most, slow.held_bytes)
        assert feed.held_bytes <= 100 * KB

    assert 50 * KB <= most <= 61 * KB, "so much, and the event that goes beyond"
    assert await positions(slow, 40) == list(range(1, 41))
    assert slow.held_bytes == 0


@pytest.mark.parametrize("ring_bytes", [1, 1000 * KB], ids=["from the log", "from what is kept"])
async def test_one_who_comes_late_is_given_what_was_in_pieces_of_so_many_bytes(log: EventLog, ring_bytes: int) -> None:
    feed = Feed(log, ring_bytes=ring_bytes, buffer_bytes=50 * KB)
    await append_large(log, 40)
    late, found = feed.subscribe(0), list[Item]()
    for _ in range(40):
        found += await late.take(1)
        assert late.held_bytes <= 50 * KB

    assert [item.position for item in found if isinstance(item, Event)] == list(range(1, 41))
    assert await nothing_waits(late)
    await append(log)
    assert await positions(late, 1) == [41]


async def test_what_is_larger_than_all_that_may_be_held_comes_by_itself(log: EventLog) -> None:
    feed = Feed(log, ring_bytes=KB, buffer_bytes=KB)
    live = feed.subscribe(0)
    assert await nothing_waits(live)
    await append_large(log, 3)

    assert await positions(live, 3) == [1, 2, 3]
    assert await positions(feed.subscribe(0), 3) == [1, 2, 3]
    assert feed.held_bytes == 0


async def test_a_tools_lines_that_nobody_takes_count_too(log: EventLog) -> None:
    feed = Feed(log, buffer_bytes=50 * KB)
    slow = feed.subscribe(0)
    assert await nothing_waits(slow)
    held: list[int] = []
    for number in range(20):
        payload: JsonObject = {"call_id": str(number), "lines": list[Json](["x" * KB] * 10), "count": 10}
        feed.publish(Transient(type="tool.output", session_id=SESSION, task_id=TASK, payload=payload))
        held.append(slow.held_bytes)

    assert 40 * KB <= max(held) <= 61 * KB


async def test_text_that_nobody_takes_counts_too(log: EventLog) -> None:
    feed = Feed(log, buffer_bytes=50 * KB)
    slow = feed.subscribe(0)
    assert await nothing_waits(slow)
    for number in range(20):
        feed.publish(delta(0, "x" * 10 * KB, reply_id=str(number)))
        assert slow.held_bytes <= 61 * KB

    reader = Reader()
    for item in await take(slow, 20):
        reader.see(item)
    assert [len(text) for text in reader.texts.values()] == [10 * KB] * 20


# --- ending -------------------------------------------------------------------------------------------


async def test_closing_ends_the_one_who_waits(log: EventLog) -> None:
    feed = Feed(log)
    subscription = feed.subscribe(0)

    async def collect() -> list[Item]:
        return [item async for item in subscription]

    reader = asyncio.create_task(collect())
    await append(log, 2)
    await subscription.aclose()
    assert len(await asyncio.wait_for(reader, SOON)) <= 2
    await append(log)
    assert await subscription.take(5) == []


async def test_closing_the_feed_ends_every_subscription(log: EventLog) -> None:
    feed = Feed(log)

    async def collect(subscription: Subscription) -> list[Item]:
        return [item async for item in subscription]

    readers = [asyncio.create_task(collect(feed.subscribe(0))) for _ in range(3)]
    await asyncio.sleep(0)
    feed.close()
    assert await asyncio.wait_for(asyncio.gather(*readers), SOON) == [[], [], []]


async def test_a_subscription_that_nobody_holds_is_let_go_of(log: EventLog) -> None:
    feed = Feed(log)
    feed.subscribe(0)
    kept = feed.subscribe(0)
    gc.collect()
    assert feed.subscribers == 1
    await kept.aclose()
    assert feed.subscribers == 0


# --- replies ------------------------------------------------------------------------------------------


async def test_deltas_come_in_order_with_the_events_around_them(log: EventLog) -> None:
    feed = Feed(log)
    subscription = feed.subscribe(0)
    assert await nothing_waits(subscription)
    await append(log)
    feed.publish(delta(0, "Hel"))
    feed.publish(delta(3, "lo"))
    await log.append("s", [draft(completed("r", "Hello"))])
    items = await take(subscription, 4)
    assert [item.type for item in items] == ["session.renamed", "reply.delta", "reply.delta", "message.completed"]


async def test_text_that_goes_on_is_gathered_and_the_first_of_it_is_not(log: EventLog) -> None:
    feed = Feed(log)
    subscription = feed.subscribe(0)
    assert await nothing_waits(subscription)
    for index, letter in enumerate("Hello"):
        feed.publish(delta(index, letter))
        feed.publish(delta(index, letter.upper(), reply_id="other"))

    first = await subscription.take(10)
    then = await take(subscription, 2)

    assert [said(item) for item in first] == [("r", 0, "H"), ("other", 0, "H")]
    assert [said(item) for item in then] == [("r", 1, "ello"), ("other", 1, "ELLO")]


async def test_whatever_is_no_text_takes_the_text_before_it_along(log: EventLog) -> None:
    feed = Feed(log)
    subscription = feed.subscribe(0)
    assert await nothing_waits(subscription)
    feed.publish(delta(0, "a"))
    feed.publish(delta(1, "b"))
    feed.publish(delta(1, "B"))
    feed.publish(delta(2, "c"))
    feed.publish(reset())
    feed.publish(delta(0, "d"))

    items = await subscription.take(10)

    assert [said(item) for item in items if item.type == "reply.delta"] == [
        ("r", 0, "a"),
        ("r", 1, "b"),
        ("r", 1, "Bc"),
        ("r", 0, "d"),
    ]
    assert [item.type for item in items].index("reply.reset") == 3


async def test_one_who_joins_gets_the_held_text_once(log: EventLog) -> None:
    feed = Feed(log)
    feed.publish(delta(0, "a"))
    feed.publish(delta(1, "b"))
    subscription = feed.subscribe(0)

    assert [said(item) for item in await subscription.take(10)] == [("r", 0, "ab")]
    feed.release()
    assert await nothing_waits(subscription)


async def test_one_who_comes_late_sees_the_whole_reply(log: EventLog) -> None:
    feed = Feed(log)
    await append(log)
    for index, letter in enumerate("Grüße 🙂"):
        feed.publish(delta(index, letter))
    subscription = feed.subscribe(0)
    event, first = await take(subscription, 2)
    assert isinstance(event, Event)
    assert isinstance(first, Transient)
    assert first.payload == {"reply_id": "r", "offset": 0, "phase": "delta", "content": "Grüße 🙂"}
    feed.publish(delta(7, "!"))
    (then,) = await take(subscription, 1)
    assert isinstance(then, Transient)
    assert then.payload["offset"] == 7


async def test_a_finished_reply_is_no_longer_shown_to_late_ones(log: EventLog) -> None:
    feed = Feed(log)
    feed.publish(delta(0, "Hello"))
    feed.publish(delta(0, "Other", reply_id="q"))
    await log.append("s", [draft(completed("r", "Hello"))])
    items = await take(feed.subscribe(0), 2)
    assert [item.type for item in items] == ["message.completed", "reply.delta"]
    assert [reply.reply_id for reply in feed.open_replies] == ["q"]


async def test_the_end_of_a_task_ends_its_replies(log: EventLog) -> None:
    feed = Feed(log)
    feed.publish(delta(0, "Hello"))
    await log.append("t", [task_draft(task_created()), task_draft(TaskCancelled(by="user", reason=""))])
    assert list(feed.open_replies) == []


async def test_a_reply_that_starts_again_does_so_for_everybody(log: EventLog) -> None:
    feed = Feed(log)
    early, reader, late_reader = feed.subscribe(0), Reader(), Reader()
    assert await nothing_waits(early)
    feed.publish(delta(0, "Wrong"))
    feed.publish(reset())
    late = feed.subscribe(0)
    (begun_again,) = await late.take(10)
    feed.publish(delta(0, "Right"))
    for item in await take(early, 3):
        reader.see(item)
    for item in (begun_again, *await take(late, 1)):
        late_reader.see(item)
    assert reader.texts == late_reader.texts == {"r": "Right"}


async def test_a_delta_that_leaves_a_gap_is_our_own_mistake(log: EventLog) -> None:
    feed = Feed(log)
    feed.publish(delta(0, "abc"))
    for offset in (4, -1):
        with pytest.raises(Bug):
            feed.publish(delta(offset, "x"))


async def test_a_delta_that_overlaps_replaces_the_rest(log: EventLog) -> None:
    feed = Feed(log)
    feed.publish(delta(0, "Hello world"))
    feed.publish(delta(6, "you"))
    (item,) = await take(feed.subscribe(0), 1)
    assert isinstance(item, Transient)
    assert item.payload["content"] == "Hello you"


async def test_one_who_falls_behind_still_gets_whole_replies(log: EventLog) -> None:
    feed = Feed(log, buffer=4)
    slow, reader = feed.subscribe(0), Reader()
    assert await nothing_waits(slow)
    text = "".join(chr(ord("a") + number % 26) for number in range(50))
    for index, letter in enumerate(text):
        feed.publish(delta(index, letter))
        if index % 10 == 0:
            await append(log)
    while reader.texts.get("r") != text:
        (item,) = await take(slow, 1)
        reader.see(item)
    assert await nothing_waits(slow)


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_the_pace_every_reader_ends_with_the_same_texts(log: EventLog, seed: int) -> None:
    chance = random.Random(seed)
    feed = Feed(log, ring=chance.choice([2, 64]), buffer=chance.choice([3, 10, 1000]))
    total = 60
    texts: dict[str, str] = {}

    async def follow() -> list[int]:
        pace = random.Random(chance.random())
        subscription, reader, seen = feed.subscribe(0), Reader(), list[int]()
        while not (seen and seen[-1] > total and reader.texts == texts):
            for _ in range(pace.choice([0, 1, 30])):
                await asyncio.sleep(0)
            for item in [await anext(subscription), *await subscription.take(pace.choice([0, 4]))]:
                reader.see(item)
                if isinstance(item, Event):
                    seen.append(item.position)
        return seen

    readers = [asyncio.create_task(follow()) for _ in range(5)]
    for number in range(total):
        reply_id = chance.choice("ab")
        if chance.random() < 0.05:
            texts[reply_id] = ""
            feed.publish(reset(reply_id))
        content = "xyz"[: chance.randint(1, 3)] + str(number)
        feed.publish(delta(len(texts.get(reply_id, "")), content, reply_id=reply_id))
        texts[reply_id] = texts.get(reply_id, "") + content
        await append(log)
    await append(log)
    for seen in await asyncio.wait_for(asyncio.gather(*readers), SOON):
        assert seen == list(range(1, total + 2))
