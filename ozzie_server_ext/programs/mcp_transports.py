"""How the tool host reaches MCP servers: a program in its sandbox, over its standard streams, or an address.

The library's own transport for programs would start them bare and read lines of any length.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
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
from ozzie_server_ext.protocol.tool_host import HostEvent, Remote, Started

MAX_MESSAGE = 16 * MIB
MAX_STDERR = 2000
READ_S = 1200.0
"""How long a server at an address may be silent: longer than a person whom it asks has for the answer."""
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

UNAUTHORIZED, FORBIDDEN = 1401, 1403
"""Codes of errors, in place of what a server says with HTTP 401, or with 403 about rights that a sign-in lacks. The
message of the second is the rights that it wants."""
_SCOPE = re.compile(r'\bscope=(?:"([^"]{1,1000})"|([^\s,"]{1,1000}))')
_RIGHTS = re.compile(r"[\x21\x23-\x5b\x5d-\x7e ]*")
"""What a scope may consist of (RFC 6749, section 3.3)."""

Ask = Callable[[HostEvent], Awaitable[str]]
"""Asks the gateway something, and returns its answer."""
Renewing = Callable[[str], Awaitable[str]]
"""Returns another token in place of one that was rejected, or ""."""


class RemoteServer:
    """A server at an address. `status` is that of its last HTTP response, or of the first that refused whoever calls; 0
    before any. `refused` is set once it
    rejects a message, over the older transport, where the library would wait for an answer."""

    def __init__(self, remote: Remote, renew: Renewing) -> None:
        self._remote = remote
        self._bearer = _Bearer(remote.token, renew, self._note_refusal) if remote.token else None
        self.status = 0
        self.scope = ""
        """The rights that the last response asked for."""
        self.refused = asyncio.Event()

    def streams(self) -> AbstractAsyncContextManager[Streams]:
        """Reach it, and yield its messages. Redirects to another origin are not followed."""
        return self._sse() if self._remote.is_sse else self._streamable()

    @asynccontextmanager
    async def _streamable(self) -> AsyncGenerator[Streams, None]:
        async with (
            self._http_client(self._remote.headers) as client,
            streamable_http_client(self._remote.url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
        ):
            yield streams  # pyright: ignore[reportReturnType]

    @asynccontextmanager
    async def _sse(self) -> AsyncGenerator[Streams, None]:
        async with sse_client(
            self._remote.url,
            headers=self._remote.headers,
            httpx_client_factory=lambda headers=None, timeout=None, auth=None: self._http_client(headers or {}),
        ) as streams:
            yield streams  # pyright: ignore[reportReturnType]

    def _http_client(self, headers: dict[str, str]) -> httpx2.AsyncClient:
        timeout = httpx2.Timeout(30.0, read=READ_S)
        headers = {**headers, "accept-encoding": "identity"}
        transport = _BoundedTransport(self._note)
        return httpx2.AsyncClient(
            headers=headers, timeout=timeout, transport=transport, follow_redirects=False, auth=self._bearer
        )

    def _note(self, response: httpx2.Response, request: httpx2.Request) -> None:
        # A server of the newer era rejects what the library tries after a 401, and says less then.
        if self.status not in (401, 403) or response.status_code < 400:
            self.status = response.status_code
            self.scope = scope_of(response)
        if self._bearer is None:
            self._note_refusal(response, request)

    def _note_refusal(self, response: httpx2.Response, request: httpx2.Request) -> None:
        if self._remote.is_sse and request.method == "POST" and response.status_code in (401, 403):
            self.refused.set()


class _Bearer(httpx2.Auth):
    """Sends the token of a sign-in, and another one if the server rejects it."""

    def __init__(self, token: str, renew: Renewing, on_end: Callable[[httpx2.Response, httpx2.Request], None]) -> None:
        self._token = token
        self._renew = renew
        self._on_end = on_end
        self._renewing = asyncio.Lock()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        token = self._token
        request.headers["authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == 401 and (fresh := await self._instead_of(token)):
            request.headers["authorization"] = f"Bearer {fresh}"
            response = yield request
        self._on_end(response, request)

    async def _instead_of(self, token: str) -> str:
        async with self._renewing:
            if self._token == token:  # else another request was first
                self._token = await self._renew(token) or token
            return "" if self._token == token else self._token


def scope_of(response: httpx2.Response) -> str:
    """Return the rights that a response asks for (RFC 6750, section 3), or ""."""
    found = _SCOPE.search(response.headers.get("www-authenticate", ""))
    return "" if found is None else rights(found[1] or found[2])


def rights(scope: str) -> str:
    """Return a scope that a server named, in one form; "" if it is none."""
    return " ".join(scope.split()) if _RIGHTS.fullmatch(scope) else ""


def _in_our_words(response: httpx2.Response) -> tuple[int, str] | None:
    """Return the code and message in place of what a server says, if it wants another sign-in."""
    if response.status_code == 401:
        return UNAUTHORIZED, ""
    if response.status_code == 403 and "insufficient_scope" in response.headers.get("www-authenticate", ""):
        return FORBIDDEN, scope_of(response)
    return None


class _BoundedTransport(httpx2.AsyncHTTPTransport):
    """Ends an answer that is too long, and tells of each. Streams of events are bounded by event."""

    def __init__(self, note: Callable[[httpx2.Response, httpx2.Request], None]) -> None:
        super().__init__()
        self._note = note

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        self._note(response, request)
        if (ours := _in_our_words(response)) is not None:
            # A server says it in any form; so that the library ends the very call, it becomes an error of JSON-RPC.
            await response.aclose()
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": ours[0], "message": ours[1]}}
            kept = {"www-authenticate": response.headers.get("www-authenticate", "")}
            return httpx2.Response(response.status_code, headers=kept, json=error)
        # What is packed could be a thousand times as long; it was not asked for, and is not unpacked.
        response.headers.pop("content-encoding", None)
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = BoundedStream(response.stream, MAX_MESSAGE)
        return response


class BoundedStream(httpx2.AsyncByteStream):
    """Ends an answer of more than `most` bytes."""

    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream = stream
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._most:
                # Of this kind, it fails the call and not the connection.
                raise httpx2.StreamError(f"It sent an answer of more than {in_words(self._most)}.")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def in_words(size: int) -> str:
    """Return a bound in bytes for people."""
    return f"{size // MIB} MiB" if size >= MIB else f"{size // 1024} KiB"
