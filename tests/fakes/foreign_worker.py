"""A foreign worker that knows only the worker protocol: plain lines, no ids, one answer a connection."""

import asyncio
import contextlib
import json
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOKEN_LINES = b'{"type":"token","text":"Hel"}\n{"type":"token","text":"lo\\n"}\n'
ANSWERS: dict[str, bytes] = {
    "lines": b'one\ntwo\nthree\n{"type":"stop"}\n',
    "tokens": TOKEN_LINES + b'{"type":"stop"}\n',
    "mixed": TOKEN_LINES + b'plain\n{"type":"token","text":"again"}\n{"type":"stop"}\n',
    "empty-lines": b'\none\n\n\r\ntwo\n{"type":"stop"}\n',
    "json-lines": b'42\n"x"\n{"a": 1}\n[1]\nnull\n{"type":"dance"}\n{"type":"token"}\n{"ok":true}\n{"type":"stop"}\n',
    "acknowledged": b'{"ok":true}\nyes\n{"type":"stop"}\n',
    "own-fields": b'hi\n{"type":"stop","usage":"much","finish":7}\n',
    "counted": b'hi\n{"type":"stop","finish":"length","usage":{"input_tokens":3,"output_tokens":2}}\n',
    "crlf": b'one\r\ntwo\r\n{"type":"stop"}\r\n',
    "nothing": b'{"type":"stop"}\n',
    "bad-bytes": b'caf\xe9 \xff\n{"type":"stop"}\n',
    "refuses": b'{"ok":false,"error":"The model is not loaded."}\n',
    "refuses-within": b'so far\n{"ok":false,"error":"Out of memory."}\n',
    "fails": b'so far\n{"type":"error","message":"CUDA ran out of memory."}\n',
    "cut": b"so far\n",
    "cut-within-a-line": b"so far\nand th",
    "cut-at-once": b"",
    "long-line": b"x" * ((1 << 20) + 2),
}
"""What each model answers; the connection ends behind it. Any other model answers with its prompt."""


class FakeForeignWorker:
    """Runs in a thread of its own at a socket in a folder of its own. A context manager.

    `seen` holds every message as it came, by connection; `names_sessions` says whether it gives ids or leaves that to
    the client.
    """

    def __init__(self, *, names_sessions: bool = True) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="foreign-"))
        self.path = str(self.folder / "w.sock")
        self.seen: list[list[dict[str, Any]]] = []
        self.gone: list[str] = []
        self._names_sessions = names_sessions
        self._models: dict[str, str] = {}
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._done = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="foreign worker", daemon=True)

    def __enter__(self) -> "FakeForeignWorker":
        self._thread.start()
        if not self._started.wait(10):
            raise TimeoutError("The foreign worker did not start.")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(10)
        shutil.rmtree(self.folder)

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [message for connection in self.seen for message in connection]

    def wait_for(self, condition: Callable[["FakeForeignWorker"], bool], *, seconds: float = 60.0) -> None:
        """Blocks until `condition` holds; raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self), seconds):
                raise TimeoutError(f"The foreign worker did not see that, but {self.messages}.")

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
        server = await asyncio.start_unix_server(self._accept, self.path)
        self._started.set()
        await self._done.wait()
        # asyncio loses a connection that was accepted and not yet begun when its server closes, and complains of it.
        await _turns()
        server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        messages: list[dict[str, Any]] = []
        self.seen.append(messages)
        try:
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                line = await reader.readline()
                if line:
                    message = json.loads(line)
                    with self._changed:
                        messages.append(message)
                        self._changed.notify_all()
                    await self._obey(message, reader, writer)
        finally:
            # To the end of it: the loop may be closed right after, and a transport that is left open complains later.
            writer.close()
            try:
                await asyncio.wait_for(writer.wait_closed(), 1)
            except OSError:  # the peer has gone, or reads no more
                writer.transport.abort()
                await asyncio.sleep(0)

    async def _obey(self, message: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = str(message.get("session_id", ""))
        match message["type"]:
            case "create_session" if message["params"]["model"] == "refuses-sessions":
                _send(writer, {"ok": False, "error": "No such model."})
            case "create_session" if message["params"]["model"] == "answers-in-prose":
                writer.write(b"Hello, I am a worker.\n")
            case "create_session" if message["params"]["model"] == "silent-at-once":
                await reader.read()
            case "create_session":
                session = f"s{len(self._models)}"
                self._models[session] = message["params"]["model"]
                _send(writer, {"ok": True, "session_id": session} if self._names_sessions else {"ok": True})
            case "generate":
                await self._generate(self._models.get(session, ""), message["prompt"], session, reader, writer)
            case "status":
                _send(writer, {"ok": True, "model": "fake"})
            case _:
                _send(writer, {"ok": True})
        await writer.drain()

    async def _generate(
        self,
        model: str,
        prompt: str,
        session: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        left = asyncio.ensure_future(reader.read())
        try:
            match model:
                case "endless":
                    while not left.done():
                        writer.write(b"and on\n")
                        await writer.drain()
                        await asyncio.wait({left}, timeout=0.01)
                case "silent" | "silent-within":
                    writer.write(b"so far\n" if model == "silent-within" else b"")
                    await left
                case _:
                    # In small pieces, as a slow model writes.
                    answer = ANSWERS.get(model, f'{prompt}\n{{"type":"stop"}}\n'.encode())
                    for at in range(0, len(answer), 4096):
                        writer.write(answer[at : at + 4096])
                        await writer.drain()
                    return
        finally:
            left.cancel()
        with self._changed:
            self.gone.append(session)
            self._changed.notify_all()


async def _turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def _send(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    writer.write(json.dumps(message).encode() + b"\n")
