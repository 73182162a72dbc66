"""What one WebSocket client still gets: deltas gathered for 50 ms, everything else at once (DESIGN §2.15)."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace

from ozzie_server_ext.domain.events import Event, Transient
from ozzie_server_ext.protocol.frames import encode_frame, event_frame

INTERVAL_S = 0.05
MAX_PENDING = 256
_CACHED = 1024

_encoded: OrderedDict[str, str] = OrderedDict()


def frame_text(item: Event | Transient) -> str:
    """The item's frame as text. A recorded event is encoded once for all clients."""
    if isinstance(item, Transient):
        return encode_frame(event_frame(item))
    found = _encoded.get(item.event_id)
    if found is None:
        found = _encoded[item.event_id] = encode_frame(event_frame(item))
        if len(_encoded) > _CACHED:
            _encoded.popitem(last=False)
    return found


class Outbox:
    """Sends in order. `send` writes one message and returns when the socket has taken it; a client that does not
    read so holds up only its own feed, which then reads on from the log."""

    def __init__(self, send: Callable[[str], Awaitable[None]]) -> None:
        self._send = send
        self._pending: list[Event | Transient | str] = []
        self._wake = asyncio.Event()
        self._urgent = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def put(self, item: Event | Transient | str) -> None:
        """Add an event, or the text of a ready frame; waits while the client is far behind."""
        await self._room.wait()
        if not (_goes_on(item) and self._merge(item)):
            self._pending.append(item)
        if not _goes_on(item):
            self._urgent.set()
        if len(self._pending) >= MAX_PENDING:
            self._room.clear()
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled, or until `send` raises."""
        while True:
            await self._wake.wait()
            pending, self._pending = self._pending, []
            self._wake.clear()
            self._urgent.clear()
            self._room.set()
            texts = [item if isinstance(item, str) else frame_text(item) for item in pending]
            await self._send(texts[0] if len(texts) == 1 else f"[{','.join(texts)}]")
            try:
                async with asyncio.timeout(INTERVAL_S):
                    await self._urgent.wait()
            except TimeoutError:
                pass

    def _merge(self, item: Event | Transient | str) -> bool:
        """Put a delta behind the one that it continues, if that is still here."""
        last = self._pending[-1] if self._pending else None
        if not isinstance(item, Transient) or not isinstance(last, Transient) or last.type != "reply.delta":
            return False
        before, content = last.payload, str(last.payload["content"])
        if before["reply_id"] != item.payload["reply_id"]:
            return False
        if int(str(before["offset"])) + len(content) != item.payload["offset"]:
            return False
        self._pending[-1] = replace(last, payload={**before, "content": content + str(item.payload["content"])})
        return True


def _goes_on(item: Event | Transient | str) -> bool:
    """Whether the item is text that may wait a moment: a delta, but not the first of its reply."""
    return isinstance(item, Transient) and item.type == "reply.delta" and item.payload["offset"] != 0
