"""A provider on loopback that speaks OpenAI's wire format: `python -m tests.fakes.openai_server` prints its URL."""

import argparse
import asyncio
import contextlib
import json
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from tests.fakes.openai_replies import Answer, Behaviour, Raw, Refusal, Silence, behaviour_of
from tests.fakes.openai_wire import error_body, stream_parts, whole

MODELS = ("echo", "tools", "parallel", "endless", "broken", "cut", "garbage", "silence", "paced-300-20-200")


@dataclass(frozen=True)
class Recorded:
    """A request as it came. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


class FakeOpenAI:
    """Runs in a thread of its own, so that tests with any loop, or none, can use it. A context manager.

    `queue` behaviours to override what the model's name says (then on any path, so that Raw bodies can speak for other
    providers); `keys` limits who is let in. `requests` and
    `disconnects` (model names whose client went away in mid-answer) may be waited for with `wait_for`.
    """

    def __init__(self, *, keys: frozenset[str] | None = None, port: int = 0) -> None:
        self.requests: list[Recorded] = []
        self.disconnects: list[str] = []
        self.url = ""
        self._keys = keys
        self._port = port
        self._queue: deque[Behaviour] = deque()
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._done = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fake provider", daemon=True)
        self._connections: set[asyncio.Task[None]] = set()

    def __enter__(self) -> "FakeOpenAI":
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
        return f"{self.url}/v1"

    def queue(self, *behaviours: Behaviour) -> None:
        """The next requests get these, in order, whatever model they name."""
        self._queue.extend(behaviours)

    def wait_for(self, condition: Callable[["FakeOpenAI"], bool], *, seconds: float = 10.0) -> None:
        """Blocks until `condition` holds; raises TimeoutError. From async code: `await asyncio.to_thread(...)`."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self), seconds):
                raise TimeoutError("The fake provider did not see that.")

    def forget(self) -> None:
        """Drops what was recorded and queued."""
        with self._changed:
            self.requests.clear()
            self.disconnects.clear()
            self._queue.clear()

    # --- inside -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", self._port, limit=1 << 26)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._started.set()
        await self._done.wait()
        server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._one_request(reader, writer):
                    pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _one_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answers one request; whether the connection may carry another."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body: dict[str, Any] = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))) or b"{}")
        with self._changed:
            self.requests.append(Recorded(method, path, headers, body))
            self._changed.notify_all()
        key = headers.get("authorization", "").removeprefix("Bearer ")
        if self._keys is not None and key not in self._keys:
            refusal = Refusal(status=401, message=f"Incorrect API key provided: {key}.", code="invalid_api_key")
            _send_json(writer, 401, error_body(refusal), refusal.headers)
        elif (method, path) == ("GET", "/v1/models"):
            models = [{"id": name, "object": "model", "created": 0, "owned_by": "fake"} for name in MODELS]
            _send_json(writer, 200, {"object": "list", "data": models})
        elif method == "POST" and (path == "/v1/chat/completions" or self._queue):
            return await self._complete(body, key, reader, writer)
        else:
            _send_json(writer, 404, error_body(Refusal(status=404, message=f"Unknown request URL: {method} {path}.")))
        await writer.drain()
        return True

    async def _complete(
        self, body: Mapping[str, Any], key: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        model = str(body.get("model", ""))
        match self._queue.popleft() if self._queue else behaviour_of(model, body, key):
            case Answer() as answer if body.get("stream"):
                return await self._unless_left(model, reader, self._stream(answer, model, body, writer))
            case Answer() as answer:
                _send_json(writer, 200, whole(answer, model))
            case Refusal() as refusal:
                _send_json(writer, refusal.status, error_body(refusal), refusal.headers)
            case Raw() as raw:
                _send(writer, 200, raw.body, {"content-type": raw.content_type})
            case Silence():
                return await self._unless_left(model, reader, _forever())
        await writer.drain()
        return True

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

    async def _stream(self, answer: Answer, model: str, body: Mapping[str, Any], writer: asyncio.StreamWriter) -> bool:
        writer.write(_head(200, {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"}))
        await writer.drain()
        wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        wait_s = answer.first_s
        for part, paced in stream_parts(answer, model, wants_usage=wants_usage):
            if paced:
                await asyncio.sleep(wait_s)
                wait_s = answer.gap_s
            writer.write(b"%x\r\n%s\r\n" % (len(part), part))
            await writer.drain()
        if answer.breaks:
            writer.write(b'400\r\ndata: {"id":"chatcmpl-fa')
            await writer.drain()
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


async def _forever() -> bool:
    await asyncio.Event().wait()
    return False


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "x-request-id: req_fake"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode()


def _send(writer: asyncio.StreamWriter, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    writer.write(_head(status, {**headers, "content-length": str(len(body))}) + body)


def _send_json(
    writer: asyncio.StreamWriter, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> None:
    _send(writer, status, json.dumps(body).encode(), {"content-type": "application/json", **(headers or {})})


def main() -> None:
    """Serves until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--key", action="append", help="let only these keys in (may be repeated)")
    args = parser.parse_args()
    with FakeOpenAI(keys=frozenset(args.key) if args.key else None, port=args.port) as server:
        print(server.base_url, flush=True)  # noqa: T201
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
