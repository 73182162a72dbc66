"""An NDJSON connection to a child process, which routes messages to their calls.

Backpressure: when a call's inbox exceeds 1 MiB, the channel stops reading. That also stops the other calls, so after
`stall_s` it gives up the call that nobody reads, and continues. A slow reader thus delays the others once, for a
bounded time, and readers that wait for each other can't deadlock.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.ndjson import LineDecoder, LineTooLong, decode_line, encode_line

INBOX_BYTES = 1 << 20
STALL_S = 5.0
ABORT_AGAIN_S = 1.0
ABORT_KILL_S = 3.0

OnEvent = Callable[[JsonObject | str], None]
OnLost = Callable[[str], None]


class ChannelLost(Unavailable):
    """The connection ended; outstanding messages will not come."""

    code = "plane.lost"


class CallDropped(Unavailable):
    """The channel gave the call up because its inbox stayed full."""

    code = "plane.dropped"


class Inbox:
    """Unread messages of one call, for one reader. Made by `Channel.open_call`."""

    def __init__(self, channel: "Channel", call_id: str, abort: JsonObject) -> None:
        self.call_id = call_id
        self.abort = abort
        self.ended = False
        self._channel = channel
        self._waiting: deque[tuple[JsonObject, int]] = deque()
        self._size = 0
        self._failure: Unavailable | None = None
        self._changed = asyncio.Event()

    @property
    def full(self) -> bool:
        return self._size > INBOX_BYTES

    async def get(self) -> JsonObject:
        """Return the next message. Raises ChannelLost or CallDropped after the last message was read."""
        while not self._waiting:
            if self._failure is not None:
                raise self._failure
            self._changed.clear()
            await self._changed.wait()
        message, size = self._waiting.popleft()
        was_full = self.full
        self._size -= size
        if was_full and not self.full:
            self._channel.make_room()
        return message

    def put(self, message: JsonObject, size: int) -> None:
        self._waiting.append((message, size))
        self._size += size
        self.ended = self.ended or _is_last(message)
        self._changed.set()

    def fail(self, failure: Unavailable) -> None:
        self._failure = self._failure or failure
        self._changed.set()


class Channel(asyncio.Protocol):
    """An open connection. `on_event` gets messages that belong to no call (ready, heartbeat); `on_lost` is called once,
    at the end.

    `kill` must end the other process at once: it is the last resort for a child that does not abort.
    """

    def __init__(self, *, on_event: OnEvent, on_lost: OnLost, kill: Callable[[], None], stall_s: float) -> None:
        self.heard_at = 0.0
        self._stall_s = stall_s
        self._on_event = on_event
        self._on_lost = on_lost
        self._kill = kill
        self._decoder = LineDecoder()
        self._inboxes: dict[str, Inbox] = {}
        self._aborting: dict[str, asyncio.Task[None]] = {}
        self._loop = asyncio.get_running_loop()
        self._stall: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport | None = None
        self._ended = ""

    @classmethod
    async def open(
        cls,
        end: socket.socket,
        *,
        on_event: OnEvent,
        on_lost: OnLost,
        kill: Callable[[], None],
        stall_s: float = STALL_S,
    ) -> "Channel":
        """Take over `end`, one side of a connected stream socket."""
        loop = asyncio.get_running_loop()
        channel = cls(on_event=on_event, on_lost=on_lost, kill=kill, stall_s=stall_s)
        await loop.create_connection(lambda: channel, sock=end)
        return channel

    @property
    def stalled(self) -> bool:
        """Whether it has stopped reading, so that silence says nothing about the child."""
        return self._stall is not None

    @property
    def is_open(self) -> bool:
        return not self._ended

    @property
    def open_calls(self) -> int:
        return len(self._inboxes)

    @property
    def aborting(self) -> int:
        """Number of aborted calls that have not ended yet."""
        return len(self._aborting)

    async def send(self, message: JsonObject) -> None:
        """Write `message`, waiting while the child does not read. Raises ChannelLost, LineTooLong, InvalidJson."""
        self.post(message)
        await self._writable.wait()
        self._check_open()

    def post(self, message: JsonObject) -> None:
        """Write `message` without waiting. Raises as `send` does."""
        self._check_open()
        assert self._transport is not None
        self._transport.write(encode_line(message))

    def open_call(self, call_id: str, *, start: JsonObject, abort: JsonObject) -> Inbox:
        """Send `start`, and route messages with this id to the returned inbox until `close_call`. `abort` is the
        message that stops the call.

        Raises ChannelLost, LineTooLong, InvalidJson; then nothing was sent and nothing is open.
        """
        self.post(start)
        inbox = self._inboxes[call_id] = Inbox(self, call_id, abort)
        return inbox

    def close_call(self, inbox: Inbox) -> None:
        """Stop reading a call; if it has not ended, tell the child to abort it.

        Returns at once. The abort is repeated after a second; after three seconds without an end, the child is killed.
        """
        if self._inboxes.get(inbox.call_id) is not inbox:
            return
        del self._inboxes[inbox.call_id]
        self.make_room()
        if not inbox.ended and not self._ended:
            task = self._loop.create_task(self._insist(inbox.abort))
            self._aborting[inbox.call_id] = task
            task.add_done_callback(lambda _: self._aborting.pop(inbox.call_id, None))

    def close(self) -> None:
        """Close our end; the child sees an end of file and exits."""
        self._end("Ozzie closed the connection.")

    def make_room(self) -> None:
        """Resume reading once no inbox is full."""
        if self._stall is not None and not any(inbox.full for inbox in self._inboxes.values()):
            self._stall.cancel()
            self._stall = None
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    # --- asyncio.Protocol ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.heard_at = self._loop.time()

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._loop.time()
        try:
            lines = self._decoder.feed(data)
        except LineTooLong as error:
            self._end(str(error))
            return
        for line in lines:
            self._route(decode_line(line), len(line))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"The connection broke: {exc}." if exc else "The process closed the connection.")

    def _route(self, message: JsonObject | str, size: int) -> None:
        if isinstance(message, str):
            self._on_event(message)
        elif message.get("type") == "tokens":
            texts = message.get("texts")
            for call_id, text in texts.items() if isinstance(texts, dict) else ():
                self._deliver(call_id, {"type": "token", "id": call_id, "text": text}, len(str(text)))
        elif isinstance(call_id := message.get("id"), str) and call_id:
            self._deliver(call_id, message, size)
        else:
            self._on_event(message)

    def _deliver(self, call_id: str, message: JsonObject, size: int) -> None:
        inbox = self._inboxes.get(call_id)
        if inbox is not None:
            inbox.put(message, size)
            if inbox.full and self._stall is None and self._transport is not None:
                self._transport.pause_reading()
                self._stall = self._loop.call_later(self._stall_s, self._give_up_full)
        elif _is_last(message) and call_id in self._aborting:
            self._aborting[call_id].cancel()

    def _give_up_full(self) -> None:
        for inbox in [inbox for inbox in self._inboxes.values() if inbox.full]:
            inbox.fail(CallDropped("The answer was not read in time.", hint="Run the cell again."))
            self.close_call(inbox)

    async def _insist(self, abort: JsonObject) -> None:
        self.post(abort)
        await asyncio.sleep(ABORT_AGAIN_S)
        self.post(abort)
        await asyncio.sleep(ABORT_KILL_S - ABORT_AGAIN_S)
        self._kill()

    def _check_open(self) -> None:
        if self._ended:
            raise ChannelLost(self._ended)

    def _end(self, reason: str) -> None:
        if self._ended:
            return
        self._ended = reason
        self._writable.set()
        if self._stall is not None:
            self._stall.cancel()
        for task in list(self._aborting.values()):
            task.cancel()
        for inbox in self._inboxes.values():
            inbox.fail(ChannelLost(reason))
        self._inboxes.clear()
        if self._transport is not None:
            self._transport.abort()
        self._on_lost(reason)


def _is_last(message: JsonObject) -> bool:
    """Return whether this is a call's last message: the end of an answer, or the response to a command."""
    return message.get("type") in ("stop", "error") or "ok" in message
