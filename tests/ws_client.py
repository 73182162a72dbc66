"""A client of the WebSocket protocol, for tests: sends frames and gathers what comes."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from tests.rig import Gateway


class WsClient:
    """Sends frames and gathers what comes."""

    def __init__(self, connection: WebSocketClientConnection) -> None:
        self._connection = connection
        self.events: list[dict[str, Any]] = []
        self._responses: list[dict[str, Any]] = []
        self._number = 0
        self.ended = False

    async def send(self, message: str | bytes) -> None:
        await self._connection.write_message(message, binary=isinstance(message, bytes))

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        """The response frame."""
        self._number += 1
        await self.send(json.dumps({"type": "req", "id": str(self._number), "method": method, "params": params}))
        return await self.response()

    async def response(self) -> dict[str, Any]:
        while not self._responses:
            await self._take()
        return self._responses.pop(0)

    async def until(self, *canonical: str, task_id: str = "") -> dict[str, Any]:
        """The first event frame of one of these names (and that task), waiting where it has not come yet."""
        seen = 0
        while True:
            for frame in self.events[seen:]:
                if frame["canonical"] in canonical and task_id in ("", frame.get("task_id")):
                    return frame
            seen = len(self.events)
            await self._take()

    async def open_session(self, name: str) -> str:
        """The id of the session of that name."""
        opened = await self.request("session.open", session_name=name)
        return str(opened["payload"]["session_id"])

    async def ask(self, session_id: str, content: str, **params: Any) -> dict[str, Any]:
        """Send a message and follow its turn to its end; the frame of that end."""
        sent = await self.request("message.send", session_id=session_id, content=content, **params)
        assert sent["ok"], sent
        task_id, position = sent["payload"]["task_id"], sent["payload"]["position"]
        await self.request("feed.subscribe", from_position=position - 1, task_id=task_id)
        return await self.until("task.succeeded", "task.failed", "task.cancelled", task_id=task_id)

    async def receive(self) -> str | bytes | None:
        """The next message as it came; None, once, at the connection's end."""
        message = await asyncio.wait_for(self._connection.read_message(), 50)
        self.ended = message is None
        return message

    @property
    def close_code(self) -> int | None:
        """Why the gateway ended the connection."""
        return self._connection.close_code

    async def _take(self) -> None:
        message = await self.receive()
        assert message is not None, "the gateway closed the connection"
        frames = json.loads(message)
        for frame in frames if isinstance(frames, list) else [frames]:
            (self._responses if frame["type"] == "res" else self.events).append(frame)


@asynccontextmanager
async def connected(gateway: Gateway, token: str | None = None, query: str = "") -> AsyncIterator[WsClient]:
    """`query` goes into the handshake's URL."""
    url = f"ws{gateway.url.removeprefix('http')}ozzie/api/ws{query}"
    request = HTTPRequest(url, headers={"Authorization": f"token {token or gateway.token}"})
    connection = await websocket_connect(request)
    client = WsClient(connection)
    try:
        yield client
    finally:
        connection.close()
        # To the end of the closing handshake: a loop that ends before leaves the socket to the garbage collector.
        async with asyncio.timeout(10):
            while not client.ended:
                await client.receive()
