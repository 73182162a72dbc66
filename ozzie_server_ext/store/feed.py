"""Sends subscribers all events after a position, then live ones and live text, without gaps or duplicates."""

import asyncio
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from types import TracebackType
from typing import Literal, Self, cast

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.errors import Bug, Gone, InputError
from ozzie_server_ext.domain.events import (
    Event,
    MessageCompleted,
    MessageErased,
    SessionErased,
    TaskCancelled,
    TaskFailed,
    TaskSucceeded,
    Transient,
)
from ozzie_server_ext.domain.ids import ReplyId, SessionId, TaskId, task_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.store.log import EventLog


class OpenReply(msgspec.Struct):
    """A reply between its first delta and its `message.completed`. Offsets count characters of the whole text."""

    reply_id: ReplyId
    session_id: SessionId | None
    task_id: TaskId | None
    length: int = 0
    phase: str = ""
    was_reset: bool = False
    _pieces: list[str] = msgspec.field(default_factory=list[str])

    @property
    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def add(self, offset: int, phase: str, content: str) -> None:
        """Append a delta; one that overlaps replaces the known text from its offset on."""
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
        """Yield what brings a subscriber up to date that has seen nothing, or only a part, of the reply."""
        if self.was_reset:
            yield self._transient("reply.reset")
        if self.length:
            yield self._transient("reply.delta", offset=0, phase=self.phase, content=self.text)

    def _transient(self, kind: Literal["reply.reset", "reply.delta"], **payload: Json) -> Transient:
        payload = {"reply_id": self.reply_id, **payload}
        return Transient(type=kind, session_id=self.session_id, task_id=self.task_id, payload=payload)


class OpenReplies:
    """Tracks the replies that are being written, from deltas and facts."""

    def __init__(self) -> None:
        self._open: dict[ReplyId, OpenReply] = {}

    def __iter__(self) -> Iterator[OpenReply]:
        return iter(self._open.values())

    def follow(self, transient: Transient) -> None:
        """Take a delta or a reset; ignore other transients. Raises Bug for a delta that leaves a gap: text was lost."""
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
        """Drop the replies that these facts end: by their completion, or by the end of their task."""
        if not self._open:
            return
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


class DeltaBuffer:
    """Deltas that wait to be sent, joined by reply."""

    def __init__(self) -> None:
        self._first: dict[str, Transient] = {}
        self._contents: dict[str, list[str]] = {}
        self._ends: dict[str, int] = {}

    def add(self, delta: Transient) -> bool:
        """Append `delta` to what waits of its reply; return False if it does not continue there."""
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
        """Return one delta for each reply, and empty the buffer."""
        found = tuple(
            replace(first, payload={**first.payload, "content": "".join(self._contents[reply_id])})
            for reply_id, first in self._first.items()
        )
        self._first.clear()
        self._contents.clear()
        self._ends.clear()
        return found


_PAGE = 256
"""Events that a lagging subscriber reads from the log at a time."""

RING_BYTES = 16 << 20
BUFFER_BYTES = 4 << 20
"""The most that waits for one subscriber, exceeded by one item at most."""
_BESIDE_THE_BODY = 512
"""About how many bytes an event has beside its body."""

INTERVAL_S = 0.05
"""How long deltas that follow others are gathered, in one rhythm for all replies, so that every subscriber gets few
items, however fast a model writes."""

Item = Event | Transient


def size_of(item: Item) -> int:
    """Return about how many bytes an item has."""
    if isinstance(item, Event):
        return _BESIDE_THE_BODY + item.body_bytes
    return _BESIDE_THE_BODY + sum(len(str(item.payload.get(name, ""))) for name in ("content", "lines"))


class Feed:
    """Publishes the events of one log, and transients, which are never logged.

    `ring` recent events are kept, so that few subscribers have to read the log. A subscriber that falls `buffer` items
    behind reads the log again: nobody waits for it, it misses no event, and it gets the text so far of replies still
    being written. It may miss other transients. Both limits also apply in bytes, as tools may return much.
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
        self._observers: list[Callable[[Transient], None]] = []
        self._replies = OpenReplies()
        self._deltas = DeltaBuffer()
        self._releasing: asyncio.TimerHandle | None = None
        self._subscriptions: weakref.WeakSet[Subscription] = weakref.WeakSet()
        log.on_commit(self._committed)

    @property
    def open_replies(self) -> OpenReplies:
        return self._replies

    @property
    def subscribers(self) -> int:
        """The number of open subscriptions."""
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
        """Return a subscription to all events above `from_position`, then to transients too, beginning with the text so
        far of every reply that is being written.

        0 is the whole log; the head's position is only what is new. `types` names events and transients alike.
        `on_news` is called when there is something to `take` again. Close the subscription to end it. Its first read
        raises InputError if the log does not reach as far as `from_position`; a read raises Gone if its task is erased.
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
            found = await self._log.read(
                after=after,
                limit=_PAGE,
                types=types,
                session_id=session_id,
                task_id=task_id,
                most_bytes=self._buffer_bytes // 2,
            )
            if not found and task_id is not None:
                await self.expect_not_erased(task_id)
            return found

        subscription = Subscription(
            self,
            from_position,
            wanted,
            read,
            self._buffer,
            self._buffer_bytes,
            on_news,
            follows_task=task_id is not None,
        )
        self._subscriptions.add(subscription)
        return subscription

    async def expect_not_erased(self, task_id: TaskId) -> None:
        """Raise Gone if the task was erased: whoever followed it would wait for an end that never comes."""
        if await self._log.rows("tasks", where={"task_id": task_id}, limit=1):
            return
        if await self._log.version(task_stream(task_id)) and not await self._log.read(task_id=task_id, limit=1):
            raise Gone("This turn was erased.")

    def publish(self, transient: Transient) -> None:
        """Send `transient` to subscribers. `reply.delta` has the payload {reply_id, offset, phase, content}, where
        `offset` counts the characters of the reply before it; `reply.reset` has {reply_id}.

        Everything is sent at once, but further deltas of a reply are joined within INTERVAL_S. Raises Bug for a delta
        that leaves a gap.
        """
        self._replies.follow(transient)
        for observe in self._observers:
            observe(transient)
        if transient.type == "reply.delta" and transient.payload["offset"] != 0:
            self._delay(transient)
        else:
            self.release()
            self._push((transient,))

    def on_publish(self, observe: Callable[[Transient], None]) -> None:
        """Call `observe` with each transient as it is published, without joining deltas."""
        self._observers.append(observe)

    def close(self) -> None:
        """End all subscriptions."""
        self.release()
        for subscription in list(self._subscriptions):
            subscription.close()

    async def position(self) -> int:
        """Return the position of the last event that subscribers could know of."""
        head = await self._log.head()
        self._position = max(self._position, head.position)
        return self._position

    def recent(self, after: int) -> list[tuple[Event, int]] | None:
        """Return all events above `after` with their sizes; None if they have to be read from the log."""
        if after == self._position:
            return []
        if not self._ring or self._ring[0][0].position > after + 1:
            return None
        return list(islice(self._ring, len(self._ring) - (self._position - after), None))

    def leave(self, subscription: "Subscription") -> None:
        self._subscriptions.discard(subscription)

    def _committed(self, events: tuple[Event, ...]) -> None:
        if any(isinstance(event.body, SessionErased | MessageErased) for event in events):
            self._forget()
        sized: list[tuple[Item, int]] = []
        for event in events:
            size = size_of(event)
            sized.append((event, size))
            self._ring.append((event, size))
            self._held_bytes += size
        while len(self._ring) > self._ring_length or self._held_bytes > self._ring_bytes:
            self._held_bytes -= self._ring.popleft()[1]
        self._position = events[-1].position
        self._replies.recorded(events)
        self.release()
        self._push_sized(sized)

    def _forget(self) -> None:
        """Drop all events that are kept or wait: some are erased. Subscribers read the others from the log again."""
        self._ring.clear()
        self._held_bytes = 0
        for subscription in list(self._subscriptions):
            subscription.read_again()

    def release(self) -> None:
        """Send the deltas that wait, before what comes next."""
        if self._releasing is not None:
            self._releasing.cancel()
            self._releasing = None
            self._push(self._deltas.take())

    def _delay(self, delta: Transient) -> None:
        if not self._deltas.add(delta):
            self.release()
            self._deltas.add(delta)
        if self._releasing is None:
            loop = asyncio.get_running_loop()
            beat = (loop.time() // INTERVAL_S + 1) * INTERVAL_S
            self._releasing = loop.call_at(beat, self.release)

    def _push(self, items: Sequence[Item]) -> None:
        self._push_sized([(item, size_of(item)) for item in items])

    def _push_sized(self, sized: Sequence[tuple[Item, int]]) -> None:
        for subscription in list(self._subscriptions):
            subscription.push(sized)


class Subscription:
    """One subscriber's view of the feed: an async iterator for one reader, or read with `take` after each `on_news`."""

    def __init__(
        self,
        feed: Feed,
        position: int,
        wanted: Callable[[Item], bool],
        read: Callable[[int], Awaitable[tuple[Event, ...]]],
        buffer: int,
        buffer_bytes: int,
        on_news: Callable[[], None],
        *,
        follows_task: bool,
    ) -> None:
        self._feed = feed
        self._follows_task = follows_task
        self._seen = position  # every event up to here was delivered, queued or not wanted
        self._wanted = wanted
        self._read = read
        self._buffer = buffer
        self._buffer_bytes = buffer_bytes
        self._queue: deque[tuple[Item, int]] = deque()
        self._held_bytes = 0
        self._behind = True
        self._restarts = 0
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
        """Return up to `limit` items that are there now. Reads the log if behind; does not wait for new ones."""
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

    def push(self, sized: Sequence[tuple[Item, int]]) -> None:
        """Deliver what is new, each with its size; only the feed calls this."""
        if self._behind:
            return
        is_news = False
        for item, size in sized:
            if self._wanted(item):
                if self._is_full:
                    self._fall_behind()
                    break
                self._add(item, size)
                is_news = True
            if isinstance(item, Event):
                self._seen = item.position
        if is_news:
            self._news.set()
            self._on_news()

    def read_again(self) -> None:
        """Drop what waits, and read it again from the log; only the feed calls this, after an erasure. A subscription
        to one task that is up to date keeps what waits: maybe the task's end, which the log has no more."""
        if self._follows_task and not self._behind:
            return
        first = next((item for item, _ in self._queue if isinstance(item, Event)), None)
        if first is not None:
            self._seen = first.position - 1
        self._queue.clear()
        self._held_bytes = 0
        self._behind = True
        self._restarts += 1
        self._news.set()
        self._on_news()

    def _fall_behind(self) -> None:
        """Events can be read later from the log, and replies are replayed then."""
        self._queue = deque(queued for queued in self._queue if isinstance(queued[0], Event))
        self._held_bytes = sum(queued for _, queued in self._queue)
        self._behind = True

    @property
    def _is_full(self) -> bool:
        return len(self._queue) >= self._buffer or self._held_bytes >= self._buffer_bytes

    def _add(self, item: Item, size: int) -> None:
        self._queue.append((item, size))
        self._held_bytes += size

    def _next(self) -> Item:
        item, size = self._queue.popleft()
        self._held_bytes -= size
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
        """Queue what was missed: the next page of the log, or all the rest, and then follow live."""
        end = await self._feed.position()
        if self._seen > end:
            raise InputError(f"Position {self._seen} is not in the log, which ends at {end}.", hint="Start from 0.")
        recent = self._feed.recent(self._seen)
        if recent is None:
            restarts = self._restarts
            page = [event for event in await self._read(self._seen) if event.position <= end]
            if not self._closed and restarts == self._restarts:
                for event in page:
                    self._add(event, size_of(event))
                # A page may end early at its byte limit: only an empty one means that there is no more.
                self._seen = page[-1].position if page else end
            return
        for event, size in recent:
            if self._is_full:
                return
            if self._wanted(event):
                self._add(event, size)
            self._seen = event.position
        self._seen = end
        self._feed.release()  # the texts so far contain these deltas already
        for reply in self._feed.open_replies:
            for item in reply.so_far():
                if self._wanted(item):
                    self._add(item, size_of(item))
        self._behind = False
