"""Workers that speak the plain NDJSON protocol, as a driver: one connection for each answer, and for each command.

Their events carry no id, so two answers can't share a connection, and a command sent during an answer could not be told
apart from it.
"""

import asyncio
import contextlib
import errno
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TypeAlias

from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.models.driver import (
    AccessOf,
    ChatMessage,
    Finished,
    ModelError,
    ModelErrorCode,
    ModelEvent,
    ModelRequest,
    ProviderAccess,
    TextDelta,
    finished,
)
from ozzie_server_ext.models.failures import ErrorContext, model_error
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.planes.identity import is_trusted, peer_uid
from ozzie_server_ext.protocol.codec import InvalidShape
from ozzie_server_ext.protocol.jsontext import repair_text
from ozzie_server_ext.protocol.ndjson import LineDecoder, LineTooLong, decode_line, encode_line
from ozzie_server_ext.protocol.worker import (
    Abort,
    CloseSession,
    CreateSession,
    Error,
    Generate,
    Stop,
    Token,
    command_json,
    parse_event,
)

_NAMES = {"user": "User", "assistant": "Assistant"}


def fold_prompt(messages: Sequence[ChatMessage]) -> str:
    """Return instructions, the conversation so far, then the last message, separated by empty lines. A conversation of
    one message is just that message: speakers are named only once two have spoken."""
    system = [message.content for message in messages if message.role == "system" and message.content]
    spoken = [message for message in messages if message.role != "system"]
    if len(spoken) == 1 and spoken[0].role == "user":
        return "\n\n".join([*system, spoken[0].content])
    turns = [f"{_speaker(message)}: {message.content}" for message in spoken if message.content]
    return "\n\n".join([*system, *turns, "Assistant:"])


def _speaker(message: ChatMessage) -> str:
    return _NAMES.get(message.role) or f"Result of {message.name or 'a tool'}"


LineContent: TypeAlias = str | Stop | Error | None
"""Text, an end, or nothing that matters."""


def read_line(line: bytes, *, is_first: bool, has_end: bool = True) -> LineContent:
    """Return the content of a line. Plain lines, even empty ones, are text with their line break (`has_end`: if they
    have one). So is JSON that is no event: a model may well write `42` or `{"a": 1}`.

    `{"ok": true, …}` acknowledges a request only before any text (`is_first`). Invalid UTF-8 is replaced.
    """
    message = decode_line(line)
    if isinstance(message, dict):
        event = _event(message)
        if event is not None:
            return repair_text(event.text) if isinstance(event, Token) else event
        if is_first and message.get("ok") is True:
            return None
    return line.decode("utf-8", "replace") + ("\n" if has_end else "")


def _event(message: JsonObject) -> Token | Stop | Error | None:
    """Return the event that the object is; None if it is none."""
    if message.get("ok") is False:
        return Error(message=str(message["error"])) if isinstance(message.get("error"), str) else None
    if message.get("type") == "stop":
        try:
            found = parse_event(message)
            return found if isinstance(found, Stop) else Stop()
        except InvalidShape:
            # Our field names with other meanings: all that counts is that it is an end.
            return Stop()
    if message.get("type") == "error":
        return Error(message=str(message.get("message", "")))
    if message.get("type") == "token" and isinstance(text := message.get("text"), str):
        return Token(text=text)
    return None


READ_BYTES = 1 << 16
COMMAND_S = 10.0
GOODBYE_S = 2.0
YIELD_EVERY = 64
"""Lines that are taken without a pause: a burst of lines would keep the loop from anything else."""


class _Failed(Exception):
    """A call failed; `detail` is in the worker's words, if any."""

    def __init__(self, code: ModelErrorCode, detail: str = "") -> None:
        super().__init__(detail)
        self.code: ModelErrorCode = code
        self.detail = detail


class ForeignWorkerDriver:
    """Calls the worker at the socket of the choice's provider. The whole conversation goes as one text, in a session of
    its own, because S2's `generate` takes one text and nothing else.

    `trusts` decides by the uid of the listener, before a byte is sent or read. An answer must end with `stop`: without
    it the connection broke off, whether text had come or not.
    """

    def __init__(
        self, access: AccessOf, *, clock: Clock | None = None, trusts: Callable[[int | None], bool] = is_trusted
    ) -> None:
        self._access = access
        self._clock = clock or SystemClock()
        self._trusts = trusts
        self._goodbyes: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Wait, in bounded time, until workers were told of ended calls."""
        await asyncio.gather(*self._goodbyes, return_exceptions=True)

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        started = self._clock.monotonic()
        access = self._access(request.choice)
        text: list[str] = []
        ttft_ms: float | None = None
        session_id, ended, taken = "", False, 0
        connection: _Connection | None = None
        try:
            session_id = await self._create_session(request, access)
            prompt = fold_prompt(request.messages)
            async with asyncio.timeout(access.first_s):  # it may accept connections, and read from none
                connection = await self._connect(access)
                await connection.send(command_json(Generate(session_id=session_id, prompt=prompt), plain=True))
            while not ended:
                async with asyncio.timeout(access.next_s if text else access.first_s):
                    content = await connection.next_event(is_first=not text)
                taken += 1
                if taken % YIELD_EVERY == 0:
                    await asyncio.sleep(0)
                match content:
                    case str() if content:
                        if ttft_ms is None:
                            ttft_ms = (self._clock.monotonic() - started) * 1000
                        text.append(content)
                        yield TextDelta(content)
                    case Stop():
                        ended = True
                        yield _finished(content, access, "".join(text), ttft_ms)
                    case Error():
                        ended = True
                        raise _Failed("worker.refused", content.message)
                    case _:
                        pass
        except (_Failed, OSError, LineTooLong) as error:  # TimeoutError is an OSError
            raise _model_error(error, request, access, streamed=bool(text)) from error
        finally:
            if connection is not None:
                connection.close()
            if session_id:
                self._say_goodbye(session_id, access, abort=not ended)

    async def _create_session(self, request: ModelRequest, access: ProviderAccess) -> str:
        params: JsonObject = {"model": request.choice.model}
        if request.choice.max_tokens is not None:
            params["max_tokens"] = request.choice.max_tokens
        answer = await self._command(command_json(CreateSession(params=params), plain=True), access)
        # S2 does not say who names the session. If the worker does not, we do.
        named = answer.get("session_id")
        return named if isinstance(named, str) and named else request.call_id

    async def _command(self, message: JsonObject, access: ProviderAccess) -> JsonObject:
        """Return the worker's answer to a command. Raise _Failed, OSError, LineTooLong."""
        async with asyncio.timeout(min(COMMAND_S, access.first_s)):
            connection = await self._connect(access)
            try:
                await connection.send(message)
                answer = decode_line(await connection.next_line())
            finally:
                connection.close()
        if not isinstance(answer, dict) or not isinstance(answer.get("ok"), bool):
            raise _Failed("provider.garbage", str(answer))
        if answer["ok"] is False:
            raise _Failed("worker.refused", str(answer.get("error", "")))
        return answer

    async def _connect(self, access: ProviderAccess) -> "_Connection":
        reader, writer = await asyncio.open_unix_connection(access.socket)
        connection = _Connection(reader, writer)
        if not self._trusts(peer_uid(writer.get_extra_info("socket"))):
            connection.close()
            raise _Failed("worker.stranger")
        return connection

    def _say_goodbye(self, session_id: str, access: ProviderAccess, *, abort: bool) -> None:
        """Tell the worker without waiting: whoever stopped the answer wants to go on."""
        task = asyncio.create_task(self._goodbye(session_id, access, abort))
        self._goodbyes.add(task)
        task.add_done_callback(self._goodbyes.discard)

    async def _goodbye(self, session_id: str, access: ProviderAccess, abort: bool) -> None:
        commands = [Abort(session_id=session_id)] if abort else []
        for command in (*commands, CloseSession(session_id=session_id)):
            with contextlib.suppress(_Failed, OSError, LineTooLong):
                async with asyncio.timeout(GOODBYE_S):
                    await self._command(command_json(command, plain=True), access)


class _Connection:
    """A connection to a worker, read line by line."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = LineDecoder(keep_empty=True)
        self._lines: deque[bytes] = deque()

    async def send(self, message: JsonObject) -> None:
        self._writer.write(encode_line(message))
        await self._writer.drain()

    async def next_line(self) -> bytes:
        """Return the next line. Raise _Failed if the connection ended before one."""
        while not self._lines:
            data = await self._reader.read(READ_BYTES)
            if not data:
                raise _Failed("provider.broken_stream", "The worker closed the connection.")
            self._lines.extend(self._decoder.feed(data))
        return self._lines.popleft()

    async def next_event(self, *, is_first: bool) -> LineContent:
        """Return the next line's content. Text without a line end comes before the error about the missing end."""
        try:
            return read_line(await self.next_line(), is_first=is_first)
        except _Failed:
            rest = self._decoder.rest()
            self._decoder = LineDecoder(keep_empty=True)
            if not rest:
                raise
            return read_line(rest, is_first=is_first, has_end=False)

    def close(self) -> None:
        """Close at once: the worker need not read the rest, and may never."""
        self._writer.transport.abort()


def _model_error(error: Exception, request: ModelRequest, access: ProviderAccess, *, streamed: bool) -> ModelError:
    code: ModelErrorCode
    match error:
        case _Failed():
            code = error.code
        case TimeoutError():
            code = "provider.timeout"
        case LineTooLong():
            code = "provider.garbage"
        case PermissionError():
            code = "worker.denied"
        case OSError() if error.errno in (errno.EPIPE, errno.ECONNRESET):
            code = "provider.broken_stream"
        case _:
            code = "provider.unreachable"
    return model_error(
        code, request.choice, detail=str(error), streamed=streamed, place=ErrorContext(address=access.socket)
    )


def _finished(stop: Stop, access: ProviderAccess, text: str, ttft_ms: float | None) -> Finished:
    # Only the configuration knows the price; the worker can't have been told of tools, so none count.
    usage, prices = stop.usage, access.prices
    # A worker that counts no tokens leaves their cost unknown, unless they cost nothing.
    cost = prices.cost(usage) if prices and (usage.total_tokens or prices.are_nothing) else None
    return finished(text=text, finish=stop.finish, usage=usage, cost=cost, ttft_ms=ttft_ms)
