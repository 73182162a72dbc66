"""A child process of the gateway: its NDJSON connection, its heartbeats and its end, whatever its work is."""

import argparse
import asyncio
import contextlib
import os
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.planes.child import become_child
from ozzie_server_ext.protocol.ndjson import (
    MAX_LINE_TO_GATEWAY,
    MAX_LINE_TO_WORKER,
    LineDecoder,
    LineTooLong,
    decode_line,
    encode_line,
)

NICE = 10
HEARTBEAT_S = 1.0
"""Heartbeats report how busy this process is; a gateway that has to start another should learn it soon."""
CANCEL_WAIT_S = 1.0


def note(line: str) -> None:
    """Write one line to the process's log."""
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {line}\n")
    sys.stderr.flush()


class PlaneChild(asyncio.Protocol, ABC):
    """Serves one connection until it ends. A subclass handles messages, and says when it is ready."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.ended = asyncio.Event()
        """Set at the end of the connection, or to end this process."""
        self.writable = asyncio.Event()
        self.writable.set()
        self._decoder = LineDecoder(max_line=MAX_LINE_TO_WORKER)
        self._transport: asyncio.Transport | None = None

    # --- for subclasses -------------------------------------------------------------------------------------------

    @abstractmethod
    async def prepare(self) -> None:
        """Load what the work needs, then call `send_ready`."""

    @abstractmethod
    def handle(self, message: JsonObject | str) -> None:
        """Handle a message; a line that is no JSON object comes as text."""

    @abstractmethod
    def calls(self) -> Iterable[asyncio.Task[None]]:
        """Return what is running, to be cancelled at the end."""

    @abstractmethod
    def too_long(self, message: JsonObject, error: LineTooLong) -> JsonObject:
        """Return what is sent in place of a message that is too long for a line."""

    # --- the connection -------------------------------------------------------------------------------------------

    async def serve(self, end: socket.socket) -> None:
        """Serve `end` until the other side closes it; then cancel every call."""
        await self.loop.create_connection(lambda: self, sock=end)
        heartbeat = asyncio.create_task(self._heartbeat())
        preparing = asyncio.create_task(self.prepare())
        await self.ended.wait()
        tasks = [heartbeat, preparing, *self.calls()]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=CANCEL_WAIT_S)

    def send_ready(self, **facts: Any) -> None:
        """Tell the gateway that calls may come."""
        self.send({"type": "ready", "pid": os.getpid(), **facts})

    def send(self, message: JsonObject) -> None:
        """Send a message, without waiting; after the end of the connection, nothing."""
        if self._transport is None or self._transport.is_closing():
            return
        try:
            line = encode_line(message, max_line=MAX_LINE_TO_GATEWAY)
        except LineTooLong as error:
            line = encode_line(self.too_long(message, error))
        self._transport.write(line)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            lines = self._decoder.feed(data)
        except LineTooLong as error:
            self.send({"ok": False, "error": str(error)})
            self.ended.set()
            return
        for line in lines:
            self.handle(decode_line(line, max_line=MAX_LINE_TO_WORKER))

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()

    async def _heartbeat(self) -> None:
        self.send({"type": "heartbeat"})
        while True:
            since, used = time.monotonic(), time.process_time()
            await asyncio.sleep(HEARTBEAT_S)
            share = (time.process_time() - used) / (time.monotonic() - since)
            self.send({"type": "heartbeat", "cpu": round(share, 3)})


def run_child(make: Callable[[], PlaneChild], about: str | None, *, prepare_process: Callable[[], None]) -> None:
    """Run until the gateway closes the connection, then leave at once: libraries' threads and exit handlers would delay
    that by seconds, and do nothing we need. `prepare_process` is called before anything is loaded."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--fd", type=int, required=True, help="our end of a connected stream socket")
    parser.add_argument("--parent", type=int, required=True, help="the process that started this one")
    args = parser.parse_args()
    become_child(args.parent, nice=NICE)
    prepare_process()
    asyncio.new_event_loop().run_until_complete(_serve(make, args.fd))
    os._exit(0)


async def _serve(make: Callable[[], PlaneChild], fd: int) -> None:
    def failed(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        note(f"A task failed: {type(context.get('exception')).__name__}.")

    asyncio.get_running_loop().set_exception_handler(failed)
    with contextlib.closing(socket.socket(fileno=fd)) as end:
        end.setblocking(False)
        await make().serve(end)
