"""The process that speaks MCP to clients of Ozzie, in both eras of the protocol.

`python -m ozzie_server_ext.programs.mcp_server --fd N --parent PID`. It alone parses what clients send. It can do
nothing by itself: what a client wants, it asks of the gateway, which knows for whom. A client's bytes can end this
process, and nothing else.
"""

import asyncio
import logging
import re
import time
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.programs.plane_child import PlaneChild, note, run_child
from ozzie_server_ext.protocol.codec import InvalidShape
from ozzie_server_ext.protocol.jsontext import InvalidJson, dumps, loads
from ozzie_server_ext.protocol.mcp_server import (
    MAX_BODY_BYTES,
    MOST_UNREAD_CHARS,
    PIECE_CHARS,
    SERVING,
    Abort,
    Answer,
    Ask,
    Changed,
    Drop,
    End,
    Event,
    Exchange,
    Piece,
    Progress,
    Read,
    Start,
    Stop,
    message_json,
    parse_command,
)
from ozzie_server_ext.protocol.ndjson import LineTooLong

if TYPE_CHECKING:
    from ozzie_server_ext.programs.mcp_offer import Door, Gateway

LEAVE_S = 2.0
"""How long what serves a client may take to end once it is gone."""
MOST_IDENTITIES = 256
MOST_VALUES = 20_000
"""Of a request: the library reads them all in one go, which nothing else here can interrupt."""
LARGE_CHARS, LARGE_VALUES = 64 << 10, 2000
"""From here on, a request waits for its turn, since many of them at once would hold up the others."""
TURN_S = 1.0
"""How long a large request holds up other large ones at most."""
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
JSON_TYPE = ("content-type", "application/json")


class Exchanged:
    """One HTTP request in progress, as an ASGI application sees it."""

    def __init__(self, exchange: Exchange, server: "McpServer") -> None:
        self._exchange = exchange
        self._server = server
        self._body: bytes | None = exchange.body.encode()
        self._gone = asyncio.Event()
        self._unread = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self.has_started = False
        self.was_read = asyncio.Event()
        """The library has read its body: it answers, or has asked the gateway."""

    @property
    def is_gone(self) -> bool:
        return self._gone.is_set()

    def scope(self) -> dict[str, Any]:
        """Return the ASGI scope. It names the exchange, by which the gateway knows who asks."""
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": self._exchange.method,
            "scheme": "http",
            "path": "/mcp",
            "raw_path": b"/mcp",
            "root_path": "",
            "query_string": b"",
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self._exchange.headers],
            "client": ("127.0.0.1", 0),
            "server": ("127.0.0.1", 80),
            "ozzie.exchange": self._exchange.id,
        }

    def leave(self) -> None:
        """The client is gone."""
        self._gone.set()
        self._has_room.set()

    def read(self, chars: int) -> None:
        self._unread -= chars
        if self._unread < MOST_UNREAD_CHARS:
            self._has_room.set()

    async def receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if self._gone.is_set():
            return
        if message["type"] == "http.response.start":
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
            self.start(message["status"], *headers)
        elif message["type"] == "http.response.body":
            text = bytes(message.get("body", b"")).decode("utf-8", "replace")
            for at in range(0, len(text), PIECE_CHARS):
                await self._has_room.wait()
                self.piece(text[at : at + PIECE_CHARS])

    def start(self, status: int, *headers: tuple[str, str]) -> None:
        self.has_started = True
        self.was_read.set()
        self._server.tell(Start(id=self._exchange.id, status=status, headers=headers))

    def piece(self, text: str) -> None:
        self._unread += len(text)
        if self._unread >= MOST_UNREAD_CHARS:
            self._has_room.clear()
        self._server.tell(Piece(id=self._exchange.id, text=text))

    def refuse(self, status: int, code: int, words: str) -> None:
        """Answer with an error of JSON-RPC."""
        self.start(status, JSON_TYPE)
        self.piece(dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": words}}))


class McpServer(PlaneChild):
    """Serves one connection until it ends."""

    def __init__(self) -> None:
        super().__init__()
        self._gateway: Gateway | None = None  # before it is ready, nothing comes
        self._doors: dict[str, Door] = {}
        self._exchanges: dict[str, tuple[Exchanged, asyncio.Task[None]]] = {}
        self._turn = asyncio.Lock()
        self._telling = set[asyncio.Task[None]]()

    def calls(self) -> Iterable[asyncio.Task[None]]:
        return (*(task for _, task in self._exchanges.values()), *(door.serving for door in self._doors.values()))

    async def prepare(self) -> None:
        started = time.perf_counter()
        await asyncio.to_thread(_load)
        from ozzie_server_ext.programs.mcp_offer import Gateway

        self._gateway = Gateway(self.tell)
        self.send_ready(took_ms=round((time.perf_counter() - started) * 1000))

    def too_long(self, message: JsonObject, error: LineTooLong) -> JsonObject:
        note("A message to the gateway was too long.")
        if message.get("type") == "ask":  # a body that fits may be longer once it is written anew
            ask = str(message.get("ask"))
            if self._gateway is not None:
                self._gateway.take(Answer(id=SERVING, ask=ask, error="The request is too long."))
            return message_json(Drop(id=SERVING, ask=ask))
        return message_json(Stop(id=str(message.get("id", ""))))

    def tell(self, event: Event) -> None:
        if isinstance(event, Ask) and (asking := self._exchanges.get(event.exchange)) is not None:
            asking[0].was_read.set()
        self.send(message_json(event))

    def handle(self, message: JsonObject | str) -> None:
        try:
            command = parse_command(message if isinstance(message, dict) else {})
        except InvalidShape as error:
            note(f"A message was not understood: {error}")
            return
        match command:
            case Exchange():
                exchanged = Exchanged(command, self)
                task = self.loop.create_task(self._exchange(command, exchanged))
                self._exchanges[command.id] = exchanged, task
            case Answer() | Progress() if self._gateway is not None:
                self._gateway.take(command)
            case Read() if command.id in self._exchanges:
                self._exchanges[command.id][0].read(command.chars)
            case Abort() if command.id == SERVING:
                if self._gateway is not None:
                    self._gateway.close()
                self.tell(Stop(id=SERVING))
            case Abort():
                self._abort(command.id)
            case Changed(identity=identity) if identity in self._doors:
                task = self.loop.create_task(self._doors[identity].tools_changed())
                self._telling.add(task)
                task.add_done_callback(self._telling.discard)
            case End(identity=identity) if identity in self._doors:
                self._doors.pop(identity).serving.cancel()
            case _:
                pass

    def _abort(self, exchange_id: str) -> None:
        found = self._exchanges.get(exchange_id)
        if found is None:
            self.tell(Stop(id=exchange_id))  # it has ended already; whoever aborted it waits for an end
            return
        exchanged, task = found
        exchanged.leave()
        self.loop.call_later(LEAVE_S, task.cancel)

    async def _exchange(self, exchange: Exchange, exchanged: Exchanged) -> None:
        try:
            if len(exchange.body) <= LARGE_CHARS and _values(exchange.body) <= LARGE_VALUES:
                await self._serve_one(exchange, exchanged)
            else:
                await self._serve_large(exchange, exchanged)
        except asyncio.CancelledError:
            pass
        except Exception as error:
            note(f"A request could not be served: {type(error).__name__}.")
            if not exchanged.has_started:
                exchanged.refuse(500, -32603, "Ozzie made a mistake of its own.")
        finally:
            del self._exchanges[exchange.id]
            self.tell(Stop(id=exchange.id))

    async def _serve_large(self, exchange: Exchange, exchanged: Exchanged) -> None:
        """Serve a request that takes long to read once no other such is being read."""
        async with self._turn:
            if exchanged.is_gone:
                return
            serving = self.loop.create_task(self._serve_one(exchange, exchanged))
            reading = self.loop.create_task(exchanged.was_read.wait())
            try:
                await asyncio.wait({serving, reading}, timeout=TURN_S, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                serving.cancel()
                raise
            finally:
                reading.cancel()
        await serving  # cancelled with this

    async def _serve_one(self, exchange: Exchange, exchanged: Exchanged) -> None:
        if (words := _unfit(exchange)) is not None:
            exchanged.refuse(400, *words)
            return
        door = self._door(exchange.identity)
        await door.handle(exchanged.scope(), exchanged.receive, exchanged.send)

    def _door(self, identity: str) -> "Door":
        from ozzie_server_ext.programs.mcp_offer import Door

        assert self._gateway is not None, "requests come when it is ready"
        door = self._doors.pop(identity, None)
        if door is None:
            if len(self._doors) >= MOST_IDENTITIES:
                longest_unused = self._doors.pop(next(iter(self._doors)))
                longest_unused.serving.cancel()
            door = Door(self._gateway)
        self._doors[identity] = door  # the last one, as the one used last
        return door


def _unfit(exchange: Exchange) -> tuple[int, str] | None:
    """Return the code and the words to refuse a body with, before the library reads it."""
    if exchange.method != "POST":
        return None
    if _values(exchange.body) > MOST_VALUES:
        return -32600, f"A message has at most {MOST_VALUES:,} values."
    try:
        value = loads(exchange.body, max_bytes=MAX_BODY_BYTES, surrogates="repair")
    except InvalidJson as error:
        return -32700, f"Parse error: {error}"
    if isinstance(value, list):
        return -32600, "A batch is not taken: send one message at a time."
    if not isinstance(value, dict):
        return -32600, "A message is a JSON object."
    return None


def _values(body: str) -> int:
    """Return how many values a JSON text has at most, without reading it: an empty list or object counts twice."""
    most = _separators(body)
    return most if most <= LARGE_VALUES else _separators(_STRING.sub("", body))


def _separators(text: str) -> int:
    return 1 + text.count(",") + text.count("[") + text.count("{")


def _load() -> None:
    from ozzie_server_ext.programs import mcp_offer  # noqa: F401  # it takes half a second


def _prepare_process() -> None:
    # No library may write to the log: what clients send may hold keys and conversations.
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")


def main() -> None:
    """Run until the gateway closes the connection."""
    run_child(McpServer, __doc__, prepare_process=_prepare_process)


if __name__ == "__main__":
    main()
