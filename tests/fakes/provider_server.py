"""A provider on loopback, whatever it speaks: takes requests, records them, misbehaves as told. See `Wire`."""

import asyncio
import contextlib
import json
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

from tests.fakes.replies import Answer, Asked, Behaviour, Blocked, Raw, Refusal, Silence, TooLong, behaviour_of

HELD_S = 60.0
"""An answer that is held is held no longer than that, whatever becomes of the test."""


@dataclass(frozen=True)
class Recorded:
    """A request as it came. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


class Misread(Exception):
    """The request is not one that this provider would take; the text says why."""


class Elsewhere(Exception):
    """Nothing answers at this path."""


class Wire(Protocol):
    """One provider's format. `base_path` is what belongs behind the host in a provider's base_url."""

    base_path: str
    stream_type: str
    garbage: bytes
    """A piece of a stream that is no JSON."""

    def key(self, request: Recorded) -> str:
        """The key that the request carries where this provider looks for it; empty for none."""
        ...

    def listing(self, request: Recorded) -> Mapping[str, Any] | None:
        """What a request for the models is answered with; None for any other request."""
        ...

    def read(self, request: Recorded) -> Asked:
        """What is asked, checked as strictly as the provider does it. Raises Misread, Elsewhere."""
        ...

    def parts(self, answer: Answer, asked: Asked) -> Iterator[tuple[bytes, bool]]:
        """The pieces of a streamed answer, each with whether it is one that the answer's pacing applies to."""
        ...

    def whole(self, answer: Answer, asked: Asked) -> Mapping[str, Any]: ...

    def refusal(self, refusal: Refusal) -> tuple[int, Mapping[str, str], Mapping[str, Any]]:
        """Status, further headers and body of an error."""
        ...

    def too_long(self) -> Behaviour: ...

    def blocked(self) -> Behaviour: ...


class FakeProvider:
    """Runs in a thread of its own, so that tests with any loop, or none, can use it. A context manager.

    `behave` says what is done with a request; what was queued with `queue` comes before it, on any path, so that Raw
    bodies can speak for other providers. `keys` limits who is let in. `requests`, `disconnects` (model names whose
    client went away in mid-answer) and `misread` (what was wrong with requests) may be waited for with `wait_for`.
    `connections` counts those that were accepted.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        keys: frozenset[str] | None = None,
        port: int = 0,
        behave: Callable[[Asked], Behaviour] = behaviour_of,
    ) -> None:
        self.requests: list[Recorded] = []
        self.disconnects: list[str] = []
        self.misread: list[str] = []
        self.connections = 0
        self.url = ""
        self._wire = wire
        self._keys = keys
        self._behave = behave
        self._port = port
        self._queue: deque[Behaviour] = deque()
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._done = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fake provider", daemon=True)

    def __enter__(self) -> "FakeProvider":
        self._thread.start()
        if not self._started.wait(10):
            raise TimeoutError("The fake provider did not start.")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(10)

    @property
    def base_url(self) -> str:
        """What goes into a provider's base_url."""
        return f"{self.url}{self._wire.base_path}"

    def queue(self, *behaviours: Behaviour) -> None:
        """The next requests get these, in order, whatever model they name."""
        self._queue.extend(behaviours)

    def wait_for(self, condition: Callable[["FakeProvider"], bool], *, seconds: float = 60.0) -> None:
        """Blocks until `condition` holds; raises TimeoutError. From async code: `await asyncio.to_thread(...)`."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self), seconds):
                raise TimeoutError("The fake provider did not see that.")

    def forget(self) -> None:
        """Drops what was recorded and queued."""
        with self._changed:
            self.requests.clear()
            self.disconnects.clear()
            self.misread.clear()
            self._queue.clear()

    # --- inside -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        while pending := asyncio.all_tasks(self._loop):
            for task in pending:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(pending))
        self._loop.run_until_complete(_turns())
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", self._port, limit=1 << 26)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._started.set()
        await self._done.wait()
        # asyncio loses a connection that was accepted and not yet begun when its server closes, and complains of it.
        await _turns()
        server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._one_request(reader, writer):
                    pass
        finally:
            # To the end of it: the loop may be closed right after, and a transport that is left open complains later.
            writer.close()
            try:
                await asyncio.wait_for(writer.wait_closed(), 1)
            except OSError:  # the peer has gone, or reads no more
                writer.transport.abort()
                await asyncio.sleep(0)

    async def _one_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answers one request; whether the connection may carry another."""
        start = await reader.readexactly(4)
        if start[:2] == b"\x16\x03":
            # The begin of a TLS handshake, at a port that speaks none: a server of HTTP answers it like this.
            _send(writer, 400, b"Bad request", {"content-type": "text/plain"})
            await writer.drain()
            return False
        head = (start + await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body: dict[str, Any] = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))) or b"{}")
        request = Recorded(method, path, headers, body)
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        key = self._wire.key(request)
        listing = self._wire.listing(request)
        if self._keys is not None and key not in self._keys:
            message = f"Incorrect API key provided: {key}."
            self._refuse(writer, Refusal(status=401, message=message, code="invalid_api_key"))
        elif listing is not None:
            _send_json(writer, 200, listing)
        elif method == "POST" and self._queue:
            return await self._act(self._queue.popleft(), self._asked(request), reader, writer)
        else:
            try:
                asked = self._wire.read(request)
            except Elsewhere:
                self._refuse(writer, Refusal(status=404, message=f"Unknown request URL: {method} {path}."))
            except (Misread, KeyError, TypeError, ValueError) as error:
                with self._changed:
                    self.misread.append(f"{type(error).__name__}: {error}")
                self._refuse(writer, Refusal(status=400, message=f"Misread: {error}"))
            else:
                return await self._act(self._behave(asked), asked, reader, writer)
        await writer.drain()
        return True

    def _asked(self, request: Recorded) -> Asked:
        try:
            return self._wire.read(request)
        except (Elsewhere, Misread, KeyError, TypeError, ValueError):
            return Asked(model=str(request.body.get("model", "")))

    async def _act(
        self, behaviour: Behaviour, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        match behaviour:
            case Answer() as answer if asked.stream:
                return await self._unless_left(asked.model, reader, self._stream(answer, asked, writer))
            case Answer() as answer:
                _send_json(writer, 200, self._wire.whole(answer, asked))
            case Refusal() as refusal:
                self._refuse(writer, refusal)
            case Raw() as raw:
                _send(writer, 200, raw.body, {"content-type": raw.content_type})
            case Silence():
                return await self._unless_left(asked.model, reader, _forever())
            case TooLong():
                return await self._act(self._wire.too_long(), asked, reader, writer)
            case Blocked():
                return await self._act(self._wire.blocked(), asked, reader, writer)
        await writer.drain()
        return True

    def _refuse(self, writer: asyncio.StreamWriter, refusal: Refusal) -> None:
        status, headers, body = self._wire.refusal(refusal)
        _send_json(writer, status, body, {**headers, **refusal.headers})

    async def _unless_left(
        self, model: str, reader: asyncio.StreamReader, answering: Coroutine[Any, Any, bool]
    ) -> bool:
        """Answers until it is done or the client closes the connection, and records the latter."""
        answer = asyncio.ensure_future(answering)
        left = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({answer, left}, return_when=asyncio.FIRST_COMPLETED)
            gone = left.done() or isinstance(answer.exception(), ConnectionError)
            if not gone:
                return answer.result()
        finally:
            for task in (answer, left):
                task.cancel()
            await asyncio.gather(answer, left, return_exceptions=True)
        with self._changed:
            self.disconnects.append(model)
            self._changed.notify_all()
        return False

    async def _stream(self, answer: Answer, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(_head(200, {"content-type": self._wire.stream_type, "transfer-encoding": "chunked"}))
        await writer.drain()
        if answer.held is not None:
            await asyncio.to_thread(answer.held.wait, HELD_S)
        wait_s = answer.first_s
        for part, paced in self._wire.parts(answer, asked):
            if paced:
                await asyncio.sleep(wait_s)
                wait_s = answer.gap_s
            writer.write(_chunk(part))
            await writer.drain()
        if answer.breaks:
            writer.write(b'400\r\ndata: {"id":"fa')
            await writer.drain()
            return False
        if answer.garbage:
            writer.write(_chunk(self._wire.garbage))
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


async def _turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def _forever() -> bool:
    await asyncio.Event().wait()
    return False


def sse(event: Mapping[str, Any] | str, name: str = "") -> bytes:
    """One server-sent event."""
    text = event if isinstance(event, str) else json.dumps(event)
    return f"{f'event: {name}' + chr(10) if name else ''}data: {text}\n\n".encode()


def _chunk(part: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(part), part)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    # 529 is Anthropic's own, and has no phrase.
    phrase = next((known.phrase for known in HTTPStatus if known == status), "Overloaded")
    lines = [f"HTTP/1.1 {status} {phrase}", "x-request-id: req_fake"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode()


def _send(writer: asyncio.StreamWriter, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    writer.write(_head(status, {**headers, "content-length": str(len(body))}) + body)


def _send_json(
    writer: asyncio.StreamWriter, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> None:
    _send(writer, status, json.dumps(body).encode(), {"content-type": "application/json", **(headers or {})})
