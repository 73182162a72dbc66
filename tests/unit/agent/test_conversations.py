"""The conversations in use: loaded once, and then they grow with the log without gap or double."""

import asyncio
import gc
from typing import Any

from ozzie_server_ext.agent.conversations import MAX_KEPT, Conversations
from ozzie_server_ext.domain.events import Draft, Event, MessageReceived, ModelCallStarted, Origin
from ozzie_server_ext.domain.ids import BlobRef, CallId, MessageId, ReplyId, SessionId
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.sessions import Sessions

SESSION = SessionId("s")


class SlowLog(InMemoryEventLog):
    """A log whose reading may be held up: `reading` says that it began, `go_on` lets it end."""

    def __init__(self) -> None:
        super().__init__(FakeClock(), CountingIds())
        self.reading = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.reads = 0

    async def read(self, **how: Any) -> tuple[Event, ...]:
        found = await super().read(**how)
        self.reads += 1
        self.reading.set()
        await self.go_on.wait()
        return found

    async def say(self, text: str, session: SessionId = SESSION) -> None:
        """A message whose turn has begun."""
        bodies = (
            MessageReceived(message_id=MessageId("m"), text=text, origin=Origin(channel="test")),
            ModelCallStarted(
                call_id=CallId(text),
                reply_id=ReplyId(text),
                round=1,
                alias="a",
                provider="p",
                model="m",
                request_blob=BlobRef("b"),
                config="",
                prompt="",
                tools="",
            ),
        )
        drafts = [Draft(body=body, actor="user", source="test", session_id=session) for body in bodies]
        await self.append(f"session:{session}", drafts)


async def texts(conversations: Conversations, session: SessionId = SESSION) -> list[str]:
    return [message.content for message in (await conversations.get(session)).messages(100)]


async def test_a_conversation_is_read_once_and_then_grows_with_the_log() -> None:
    log = SlowLog()
    conversations = Conversations(log)
    await log.say("one")

    assert await texts(conversations) == ["one"]
    reads = log.reads
    await log.say("two")
    await log.say("elsewhere", SessionId("other"))

    assert await texts(conversations) == ["one", "two"]
    assert log.reads == reads


async def test_what_is_committed_while_it_is_read_is_neither_missed_nor_doubled() -> None:
    log = SlowLog()
    conversations = Conversations(log)
    await log.say("one")
    log.go_on.clear()
    loading = asyncio.ensure_future(texts(conversations))
    await asyncio.wait_for(log.reading.wait(), 10)

    await log.say("two")
    await log.say("three")
    log.go_on.set()

    assert await loading == ["one", "two", "three"]
    await log.say("four")
    assert await texts(conversations) == ["one", "two", "three", "four"]


async def test_two_who_load_it_at_once_get_the_same_one() -> None:
    log = SlowLog()
    conversations = Conversations(log)
    await log.say("one")
    log.go_on.clear()
    loading = [asyncio.ensure_future(conversations.get(SESSION)) for _ in range(2)]
    await asyncio.wait_for(log.reading.wait(), 10)
    log.go_on.set()

    first, second = await asyncio.gather(*loading)
    await log.say("two")

    assert first is second
    assert [message.content for message in first.messages(100)] == ["one", "two"]


async def test_a_conversation_in_use_grows_even_when_many_others_have_pushed_it_out_of_the_cache() -> None:
    log = SlowLog()
    conversations = Conversations(log)
    await log.say("one")
    held = await conversations.get(SESSION)

    for number in range(MAX_KEPT + 1):
        await conversations.get(SessionId(f"other-{number}"))
    await log.say("two")

    assert [message.content for message in held.messages(100)] == ["one", "two"]
    assert await conversations.get(SESSION) is held


async def test_only_so_many_are_kept_that_nobody_uses() -> None:
    log = SlowLog()
    conversations = Conversations(log)
    for number in range(MAX_KEPT + 3):
        await conversations.get(SessionId(f"s-{number}"))
    gc.collect()
    reads = log.reads

    for number in range(3, MAX_KEPT + 3):
        await conversations.get(SessionId(f"s-{number}"))
    assert log.reads == reads
    await conversations.get(SessionId("s-0"))
    assert log.reads > reads


async def test_a_fork_begins_with_what_was_said_before_it_and_hears_nothing_of_what_follows_there() -> None:
    log = SlowLog()
    sessions = Sessions(log, CountingIds())
    first = (await sessions.open("a", title="a", channel="test")).session_id
    await log.say("one", first)
    second = (await sessions.copy(first, "b", title="b", channel="test")).session_id
    await log.say("two", first)
    await log.say("two of the second", second)
    third = (await sessions.copy(second, "c", title="c", channel="test")).session_id
    await log.say("three", second)
    conversations = Conversations(log)

    assert await texts(conversations, first) == ["one", "two"]
    assert await texts(conversations, second) == ["one", "two of the second", "three"]
    assert await texts(conversations, third) == ["one", "two of the second"]
    await log.say("four", third)
    await log.say("four of the first", first)
    assert await texts(conversations, third) == ["one", "two of the second", "four"]
