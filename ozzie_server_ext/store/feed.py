"""The live feed: everything from a position on, then what happens, without gap or duplicate."""

import asyncio
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import TracebackType
from typing import Self, cast

import msgspec

from ozzie_server_ext.domain.errors import Bug, InputError
from ozzie_server_ext.domain.events import Event, MessageCompleted, TaskCancelled, TaskFailed, TaskSucceeded, Transient
from ozzie_server_ext.domain.ids import ReplyId, SessionId, TaskId
from ozzie_server_ext.store.log import EventLog


@dataclass(slots=True)
class OpenReply:
    """A reply between its first delta and its `message.completed`. Offsets count characters of its whole text."""

    reply_id: ReplyId
    session_id: SessionId | None
    task_id: TaskId | None
    length: int = 0
    phase: str = ""
    was_reset: bool = False
    _pieces: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def add(self, offset: int, phase: str, content: str) -> None:
        """Take a delta; one that overlaps what is known replaces it from its offset on."""
        if offset < self.length:
            self._pieces = [self.text[:offset]]
        self._pieces.append(content)
        self.length = offset + len(content)
        self.phase = phase

    def reset(self) -> None:
        self._pieces.clear()
        self.length = 0
        self.was_reset = True

    def so_far(self) -> Iterator[Transient]:
        """What brings somebody up to date who may have seen nothing of the reply, or some of it."""
        if self.was_reset:
            yield Transient(
                type="reply.reset",
                session_id=self.session_id,
                task_id=self.task_id,
                payload={"reply_id": self.reply_id},
            )
        if self.length:
            yield Transient(
                type="reply.delta",
                session_id=self.session_id,
                task_id=self.task_id,
                payload={"reply_id": self.reply_id, "offset": 0, "phase": self.phase, "content": self.text},
            )


class OpenReplies:
    """Follows deltas and facts, and so knows the replies that are being written."""

    def __init__(self) -> None:
        self._open: dict[ReplyId, OpenReply] = {}

    def __iter__(self) -> Iterator[OpenReply]:
        return iter(self._open.values())

    def heard(self, transient: Transient) -> None:
        """Take a delta or a reset; other transients have no memory.

        Raises Bug for a delta that leaves a gap: whoever sends it lost text.
        """
        if transient.type not in {"reply.delta", "reply.reset"}:
            return
        payload = transient.payload
        reply_id = ReplyId(cast(str, payload["reply_id"]))
        reply = self._open.get(reply_id) or OpenReply(reply_id, transient.session_id, transient.task_id)
        if transient.type == "reply.reset":
            reply.reset()
        else:
            offset = cast(int, payload["offset"])
            if not 0 <= offset <= reply.length:
                raise Bug(f"A delta of reply {reply_id} starts at {offset}; {reply.length} characters are known.")
            reply.add(offset, cast(str, payload["phase"]), cast(str, payload["content"]))
        self._open[reply_id] = reply

    def recorded(self, events: Sequence[Event]) -> None:
        """Let go of the replies that these facts end: their own completion, or the end of their task."""
        for event in events:
            match event.body:
                case MessageCompleted(reply_id=reply_id):
                    self._open.pop(reply_id, None)
                case TaskSucceeded() | TaskFailed() | TaskCancelled():
                    over = [reply.reply_id for reply in self if reply.task_id == event.task_id]
                    for reply_id in over:
                        del self._open[reply_id]
                case _:
                    pass


class HeldText:
    """Deltas that wait to be handed over, those of one reply joined."""

    def __init__(self) -> None:
        self._first: dict[str, Transient] = {}
        self._contents: dict[str, list[str]] = {}
        self._ends: dict[str, int] = {}

    def add(self, delta: Transient) -> bool:
        """Put `delta` behind what is held of its reply; False where it does not go on there, and is not taken."""
        payload = delta.payload
        reply_id, offset = cast(str, payload["reply_id"]), cast(int, payload["offset"])
        content = cast(str, payload["content"])
        if reply_id not in self._first:
            self._first[reply_id] = delta
            self._contents[reply_id] = []
        elif offset != self._ends[reply_id]:
            return False
        self._contents[reply_id].append(content)
        self._ends[reply_id] = offset + len(content)
        return True

    def take(self) -> tuple[Transient, ...]:
        """One delta for each reply; nothing is held afterwards."""
        found = tuple(
            replace(first, payload={**first.payload, "content": "".join(self._contents[reply_id])})
            for reply_id, first in self._first.items()
        )
        self._first.clear()
        self._contents.clear()
        self._ends.clear()
        return found


_PAGE = 256
"""Events read from the log at a time by a subscriber that is behind."""

RING_BYTES = 16 << 20
BUFFER_BYTES = 4 << 20
"""What one subscriber has waiting, at most, and one item more."""
_BESIDE_THE_BODY = 512
"""About what an event has in bytes beside its body."""

INTERVAL_S = 0.05
"""How long text that goes on is gathered, in one rhythm for all replies: so every subscriber gets the
same few items, however fast a model writes."""

Item = Event | Transient

_encode = msgspec.json.Encoder().encode


def weight(item: Item) -> int:
    """About how many bytes it stands for."""
    if isinstance(item, Event):
        return _BESIDE_THE_BODY + len(_encode(item.body))
    return _BESIDE_THE_BODY + len(str(item.payload.get("content", "")))


class Feed:
    """Follows one log, and adds what is too fleeting for it.

    Durable events come from the log; `ring` recent ones are kept so that few subscribers have to read it. A
    subscriber that falls `buffer` items behind goes back to reading the log: nobody waits for it, it misses no
    event, and of the replies still being written it gets the text so far again. It may miss other transients. Both
    hold a number of bytes too: tools may answer with much.
    """

    def __init__(
        self,
        log: EventLog,
        *,
        ring: int = 2048,
        ring_bytes: int = RING_BYTES,
        buffer: int = 1024,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._log = log
        self._buffer = buffer
        self._buffer_bytes = buffer_bytes
        self._ring: deque[tuple[Event, int]] = deque()
        self._ring_length = ring
        self._ring_bytes = ring_bytes
        self._held_bytes = 0
        self._position = 0
        self._hearing: list[Callable[[Transient], None]] = []
        self._replies = OpenReplies()
        self._held = HeldText()
        self._releasing: asyncio.TimerHandle | None = None
        self._subscriptions: weakref.WeakSet[Subscription] = weakref.WeakSet()
        log.on_commit(self._committed)

    @property
    def open_replies(self) -> OpenReplies:
        return self._replies

    @property
    def subscribers(self) -> int:
        """How many subscriptions are open."""
        return len(self._subscriptions)

    @property
    def held_bytes(self) -> int:
        """About how many bytes of events are kept for subscribers."""
        return self._held_bytes

    def subscribe(
        self,
        from_position: int,
        *,
        types: frozenset[str] | None = None,
        session_id: SessionId | None = None,
        task_id: TaskId | None = None,
        on_news: Callable[[], None] = lambda: None,
    ) -> "Subscription":
        """All events with a position above `from_position`, then transients too, among them the text so far of
        every reply that is being written.

        0 is the whole log; the head's position is only what is new. `types` names events and transients alike.
        `on_news` is called when there is something to `take` again.

        Close the subscription to end it. Its first item is InputError where the log does not reach so far.
        """
        if from_position < 0:
            raise InputError("A position can't be negative.")

        def wanted(item: Item) -> bool:
            return (
                (types is None or item.type in types)
                and (session_id is None or item.session_id == session_id)
                and (task_id is None or item.task_id == task_id)
            )

        async def read(after: int) -> tuple[Event, ...]:
            return await self._log.read(
                after=after,
                limit=_PAGE,
                types=types,
                session_id=session_id,
                task_id=task_id,
                most_bytes=self._buffer_bytes // 2,
            )

        subscription = Subscription(self, from_position, wanted, read, self._buffer, self._buffer_bytes, on_news)
        self._subscriptions.add(subscription)
        return subscription

    def publish(self, transient: Transient) -> None:
        """Show `transient` to whoever follows. `reply.delta` has the payload {reply_id, offset, phase, content},
        where `offset` counts the characters of the reply before it; `reply.reset` has {reply_id}.

        The first delta of a reply goes out at once, as everything else does; further ones within INTERVAL_S, joined.
        Raises Bug for a delta that leaves a gap.
        """
        self._replies.heard(transient)
        for hear in self._hearing:
            hear(transient)
        if transient.type == "reply.delta" and transient.payload["offset"] != 0:
            self._hold(transient)
        else:
            self.release()
            self._push((transient,))

    def on_publish(self, hear: Callable[[Transient], None]) -> None:
        """Have `hear` told of all that is published, at once and as it comes."""
        self._hearing.append(hear)

    def close(self) -> None:
        """End all subscriptions."""
        self.release()
        for subscription in list(self._subscriptions):
            subscription.close()

    async def position(self) -> int:
        """The position of the last event that subscribers could have heard of."""
        head = await self._log.head()
        self._position = max(self._position, head.position)
        return self._position

    def recent(self, after: int) -> list[tuple[Event, int]] | None:
        """All events above `after` up to the last published one, each with its weight; None where they have to be read
        from the log."""
        if after == self._position:
            return []
        if not self._ring or self._ring[0][0].position > after + 1:
            return None
        return list(islice(self._ring, len(self._ring) - (self._position - after), None))

    def leave(self, subscription: "Subscription") -> None:
        self._subscriptions.discard(subscription)

    def _committed(self, events: tuple[Event, ...]) -> None:
        weighed = [(event, weight(event)) for event in events]
        self._ring.extend(weighed)
        self._held_bytes += sum(each for _, each in weighed)
        while len(self._ring) > self._ring_length or self._held_bytes > self._ring_bytes:
            self._held_bytes -= self._ring.popleft()[1]
        self._position = events[-1].position
        self._replies.recorded(events)
        self.release()
        self._push_weighed(weighed)

    def release(self) -> None:
        """Hand over the text that is held: what comes now comes behind it."""
        if self._releasing is not None:
            self._releasing.cancel()
            self._releasing = None
            self._push(self._held.take())

    def _hold(self, delta: Transient) -> None:
        if not self._held.add(delta):
            self.release()
            self._held.add(delta)
        if self._releasing is None:
            loop = asyncio.get_running_loop()
            beat = (loop.time() // INTERVAL_S + 1) * INTERVAL_S
            self._releasing = loop.call_at(beat, self.release)

    def _push(self, items: Sequence[Item]) -> None:
        self._push_weighed([(item, weight(item)) for item in items])

    def _push_weighed(self, weighed: Sequence[tuple[Item, int]]) -> None:
        for subscription in list(self._subscriptions):
            for item, each in weighed:
                subscription.push(item, each)


class Subscription:
    """One subscriber's view of the feed: an async iterator for one reader, or what is there for one that is told of
    news."""

    def __init__(
        self,
        feed: Feed,
        position: int,
        wanted: Callable[[Item], bool],
        read: Callable[[int], Awaitable[tuple[Event, ...]]],
        buffer: int,
        buffer_bytes: int,
        on_news: Callable[[], None],
    ) -> None:
        self._feed = feed
        self._seen = position  # of every event up to here it is settled: delivered, queued or not wanted
        self._wanted = wanted
        self._read = read
        self._buffer = buffer
        self._buffer_bytes = buffer_bytes
        self._queue: deque[tuple[Item, int]] = deque()
        self._held_bytes = 0
        self._behind = True
        self._closed = False
        self._news = asyncio.Event()
        self._on_news = on_news

    @property
    def held_bytes(self) -> int:
        """About how many bytes wait to be taken."""
        return self._held_bytes

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        if not await self._ready():
            raise StopAsyncIteration
        return self._next()

    async def take(self, limit: int) -> list[Item]:
        """What is there now, at most `limit` items. Reads the log where it is behind, and waits for nothing new."""
        while self._behind and not self._queue and not self._closed:
            await self._catch_up()
        found = [self._next() for _ in range(min(limit, len(self._queue)))]
        if (self._queue or self._behind) and not self._closed:
            self._on_news()
        return found

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        """End it; a reader that waits gets StopAsyncIteration."""
        self._closed = True
        self._queue.clear()
        self._held_bytes = 0
        self._news.set()
        self._feed.leave(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def push(self, item: Item, weighs: int) -> None:
        """Hand over something new; for the feed alone."""
        if self._behind:
            return
        if self._is_full and self._wanted(item):
            # What is durable can be read again later; of the rest, replies are brought up to date then.
            self._queue = deque(queued for queued in self._queue if isinstance(queued[0], Event))
            self._held_bytes = sum(each for _, each in self._queue)
            self._behind = True
            return
        if isinstance(item, Event):
            self._seen = item.position
        if self._wanted(item):
            self._add(item, weighs)
            self._news.set()
            self._on_news()

    @property
    def _is_full(self) -> bool:
        return len(self._queue) >= self._buffer or self._held_bytes >= self._buffer_bytes

    def _add(self, item: Item, weighs: int) -> None:
        self._queue.append((item, weighs))
        self._held_bytes += weighs

    def _next(self) -> Item:
        item, weighs = self._queue.popleft()
        self._held_bytes -= weighs
        return item

    async def _ready(self) -> bool:
        """Wait until something is in the queue; False once closed."""
        while not self._queue:
            if self._closed:
                return False
            if self._behind:
                await self._catch_up()
            else:
                self._news.clear()
                await self._news.wait()
        return True

    async def _catch_up(self) -> None:
        """Queue what was missed: the next page from the log, or all the rest, and then follow."""
        end = await self._feed.position()
        if self._seen > end:
            raise InputError(f"Position {self._seen} is not in the log, which ends at {end}.", hint="Start from 0.")
        recent = self._feed.recent(self._seen)
        if recent is None:
            page = [event for event in await self._read(self._seen) if event.position <= end]
            if not self._closed:
                for event in page:
                    self._add(event, weight(event))
                # A page may end early for its bytes: only an empty one says that there is no more of what is wanted.
                self._seen = page[-1].position if page else end
            return
        for event, weighs in recent:
            if self._is_full:
                return
            if self._wanted(event):
                self._add(event, weighs)
            self._seen = event.position
        self._seen = end
        self._feed.release()  # the text so far holds it already
        for reply in self._feed.open_replies:
            for item in reply.so_far():
                if self._wanted(item):
                    self._add(item, weight(item))
        self._behind = False
