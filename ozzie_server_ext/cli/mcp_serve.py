"""`ozzie mcp serve`: Ozzie as an MCP server for clients that start a program, over its standard streams.

`ozzie mcp token` makes tokens for those that speak HTTP.

It hands each message to the running gateway over HTTP and writes what comes back, in both eras of the protocol; if no
gateway runs, it starts one. Nothing but the protocol goes to standard output.
"""

import argparse
import asyncio
import base64
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeGuard
from urllib.parse import urlsplit

from tornado.http1connection import HTTP1Connection, HTTP1ConnectionParameters
from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, RequestStartLine, ResponseStartLine
from tornado.iostream import StreamClosedError
from tornado.tcpclient import TCPClient

from ozzie_kernel.client import GatewayClient
from ozzie_kernel.connect import reach
from ozzie_server_ext.cli.terminal import named_folder, print_notice, print_result
from ozzie_server_ext.config.client_tokens import issue_token, revoke_token, token_hashes
from ozzie_server_ext.config.home import find_home
from ozzie_server_ext.domain.errors import InputError, NotFound, OzzieError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.gateway.relay import trusting
from ozzie_server_ext.protocol.handshake import Handshake
from ozzie_server_ext.protocol.jsontext import dumps, loads
from ozzie_server_ext.protocol.mcp_server import MAX_BODY_BYTES, PROJECT_HEADER, project_header
from ozzie_server_ext.render.text import visible_label

CONNECT_S = 5.0
STREAM_S = 24 * 3600.0
MAX_ANSWER_BYTES = 16 << 20
_SESSION = "mcp-session-id"
_VERSION = "io.modelcontextprotocol/protocolVersion"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter of a method that its header repeats, in the newer era."""
_LOST = "Ozzie's gateway went away. Whether this was done is not known; look before you ask again."


def serve(options: argparse.Namespace) -> int:
    """Serve the client until it closes standard input. Raises OzzieError if no gateway can be reached."""
    project = named_folder(options)
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    sys.stdout = sys.stderr  # whatever prints by mistake
    asyncio.run(Bridge(out, None if project is None else Path(project)).run(sys.stdin.buffer))
    return 0


def token(options: argparse.Namespace) -> int:
    """Print a new token for a client, revoke one, or list the clients that have one."""
    home = find_home(os.environ)
    if options.name is None:
        names = sorted(token_hashes(home))
        lines = names or ["No client has a token. Make one: ozzie mcp token NAME"]
        return print_result({"clients": names}, *lines, as_json=options.json)
    if options.revoke:
        if not revoke_token(home, options.name):
            raise NotFound(
                f"No client {visible_label(options.name)[:40]} has a token.", hint="ozzie mcp token lists them."
            )
        return print_result(
            {"revoked": options.name},
            f"The token of {options.name} is void; what it has open ends within seconds.",
            as_json=options.json,
        )
    made = issue_token(home, options.name)
    words = "It opens /ozzie/mcp and nothing else, and is shown once. Send it as: Authorization: Bearer TOKEN"
    if not options.json:
        print_notice(words)
    return print_result({"client": options.name, "token": made}, made, as_json=options.json)


class _Lost(Exception):
    """The gateway can't be reached, or went away; `was_sent`: after it may have read the request."""

    def __init__(self, *, was_sent: bool) -> None:
        super().__init__()
        self.was_sent = was_sent


class _Answer(HTTPMessageDelegate):
    """Reads an answer: a message, or a stream of them. `write` gets each as it comes."""

    def __init__(self, bridge: "Bridge", request_id: Json, used: str = "") -> None:
        """`used` is the session of the request."""
        self._bridge = bridge
        self._id = request_id
        self._used = used
        self.status = 0
        self.session = ""
        self.message: Json = None
        self._is_stream = False
        self._buffer = bytearray()
        self._data: list[bytes] = []
        self.has_answered = False
        self.is_whole = False

    def headers_received(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> None:
        assert isinstance(start_line, ResponseStartLine)
        self.status = start_line.code
        self.session = headers.get("mcp-session-id", "")
        self._is_stream = headers.get("Content-Type", "").startswith("text/event-stream")

    def data_received(self, chunk: bytes) -> None:
        self._buffer += chunk
        if len(self._buffer) > MAX_ANSWER_BYTES:
            raise StreamClosedError
        while self._is_stream and (end := self._buffer.find(b"\n")) >= 0:
            line = bytes(self._buffer[:end]).rstrip(b"\r")
            del self._buffer[: end + 1]
            if line.startswith(b"data:"):
                self._data.append(line[5:].strip())
            elif not line:
                self._emit(b"".join(self._data))
                self._data.clear()

    def finish(self) -> None:
        self.is_whole = True
        if not self._is_stream and self._buffer:
            self._emit(bytes(self._buffer))

    def _emit(self, text: bytes) -> None:
        if not text:
            return
        try:
            message = loads(text, max_bytes=MAX_ANSWER_BYTES, surrogates="repair")
        except InputError:
            return
        if isinstance(message, dict) and "jsonrpc" not in message:  # the gateway's own refusal
            words = f"{message.get('message', 'It was refused.')} {message.get('hint', '')}".rstrip()
            message = error(self._id, words)
        if isinstance(message, dict) and message.get("id") is None and "error" in message:
            message = {**message, "id": self._id}
        self.message = message
        if self.status == 404 and self._used:
            return  # the session is begun anew
        if isinstance(message, dict) and "method" not in message:
            if self._id is None:
                return  # nobody waits for it
            self.has_answered = True
        self._bridge.write(message)


class Bridge:
    """Hands messages of one client to the gateway."""

    def __init__(self, out: BinaryIO, project: Path | None) -> None:
        self._out = out
        self._project = project
        self._gateway: tuple[Handshake, GatewayClient] | None = None
        self._reaching = asyncio.Lock()
        self._beginning = asyncio.Lock()
        self._initialize: JsonObject | None = None
        self._session = ""
        self._version = ""
        self._calls: dict[Json, asyncio.Task[_Answer | None]] = {}
        self._listening: asyncio.Task[None] | None = None

    async def run(self, source: BinaryIO) -> None:
        """Serve until the end of `source`; then end what the client waited for."""
        await self._reach()  # first, so that a client hears at once if there is none
        lines: asyncio.Queue[bytes] = asyncio.Queue(maxsize=64)
        _read_lines(source, lines, asyncio.get_running_loop())
        while line := await lines.get():
            if line.strip():
                await self._take(line)
        await self._close()

    def write(self, message: Json) -> None:
        """Write a message to the client."""
        self._out.write(dumps(message).encode() + b"\n")
        self._out.flush()

    # --- messages of the client -----------------------------------------------------------------------------------

    async def _take(self, line: bytes) -> None:
        """Handle a message. Calls run side by side; whatever comes with no answer, or begins a session, is in order."""
        try:
            message = loads(line, max_bytes=MAX_BODY_BYTES, surrogates="repair")
        except InputError as problem:
            self.write(error(None, f"Parse error: {problem}", code=-32700))
            return
        if not isinstance(message, dict):
            self.write(error(None, "A message is a JSON object; send one at a time.", code=-32600))
            return
        request_id, method = message.get("id"), message.get("method")
        if not _is_id(request_id) and request_id is not None:
            self.write(error(None, "An id is a text or a whole number.", code=-32600))
            return
        if method == "notifications/cancelled" and self._cancel(message):
            return
        if request_id is None or method is None:
            await self._send(message, None)
            if method == "notifications/initialized":
                self._listen()
        elif method == "initialize":
            await self._begin(message)
        else:
            task = asyncio.ensure_future(self._send(message, request_id))
            self._calls[request_id] = task
            task.add_done_callback(lambda done: self._forget(request_id, done))

    def _forget(self, request_id: Json, done: "asyncio.Task[_Answer | None]") -> None:
        if self._calls.get(request_id) is done:  # a client may use an id again
            del self._calls[request_id]

    def _cancel(self, message: JsonObject) -> bool:
        """End a request of the newer era, where a closed connection cancels. Return False in the older one."""
        params = message.get("params")
        request_id = params.get("requestId") if isinstance(params, dict) else None
        if self._session or not _is_id(request_id) or (task := self._calls.get(request_id)) is None:
            return self._session == ""
        task.cancel()
        return True

    async def _begin(self, message: JsonObject) -> None:
        async with self._beginning:
            self._initialize, self._session, self._version = message, "", ""
            self._note(await self._send(message, message.get("id")))

    def _note(self, answer: _Answer | None) -> None:
        """Note the session that an answer to `initialize` has begun."""
        result = answer.message.get("result") if answer is not None and isinstance(answer.message, dict) else None
        if answer is not None and isinstance(result, dict):
            self._session, self._version = answer.session, str(result.get("protocolVersion", ""))

    async def _send(self, message: JsonObject, request_id: Json) -> _Answer | None:
        """Send a message, and write what comes back; try again with the next gateway if it surely never arrived."""
        for is_last in (False, True):
            headers = self._headers_of(message)
            used = headers.get(_SESSION, "")  # another may have begun when the answer comes
            answer = _Answer(self, request_id, used)
            try:
                await self._exchange("POST", dumps(message).encode(), headers, answer)
            except _Lost as lost:
                if is_last or lost.was_sent:
                    if request_id is not None and not answer.has_answered:
                        self.write(error(request_id, _LOST))
                    return None
                continue
            except OzzieError as problem:
                if request_id is not None:
                    self.write(error(request_id, f"{problem} {problem.hint}".rstrip()))
                return None
            if answer.status == 404 and used and not is_last:
                await self._begin_again(used)
                continue
            if request_id is not None and not answer.has_answered:
                self.write(error(request_id, _LOST))
            return answer
        return None

    async def _begin_again(self, used: str) -> None:
        """Begin a session in place of `used`, as the client began that, without telling the client; unless another call
        has done so."""
        async with self._beginning:
            if self._initialize is None or self._session != used:
                return
            quiet = _Quiet(self, None)
            with suppress(_Lost, OzzieError):
                await self._renew(self._initialize, quiet)

    async def _renew(self, initialize: JsonObject, quiet: "_Quiet") -> None:
        await self._exchange("POST", dumps(initialize).encode(), {}, quiet)
        self._note(quiet)
        done: JsonObject = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self._exchange("POST", dumps(done).encode(), self._headers_of(done), _Quiet(self, None))
        self._listen()

    def _listen(self) -> None:
        """Read what a session of the older era is told beside its answers."""
        if self._listening is not None:
            self._listening.cancel()
        self._listening = asyncio.ensure_future(self._listen_on())

    async def _listen_on(self) -> None:
        with suppress(_Lost, OzzieError):
            await self._exchange("GET", b"", self._headers_of({}), _Answer(self, None, self._session))

    async def _close(self) -> None:
        tasks = [*self._calls.values(), *([self._listening] if self._listening is not None else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._session:
            with suppress(_Lost, OzzieError):
                await self._exchange("DELETE", b"", self._headers_of({}), _Quiet(self, None))
        if self._gateway is not None:
            await self._gateway[1].close()

    # --- HTTP -----------------------------------------------------------------------------------------------------

    def _headers_of(self, message: JsonObject) -> dict[str, str]:
        """Return the headers that go with a message: those of its era."""
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        version = meta.get(_VERSION) if isinstance(meta, dict) else None
        if not isinstance(version, str):
            session = {_SESSION: self._session, "mcp-protocol-version": self._version}
            return {name: value for name, value in session.items() if value}
        method = str(message.get("method", ""))
        found = {"mcp-protocol-version": version, "mcp-method": method}
        name = params.get(_NAMED.get(method, "")) if isinstance(params, dict) else None
        if isinstance(name, str):
            found["mcp-name"] = name
        return {key: _header_value(value) for key, value in found.items()}

    async def _exchange(self, method: str, body: bytes, headers: Mapping[str, str], answer: _Answer) -> None:
        """Make one request. Raises _Lost, OzzieError."""
        handshake = await self._reach()
        address = urlsplit(handshake.url)
        try:
            stream = await TCPClient().connect(
                str(address.hostname),
                address.port or {"http": 80, "https": 443}[address.scheme],
                ssl_options=trusting() if address.scheme == "https" else None,
                timeout=CONNECT_S,
            )
        except (OSError, TimeoutError):
            self._gateway = None
            raise _Lost(was_sent=False) from None
        parameters = HTTP1ConnectionParameters(no_keep_alive=True, header_timeout=STREAM_S, max_body_size=1 << 40)
        connection = HTTP1Connection(stream, True, parameters)
        sent = {
            **headers,
            "Host": address.netloc,
            "Authorization": f"token {handshake.token}",
            "Accept": "application/json, text/event-stream" if method == "POST" else "text/event-stream",
            "Connection": "close",
        }
        if self._project is not None:
            sent[PROJECT_HEADER] = project_header(self._project)
        if method == "POST":
            sent |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        try:
            line = RequestStartLine(method, f"{address.path}ozzie/mcp", "HTTP/1.1")
            await connection.write_headers(line, HTTPHeaders(sent), body)
            connection.finish()
            await connection.read_response(answer)
        except (OSError, StreamClosedError):
            raise _Lost(was_sent=True) from None
        finally:
            connection.close()
        if not answer.is_whole and not answer.has_answered:
            raise _Lost(was_sent=True)

    async def _reach(self) -> Handshake:
        """Return the gateway, and stay connected, so that one that was started for this stays. Raises OzzieError."""
        async with self._reaching:
            if self._gateway is None or self._gateway[1].closed:
                self._gateway = await reach(_connected)
            return self._gateway[0]


class _Quiet(_Answer):
    """An answer that the client did not ask for."""

    def _emit(self, text: bytes) -> None:
        with suppress(InputError):
            self.message = loads(text, max_bytes=MAX_ANSWER_BYTES, surrogates="repair")


async def _connected(handshake: Handshake) -> tuple[Handshake, GatewayClient]:
    return handshake, await GatewayClient.connect(handshake.url, handshake.token)


def error(request_id: Json, words: str, *, code: int = -32603) -> JsonObject:
    """Return an error of JSON-RPC."""
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": words}}


def _is_id(value: Json) -> TypeGuard[str | int]:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _header_value(text: str) -> str:
    """Return a text as the newer era writes it into a header."""
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="


def _read_lines(source: BinaryIO, lines: "asyncio.Queue[bytes]", loop: asyncio.AbstractEventLoop) -> None:
    """Put lines into the queue, from a thread that nobody waits for; an empty one stands for the end."""

    def read() -> None:
        while True:
            line = source.readline(MAX_BODY_BYTES + 2)
            whole = line
            while whole and not whole.endswith(b"\n") and (whole := source.readline(1 << 20)):
                pass  # the rest of a line that is too long to be taken
            try:
                asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()
            except RuntimeError:  # the loop has ended
                return
            if not line:
                return

    threading.Thread(target=read, daemon=True, name="standard input").start()
