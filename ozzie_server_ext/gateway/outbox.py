"""What one WebSocket client still gets (DESIGN §2.15)."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.protocol.frames import encode_frame, event_frame
from ozzie_server_ext.store.feed import Item, Subscription

MAX_READY = 256
"""Frames that wait beside the feeds; who adds more waits too."""
MAX_ITEMS = 512
"""Items of one feed that are sent in one go."""
ENOUGH_CHARACTERS = 1 << 20
"""Of one message: clients refuse what is much larger, and it lies here until they take it. A single frame may be."""
CACHED_CHARACTERS = 4 << 20


class FrameCache:
    """The texts of frames that went out lately: what goes to many clients is encoded once."""

    def __init__(self, budget: int = CACHED_CHARACTERS) -> None:
        self._budget = budget
        self._size = 0
        # By identity: all who follow get the same objects. Each is kept with its text, so that its id stays its own.
        self._texts: OrderedDict[int, tuple[Item, str]] = OrderedDict()

    def text(self, item: Item) -> str:
        """The frame of `item`."""
        found = self._texts.get(id(item))
        if found is not None:
            return found[1]
        text = encode_frame(event_frame(item))
        self._texts[id(item)] = (item, text)
        self._size += len(text)
        while self._size > self._budget:
            self._size -= len(self._texts.popitem(last=False)[1][1])
        return text


_cache = FrameCache()


@dataclass(slots=True, eq=False)
class Followed:
    """A feed that goes to the client; behind an item that is `last`, it ends (None: it goes on)."""

    subscription: Subscription
    last: Callable[[Item], bool] | None
    on_end: Callable[[], None]


class Outbox:
    """Sends in order. `send` writes one message and returns when the socket has taken it; while a client does not
    read, its feeds fall behind and later read on from the log, and nobody waits for it."""

    def __init__(self, send: Callable[[str], Awaitable[None]]) -> None:
        self._send = send
        self._ready: list[str] = []
        self._feeds: list[Followed] = []
        self._room = asyncio.Event()
        self._room.set()
        self._news = asyncio.Event()
        self._closed = False

    async def put(self, text: str) -> None:
        """Send a ready frame; waits while the client is far behind. Once closed, it is dropped."""
        await self._room.wait()
        if self._closed:
            return
        self._ready.append(text)
        if len(self._ready) >= MAX_READY:
            self._room.clear()
        self.notice()

    def follow(self, followed: Followed) -> None:
        """Send what the feed brings, from now on."""
        self._feeds.append(followed)
        self.notice()

    def unfollow(self, followed: Followed) -> None:
        """Send nothing more of it, also of what it has brought already; `on_end` is called."""
        if followed in self._feeds:
            self._feeds.remove(followed)
            followed.subscription.close()
            followed.on_end()

    def close(self) -> None:
        """End all feeds, and let go of who waits to send something."""
        self._closed = True
        self._room.set()
        for followed in list(self._feeds):
            self.unfollow(followed)

    def notice(self) -> None:
        """There is something to send; for the feeds."""
        self._news.set()

    async def run(self) -> None:
        """Send until cancelled. Raises what `send` raises, and OzzieError where a feed breaks."""
        while True:
            await self._news.wait()
            self._news.clear()
            texts, self._ready = self._ready, []
            self._room.set()
            try:
                for followed in list(self._feeds):
                    await self._gather(followed, texts)
                    if _size(texts) >= ENOUGH_CHARACTERS:  # what else there is waits in its feed
                        await self._send_all(texts)
                        texts = []
            except OzzieError:
                await self._send_all(texts)  # what was ready before the feed broke
                raise
            await self._send_all(texts)

    async def _send_all(self, texts: list[str]) -> None:
        begin = size = 0
        for end, text in enumerate(texts, start=1):
            size += len(text)
            if size >= ENOUGH_CHARACTERS or end == len(texts):
                part = texts[begin:end]
                await self._send(part[0] if len(part) == 1 else f"[{','.join(part)}]")
                begin, size = end, 0

    async def _gather(self, followed: Followed, texts: list[str]) -> None:
        """Add frames of what is there now, as many as are enough for a message."""
        size = 0
        for _ in range(MAX_ITEMS):
            items = await followed.subscription.take(1)
            if not items or followed not in self._feeds:  # ended while it read
                return
            text = _cache.text(items[0])
            texts.append(text)
            if followed.last is not None and followed.last(items[0]):
                self.unfollow(followed)
                return
            size += len(text)
            if size >= ENOUGH_CHARACTERS:
                return


def _size(texts: list[str]) -> int:
    return sum(map(len, texts))
