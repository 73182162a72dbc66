"""How the tool host reaches MCP servers: a program in its sandbox, over its standard streams, or an address.

The library's own transport for programs would start them bare and read lines of any length.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter

from ozzie_server_ext.execution.box import JobDescriptors
from ozzie_server_ext.execution.runner import MIB
from ozzie_server_ext.execution.sandbox_init import FirstProcess, usage, with_children
from ozzie_server_ext.execution.server_box import MEMORY, PROCESSES, server_box
from ozzie_server_ext.programs.mcp_network import Network
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads
from ozzie_server_ext.protocol.ndjson import LineDecoder, LineTooLong
from ozzie_server_ext.protocol.tool_host import Remote, Started

MAX_MESSAGE = 16 * MIB
MAX_STDERR = 2000
MAX_PARTS = 1_000_000
"""Values in a message, roughly: so many small ones take longer to read than all that they say."""
MAX_ASKED = 200
"""Requests of a server that wait for it to read their answers."""
_CHUNK = 64 * 1024
_LOOK_S = 1.0
_LEAVES_S = 1.0
"""How long a server may take to end once its input is closed, as the MCP wants it to."""
_GONE_S = 1.5
"""Together less than the time after which the gateway ends this process, and with it all servers."""
_ENDS_S = 0.5
_WORDS_S = 0.2
"""How long its last words may take: what it started may still hold its standard error."""
_POLL_S = 0.01
_MOST_REFUSED = 5

Streams = tuple[anyio.abc.ObjectReceiveStream[SessionMessage | Exception], anyio.abc.ObjectSendStream[SessionMessage]]


class StartedServer:
    """A server that runs here. `lost` is set when it has ended or broke the rules, and `reason` then says why."""

    def __init__(self, server: Started) -> None:
        self._server = server
        self._said = bytearray()
        self._first: FirstProcess | None = None
        self._is_ending = False
        self._asked = 0
        self.lost = asyncio.Event()
        self.reason = ""
        self.refused: dict[str, None] = {}
        """Hosts that it wanted to reach and was not granted, since they were last told."""

    def _note_refused(self, host: str) -> None:
        if len(self.refused) < _MOST_REFUSED:
            self.refused[host] = None

    def words(self) -> str:
        """Return the last of what it wrote to its standard error."""
        return self._said.decode(errors="replace").strip()

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[Streams, None]:
        """Start it, and yield its messages; end it and all that it started. Raises OSError, Unavailable."""
        descriptors = JobDescriptors()
        hosts = self._server.access.hosts
        network = Network(hosts, self._note_refused) if hosts else None
        inside = () if network is None else (network.inside,)
        try:
            server = self._server
            argv = await asyncio.to_thread(server_box, server.argv, server.env, server.access, descriptors, *inside)
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={},
                cwd="/",
                pass_fds=(*descriptors.all, *inside),
                start_new_session=True,
            )
        except BaseException:
            if network is not None:
                network.close()
            raise
        finally:
            descriptors.close()
        first = FirstProcess(process.pid)
        to_us, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, from_us = anyio.create_memory_object_stream[SessionMessage](0)
        wording = asyncio.create_task(self._keep_words(process))
        works = (self._read(process, to_us, wording), self._write(process, from_us), self._watch(first))
        tasks = [wording, *map(asyncio.create_task, works)]
        if network is not None:
            tasks.append(asyncio.create_task(network.serve()))
        try:
            yield incoming, outgoing
        finally:
            self._is_ending = True
            with anyio.CancelScope(shield=True):
                outgoing.close()
                try:
                    await _to_its_end(self._end(process, first))
                finally:
                    for task in tasks:
                        task.cancel()
                    for stream in (to_us, incoming, from_us):
                        stream.close()
                await asyncio.wait(tasks)

    async def _read(
        self,
        process: asyncio.subprocess.Process,
        to_us: anyio.abc.ObjectSendStream[SessionMessage | Exception],
        wording: asyncio.Task[None],
    ) -> None:
        """Pass its messages on. Its end is known, with its last words, before the stream ends."""
        assert process.stdout is not None
        lines = LineDecoder(max_line=MAX_MESSAGE)
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with to_us:
                try:
                    while chunk := await process.stdout.read(_CHUNK):
                        for line in lines.feed(chunk):
                            if (message := _message(line)) is not None:
                                self._expect_few(message)
                                await to_us.send(message)
                except LineTooLong:
                    self._lose(f"It sent a message of more than {MAX_MESSAGE // MIB} MiB.")
                except _TooMuch as error:
                    self._lose(str(error))
                await asyncio.wait({wording}, timeout=_WORDS_S)
                self._lose("It has ended.")

    async def _write(
        self, process: asyncio.subprocess.Process, from_us: anyio.abc.ObjectReceiveStream[SessionMessage]
    ) -> None:
        assert process.stdin is not None
        try:
            async with from_us:
                async for each in from_us:
                    if isinstance(each.message, JSONRPCResponse | JSONRPCError):
                        self._asked -= 1
                    process.stdin.write(
                        each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                    )
                    await process.stdin.drain()
        except OSError:
            with contextlib.suppress(TimeoutError):  # as a rule it has ended, and its end says more
                await asyncio.wait_for(self.lost.wait(), _ENDS_S)
            self._lose("It closed its input.")

    def _expect_few(self, message: SessionMessage | Exception) -> None:
        """Each request of the server is a task until its answer is written. Raises _TooMuch."""
        if isinstance(message, SessionMessage) and isinstance(message.message, JSONRPCRequest):
            self._asked += 1
            if self._asked > MAX_ASKED:
                raise _TooMuch("It asks for more and more, and does not read the answers.")

    async def _keep_words(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while chunk := await process.stderr.read(_CHUNK):
            self._said += chunk
            del self._said[:-MAX_STDERR]

    async def _watch(self, first: FirstProcess) -> None:
        """End it if it takes more than it may."""
        while not self.lost.is_set() and not self._is_ending:
            await asyncio.sleep(_LOOK_S)
            if not first.look() or first.pid is None:
                continue
            used = await asyncio.to_thread(usage, first.pid, MEMORY, ())
            count = len(await asyncio.to_thread(with_children, first.pid))
            if used.memory > MEMORY:
                self._lose(f"It was ended: it took more than {MEMORY // MIB} MiB of memory.")
            elif count > PROCESSES:
                self._lose(f"It was ended: it had more than {PROCESSES} processes.")
            if self.lost.is_set():
                first.end()

    def _lose(self, reason: str) -> None:
        if self._is_ending:  # that is why
            return
        self.reason = self.reason or reason
        self.lost.set()

    async def _end(self, process: asyncio.subprocess.Process, first: FirstProcess) -> None:
        if process.stdin is not None:
            process.stdin.close()
        if not await _has_ended(process, first, _LEAVES_S):
            first.end()
            if not await _has_ended(process, first, _GONE_S):
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        first.close()


class _TooMuch(Exception):
    """A server does more than it may; the message says what."""


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Await all of it, even when cancelled: a scope's shield stops only its own library's cancelling."""
    task = asyncio.ensure_future(work)
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            is_cancelled = True
    task.result()
    if is_cancelled:
        raise asyncio.CancelledError


async def _has_ended(process: asyncio.subprocess.Process, first: FirstProcess, within_s: float) -> bool:
    """Return whether bubblewrap and everything in the sandbox end in time."""
    for _ in range(int(within_s / _POLL_S)):
        if process.returncode is not None and first.is_gone:
            return True
        await asyncio.sleep(_POLL_S)
    return False


def _message(line: bytes) -> SessionMessage | Exception | None:
    """Return the message in a line; None for a line that is no JSON, as from a server that prints."""
    if line.count(b",") + line.count(b"[") + line.count(b"{") > MAX_PARTS:
        raise _TooMuch(f"It sent a message of more than {MAX_PARTS:,} values.")
    try:
        value = loads(line, max_bytes=MAX_MESSAGE, surrogates="repair")
    except InvalidJson:
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_python(value, by_name=False))
    except ValueError as error:
        return error


# --- an address -------------------------------------------------------------------------------------------------------


class RemoteServer:
    """A server at an address. `status` is that of its last HTTP response; 0 before the first."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self.status = 0

    def streams(self) -> AbstractAsyncContextManager[Streams]:
        """Reach it, and yield its messages. Redirects to another origin are not followed."""
        return _sse(self._remote, self._note) if self._remote.is_sse else _streamable(self._remote, self._note)

    def _note(self, status: int) -> None:
        self.status = status


@asynccontextmanager
async def _streamable(remote: Remote, note: Callable[[int], None]) -> AsyncGenerator[Streams, None]:
    async with (
        _http_client(remote.headers, note) as client,
        streamable_http_client(remote.url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
    ):
        yield streams  # pyright: ignore[reportReturnType]


@asynccontextmanager
async def _sse(remote: Remote, note: Callable[[int], None]) -> AsyncGenerator[Streams, None]:
    async with sse_client(
        remote.url,
        headers=remote.headers,
        httpx_client_factory=lambda headers=None, timeout=None, auth=None: _http_client(headers or {}, note),
    ) as streams:
        yield streams  # pyright: ignore[reportReturnType]


def _http_client(headers: dict[str, str], note: Callable[[int], None]) -> httpx2.AsyncClient:
    timeout = httpx2.Timeout(30.0, read=300.0)
    headers = {**headers, "accept-encoding": "identity"}
    transport = _BoundedTransport(note)
    return httpx2.AsyncClient(headers=headers, timeout=timeout, transport=transport, follow_redirects=False)


class _BoundedTransport(httpx2.AsyncHTTPTransport):
    """Ends an answer that is too long, and tells the status of each. Streams of events are bounded by event."""

    def __init__(self, note: Callable[[int], None]) -> None:
        super().__init__()
        self._note = note

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        self._note(response.status_code)
        # What is packed could be a thousand times as long; it was not asked for, and is not unpacked.
        response.headers.pop("content-encoding", None)
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Bounded(response.stream)
        return response


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MAX_MESSAGE:
                # Of this kind, it fails the call and not the connection.
                raise httpx2.StreamError(f"It sent an answer of more than {MAX_MESSAGE // MIB} MiB.")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
