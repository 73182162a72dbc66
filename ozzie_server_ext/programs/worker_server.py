"""Serves the NDJSON worker protocol to any number of clients, with sessions that keep their history."""

import asyncio
import contextlib
import errno
import fcntl
import os
import secrets
import socket
import stat
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.errors import Conflict, NotFound, OzzieError, RetryLater, Unavailable
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.models.driver import (
    ChatMessage,
    Finished,
    ModelChoice,
    ModelDriver,
    ModelRequest,
    Reasoning,
    TextDelta,
)
from ozzie_server_ext.planes.identity import is_trusted, peer_uid
from ozzie_server_ext.programs.plane_child import note
from ozzie_server_ext.protocol.codec import InvalidShape, encode
from ozzie_server_ext.protocol.jsontext import repair_text
from ozzie_server_ext.protocol.ndjson import MAX_LINE_TO_WORKER, LineDecoder, LineTooLong, decode_line, encode_line
from ozzie_server_ext.protocol.worker import Abort, CloseSession, CreateSession, Generate, Status, parse_command

MAX_SESSIONS = 1000
MAX_CHARS = 4_000_000
"""Size of a session's history; older messages are dropped."""


class WorkerSession(msgspec.Struct, eq=False):
    """A client's conversation. `system` holds its instructions; `busy` while an answer is being written."""

    session_id: str
    system: str = ""
    busy: bool = False
    _history: list[ChatMessage] = msgspec.field(default_factory=list[ChatMessage])

    def messages(self, prompt: str, *, most: int) -> tuple[ChatMessage, ...]:
        """Return the model's input: the instructions, at most `most` earlier messages, and the prompt."""
        system = [ChatMessage(role="system", content=self.system)] if self.system else []
        # Whole pairs of question and answer, so that it begins with a question.
        earlier = self._history[-(most - most % 2) :] if most > 1 else []
        return (*system, *earlier, ChatMessage(role="user", content=prompt))

    def keep(self, prompt: str, answer: str) -> None:
        """Add a complete answer; a broken one leaves no trace."""
        self._history += [ChatMessage(role="user", content=prompt), ChatMessage(role="assistant", content=answer)]
        while len(self._history) > 2 and sum(len(message.content) for message in self._history) > MAX_CHARS:
            del self._history[:2]


class WorkerSessions:
    """Sessions by their unguessable ids."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, WorkerSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def answering(self) -> int:
        return sum(session.busy for session in self._sessions.values())

    def create(self, system: str) -> WorkerSession:
        """Create a session; if there are too many, drop the one idle for longest. Raises RetryLater."""
        if len(self._sessions) >= MAX_SESSIONS:
            idle = next((name for name, session in self._sessions.items() if not session.busy), None)
            if idle is None:
                raise RetryLater("Every session is answering. Try again later.")
            del self._sessions[idle]
        session = WorkerSession(session_id=f"s_{secrets.token_hex(8)}", system=system)
        self._sessions[session.session_id] = session
        return session

    def get(self, session_id: str) -> WorkerSession:
        """Return a session. Raises NotFound."""
        session = self._sessions.get(session_id)
        if session is None:
            raise NotFound(f'There is no session "{session_id[:80]}". Begin one with create_session.')
        self._sessions.move_to_end(session_id)
        return session

    def begin(self, session_id: str) -> WorkerSession:
        """Return the session, marked busy. Raises NotFound, or Conflict while it is answering."""
        session = self.get(session_id)
        if session.busy:
            raise Conflict(f'The session "{session_id}" is answering already. Wait for its end, or abort it.')
        session.busy = True
        return session

    def close(self, session_id: str) -> None:
        """Remove a session. Raises NotFound."""
        self.get(session_id)
        del self._sessions[session_id]


MAX_PATH_BYTES = 107
BACKLOG = 64
_ELSEWHERE = "Name another one: ozzie worker --socket ~/.ozzie/run/worker.sock"


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Listen at a socket at `path` (0600), and remove it at the end. Create a missing folder (0700). Replace the socket
    of a dead worker.

    Raises Unavailable if the path can't be used, Conflict if somebody answers there.
    """
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise _unusable(f"The path of the socket is longer than {MAX_PATH_BYTES} bytes.")
    _prepare_folder(path.parent)
    with _exclusive(path.parent):
        _clear(path)
        end = socket.socket(socket.AF_UNIX)
        mask = os.umask(0o177)
        try:
            end.bind(str(path))
        except OSError as error:
            end.close()
            raise _unusable(f"The socket {path} can't be made: {error.strerror}.") from error
        finally:
            os.umask(mask)
        end.listen(BACKLOG)
        end.setblocking(False)
    mine = path.lstat().st_ino
    try:
        yield end
    finally:
        end.close()
        with contextlib.suppress(OSError):
            # Another socket may have taken its place.
            if path.lstat().st_ino == mine:
                path.unlink()


def _prepare_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = folder.stat()
    except OSError as error:
        raise _unusable(f"The folder {folder} for the socket can't be made: {error.strerror}.") from error
    if info.st_uid != os.getuid() or stat.S_IMODE(info.st_mode) & 0o077:
        raise _unusable(f"Others may enter or change the folder {folder}, so a socket there would not be yours alone.")


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Lock the folder: two workers that start at once must not both find the dead socket and remove each other's."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _clear(path: Path) -> None:
    """Remove the socket of a dead worker."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise _unusable(f"{path} exists already and is not a socket.")
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                path.unlink()
                return
        # A worker too busy to accept is alive too.
        raise Conflict(f"A worker listens at {path} already.", hint=_ELSEWHERE, code="worker.taken")


def _unusable(sentence: str) -> Unavailable:
    return Unavailable(sentence, hint=_ELSEWHERE, code="worker.socket")


READ_BYTES = 1 << 16
MAX_TOKEN_CHARS = 100_000
"""A character takes six bytes at most, so such a line stays below what a client may refuse (1 MiB)."""

_SERVED = (CreateSession, Generate, Abort, CloseSession, Status)


class WorkerServer:
    """Serves one model to all clients. `trusts` decides by a client's uid, before its first byte is read."""

    def __init__(
        self,
        models: ModelDriver,
        choice: ModelChoice,
        ids: IdSource,
        *,
        max_history: int,
        trusts: Callable[[int | None], bool] = is_trusted,
    ) -> None:
        self._models = models
        self._choice = choice
        self._ids = ids
        self._max_history = max_history
        self._trusts = trusts
        self._sessions = WorkerSessions()
        self._answers: dict[str, asyncio.Task[None]] = {}
        self._connections: set[asyncio.Task[None]] = set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it leaves; then end its answers."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        client = _Client(writer)
        try:
            if self._trusts(peer_uid(writer.get_extra_info("socket"))):
                with contextlib.suppress(ConnectionError):
                    await self._read(reader, client)
                # A client that closed only its own side still waits for its answers.
                await client.finish()
        finally:
            client.end()
            self._connections.discard(task)

    async def stop(self) -> None:
        """End every answer and every connection."""
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _read(self, reader: asyncio.StreamReader, client: "_Client") -> None:
        decoder = LineDecoder(max_line=MAX_LINE_TO_WORKER)
        while data := await reader.read(READ_BYTES):
            try:
                lines = decoder.feed(data)
            except LineTooLong as error:
                await client.send(_refusal(str(error), None))
                return
            for line in lines:
                await self._handle(decode_line(line, max_line=MAX_LINE_TO_WORKER), client)

    async def _handle(self, message: JsonObject | str, client: "_Client") -> None:
        call_id = message.get("id") if isinstance(message, dict) else None
        try:
            if isinstance(message, str):
                raise InvalidShape("Expected a JSON object in one line.")
            command = parse_command(message)
            if not isinstance(command, _SERVED):
                raise InvalidShape(f'There is no message of type "{message["type"]}" here.')
            answer = self._carry_out(command, client)
        except OzzieError as error:
            answer = _refusal(str(error), call_id)
        if answer is not None:
            await client.send(answer if call_id is None else {**answer, "id": call_id})

    def _carry_out(
        self, command: CreateSession | Generate | Abort | CloseSession | Status, client: "_Client"
    ) -> JsonObject | None:
        """Return the answer to a command, or None if it comes as a stream. Raises OzzieError."""
        match command:
            case CreateSession():
                system = command.params.get("system", "")
                if not isinstance(system, str):
                    raise InvalidShape('The parameter "system" is not text.')
                return {"ok": True, "session_id": self._sessions.create(system).session_id}
            case Generate():
                if not command.prompt.strip():
                    raise InvalidShape("The prompt is empty.")
                session = self._sessions.begin(command.session_id)
                task = client.begin(self._answer(session, command, client))
                self._answers[session.session_id] = task
                task.add_done_callback(lambda _: self._ended(session, task))
                return None
            case Abort():
                self._sessions.get(command.session_id)
                self._abort(command.session_id)
                return {"ok": True}
            case CloseSession():
                self._sessions.close(command.session_id)
                self._abort(command.session_id)
                return {"ok": True}
            case Status():
                state: JsonObject = {"model": self._choice.alias, "driver": self._choice.driver, "pid": os.getpid()}
                return {"ok": True, **state, "sessions": len(self._sessions), "answering": self._sessions.answering}

    def _abort(self, session_id: str) -> None:
        if (running := self._answers.get(session_id)) is not None:
            # Not before its first step, or it could not even report its end.
            asyncio.get_running_loop().call_soon(running.cancel)

    def _ended(self, session: WorkerSession, task: "asyncio.Task[None]") -> None:
        session.busy = False
        if self._answers.get(session.session_id) is task:
            del self._answers[session.session_id]
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, ConnectionError):
            note(f"An answer failed: {type(error).__name__}.")

    async def _answer(self, session: WorkerSession, command: Generate, client: "_Client") -> None:
        messages = session.messages(command.prompt, most=self._max_history)
        request = ModelRequest(call_id=CallId(self._ids.new()), choice=self._choice, messages=messages)
        mark: JsonObject = {"id": command.id} if command.id else {}
        text: list[str] = []

        async def say(piece: str) -> None:
            for at in range(0, len(piece) if command.stream else 0, MAX_TOKEN_CHARS):
                await client.send({"type": "token", "text": repair_text(piece[at : at + MAX_TOKEN_CHARS]), **mark})

        last: JsonObject = {"type": "error", "message": "The answer was cut off."}
        try:
            async with aclosing(self._models.generate(request)) as events:
                async for event in events:
                    match event:
                        case TextDelta():
                            text.append(event.text)
                            await say(event.text)
                        case Reasoning():
                            pass  # the protocol has no event for it
                        case Finished():
                            last = {"type": "stop", "finish": event.finish, "usage": encode(event.usage)}
            session.keep(command.prompt, "".join(text))
        except asyncio.CancelledError:
            # Aborted. If the client itself is gone, nobody reads this.
            last = {"type": "stop", "finish": "cancelled"}
        except OzzieError as error:
            # Without the hint, which is for people in a notebook.
            last = {"type": "error", "message": str(error), "code": error.code}
        except ConnectionError:
            raise
        except Exception as error:  # a bug: the client must still get an end
            note(f"An answer failed: {type(error).__name__}.")
        await client.send((last if command.stream else _whole(last, "".join(text))) | mark)


class _Client:
    """A connection and the answers requested on it."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._answers: set[asyncio.Task[None]] = set()

    async def send(self, message: JsonObject) -> None:
        """Send a message, waiting while the client does not read. Raises ConnectionError if it is gone."""
        self._writer.write(encode_line(message))
        await self._writer.drain()

    def begin(self, answer: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(answer)
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)
        return task

    async def finish(self) -> None:
        await asyncio.gather(*self._answers, return_exceptions=True)

    def end(self) -> None:
        for task in self._answers:
            task.cancel()
        self._writer.close()


def _refusal(sentence: str, call_id: object) -> JsonObject:
    return {"ok": False, "error": sentence, **({"id": call_id} if isinstance(call_id, str) else {})}


def _whole(last: JsonObject, text: str) -> JsonObject:
    """Return the answer to a `generate` without streaming."""
    if last["type"] == "error":
        return {"ok": False, "error": last["message"]}
    return {"ok": True, "text": text, "finish": last["finish"]}
