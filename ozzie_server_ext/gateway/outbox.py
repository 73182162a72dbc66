"""Sends one client's frames in order: answers as they come, and its feeds as fast as the client reads."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import msgspec

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.protocol.frames import encode_frame, event_frame
from ozzie_server_ext.store.feed import Item, Subscription

MAX_READY = 256
"""Frames that wait beside the feeds; further senders wait."""
MAX_ITEMS = 512
"""Items of one feed per message."""
ENOUGH_CHARACTERS = 1 << 20
"""Size of a message. Clients refuse much larger ones, and it stays in memory until they read it. One frame may be
larger."""
CACHED_CHARACTERS = 4 << 20


class FrameCache:
    """The encoded frames of recent items: an item that goes to many clients is encoded once."""

    def __init__(self, budget: int = CACHED_CHARACTERS) -> None:
        self._budget = budget
        self._size = 0
        # By identity: all followers get the same objects. The item is kept, so that its id stays unique.
        self._texts: OrderedDict[int, tuple[Item, str]] = OrderedDict()

    def text(self, item: Item) -> str:
        """Return the encoded frame of `item`."""
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


class Followed(msgspec.Struct, eq=False):
    """A feed that goes to the client. It ends after an item for which `last` is true (None: it never ends)."""

    subscription: Subscription
    last: Callable[[Item], bool] | None
    on_end: Callable[[], None]


class Outbox:
    """Sends frames in order. `send` writes one message and returns once the socket has taken it. If a client doesn't
    read, its feeds fall behind and later catch up from the log; nobody waits for it."""

    def __init__(self, send: Callable[[str], Awaitable[None]]) -> None:
        self._send = send
        self._ready: list[str] = []
        self._feeds: list[Followed] = []
        self._room = asyncio.Event()
        self._room.set()
        self._news = asyncio.Event()
        self._closed = False

    async def put(self, text: str) -> None:
        """Queue an encoded frame; wait while the client is far behind. After `close` it is dropped."""
        await self._room.wait()
        if self._closed:
            return
        self._ready.append(text)
        if len(self._ready) >= MAX_READY:
            self._room.clear()
        self.notice()

    def follow(self, followed: Followed) -> None:
        """Send this feed from now on."""
        self._feeds.append(followed)
        self.notice()

    def unfollow(self, followed: Followed) -> None:
        """Stop a feed, drop what it has queued, and call its `on_end`."""
        if followed in self._feeds:
            self._feeds.remove(followed)
            followed.subscription.close()
            followed.on_end()

    def close(self) -> None:
        """End all feeds and release waiting senders."""
        self._closed = True
        self._room.set()
        for followed in list(self._feeds):
            self.unfollow(followed)

    def notice(self) -> None:
        """Wake the sender; feeds call this."""
        self._news.set()

    async def run(self) -> None:
        """Send until cancelled. Raises what `send` raises, and OzzieError if a feed breaks."""
        while True:
            await self._news.wait()
            self._news.clear()
            texts, self._ready = self._ready, []
            self._room.set()
            try:
                for followed in list(self._feeds):
                    await self._gather(followed, texts)
                    if _size(texts) >= ENOUGH_CHARACTERS:  # the rest waits in its feed
                        await self._send_all(texts)
                        texts = []
            except OzzieError:
                await self._send_all(texts)  # the frames from before the feed broke
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
        """Add the frames that are there now, up to the size of one message."""
        size = 0
        for _ in range(MAX_ITEMS):
            items = await followed.subscription.take(1)
            if not items or followed not in self._feeds:  # it ended during the read
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
