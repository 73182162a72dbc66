"""Sees every event of a home's gateways as it happens, whichever gateway it is, and acts in that very moment."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClosedError, websocket_connect

from ozzie_server_ext.protocol.frames import EventFrame, Request, decode_frames, encode_frame
from ozzie_server_ext.protocol.handshake import Handshake
from tests.rig import GatewayHome

POLL_S = 0.02
BEGIN = "message.received"
ENDS = frozenset({"task.succeeded", "task.failed", "task.cancelled"})


@dataclass(frozen=True)
class Seen:
    """An event, and how many of its name its task had shown before it."""

    name: str
    session_id: str
    task_id: str
    before: int
    payload: dict[str, Any]


class Watcher:
    """Follows the feed in a thread of its own. `on_event` is called there, with no time lost; what it raises ends the
    thread, and the next `wait_for` with it."""

    def __init__(self, home: GatewayHome) -> None:
        self._home = home
        self._position = 0
        self._counts: dict[tuple[str, str], int] = {}
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._following: asyncio.Task[None] | None = None
        self._connected_to = 0
        self.seen: list[Seen] = []
        self.on_event: Callable[[Seen], None] = lambda seen: None
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._following is not None:
            self._loop.call_soon_threadsafe(self._following.cancel)
        self._thread.join(20)

    def wait_for(self, condition: Callable[["Watcher"], bool], seconds: float, what: str) -> None:
        """Block until `condition` holds, which is looked at after each event. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self) or not self._thread.is_alive(), seconds):
                raise TimeoutError(f"not seen in {seconds:g} s: {what}")
        assert self._thread.is_alive(), "the watcher has broken"

    def wait_connected(self, pid: int, seconds: float) -> None:
        """Block until the feed of the gateway with that process is followed."""
        self.wait_for(lambda watcher: watcher._connected_to == pid, seconds, f"a connection to gateway {pid}")

    def task(self, text: str) -> Seen | None:
        """The event with which the task of this message began."""
        return next((item for item in self.seen if item.name == BEGIN and item.payload.get("text") == text), None)

    def ended(self, task_id: str) -> str:
        """The name of the event that ended the task; empty while none has."""
        ends = [item.name for item in self.seen if item.task_id == task_id and item.name in ENDS]
        return ends[-1] if ends else ""

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner, suppress(asyncio.CancelledError):
            runner.run(self._follow_all())

    async def _follow_all(self) -> None:
        self._following = asyncio.current_task()
        while True:
            handshake = self._home.handshake()
            if handshake is not None:
                with suppress(OSError, HTTPClientError, TimeoutError, WebSocketClosedError):
                    await self._follow(handshake)
                self._note_connection(0)
            await asyncio.sleep(POLL_S)

    async def _follow(self, handshake: Handshake) -> None:
        """Until its gateway is gone."""
        url = f"ws{handshake.url.removeprefix('http')}ozzie/api/ws"
        headers = {"Authorization": f"token {handshake.token}"}
        connection = await websocket_connect(HTTPRequest(url, headers=headers, connect_timeout=5))
        try:
            subscribe = Request(id="1", method="feed.subscribe", params={"from_position": self._position})
            await connection.write_message(encode_frame(subscribe))
            self._note_connection(handshake.pid)
            while (message := await connection.read_message()) is not None:
                for frame in decode_frames(message):
                    if isinstance(frame, EventFrame):
                        self._take(frame)
        finally:
            connection.close()

    def _take(self, frame: EventFrame) -> None:
        if frame.position is not None:
            self._position = frame.position
        key = (frame.task_id or "", frame.canonical)
        task_id, session_id = frame.task_id or "", frame.session_id or ""
        seen = Seen(frame.canonical, session_id, task_id, self._counts.get(key, 0), dict(frame.payload))
        self._counts[key] = seen.before + 1
        self.on_event(seen)
        with self._changed:
            self.seen.append(seen)
            self._changed.notify_all()

    def _note_connection(self, pid: int) -> None:
        with self._changed:
            self._connected_to = pid
            self._changed.notify_all()
