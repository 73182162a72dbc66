"""A process that owns a home and answers, or does not, as a test wants: it holds the lock and has a handshake."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketHandler

from ozzie_server_ext.gateway.leadership import OwnerLock
from ozzie_server_ext.protocol.handshake import VERSION, Handshake, handshake_path, write_handshake
from tests.rig import GatewayHome

TOKEN = "the-token-of-a-fake-owner-0123456789"
STUCK_S = 2.0
"""A message that is not taken for so long is not taken at all: its reader has stopped reading."""


@dataclass
class FakeOwner:
    """`answer` is what REST does; `sends` are the messages that each WebSocket gets, one after the other.

    `sent` counts those that were taken; `stuck` is set once one was not. `asked` holds what came; `came` and `left` are
    set when a client did.
    """

    answer: Callable[[RequestHandler], Awaitable[None]]
    sends: list[str] = field(default_factory=list[str])
    sent: int = 0
    stuck: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[RequestHandler] = field(default_factory=list[RequestHandler])
    came: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def fake_owner(home: GatewayHome, owner: FakeOwner, *, version: int = VERSION) -> AsyncIterator[FakeOwner]:
    """Own `home` with this process."""

    class Rest(RequestHandler):
        async def get(self) -> None:
            owner.asked.append(self)
            owner.came.set()
            await owner.answer(self)

        post = head = get

        def on_connection_close(self) -> None:
            owner.left.set()

    class Socket(WebSocketHandler):
        async def open(self, *args: str, **kwargs: str) -> None:
            self.sending = asyncio.create_task(self.send_all())

        async def send_all(self) -> None:
            for message in owner.sends:
                writing = asyncio.ensure_future(self.write_message(message))
                done, _ = await asyncio.wait({writing}, timeout=STUCK_S)
                if not done:
                    owner.stuck.set()
                await writing
                owner.sent += 1

    (home.home / "run").mkdir(mode=0o700, exist_ok=True)
    lock = OwnerLock(home.home)
    lock.acquire()
    socket, port = bind_unused_port()
    server = HTTPServer(Application([("/ozzie/api/ws", Socket), ("/ozzie/api/.*", Rest)]))
    server.add_socket(socket)
    path = handshake_path(home.runtime, os.getpid())
    write_handshake(
        path,
        Handshake(
            v=version,
            url=f"http://127.0.0.1:{port}/",
            token=TOKEN,
            pid=os.getpid(),
            home=str(home.home),
            started=time.time(),
        ),
    )
    try:
        yield owner
    finally:
        path.unlink()
        server.stop()
        await server.close_all_connections()
        lock.release()
