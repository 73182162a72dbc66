"""The connections of a tool host to MCP servers, by the `mcp` package, which only executables may load."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any

import anyio
import msgspec
from mcp import Client
from mcp.client import IncomingMessage, InputRequiredRoundsExceededError
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
    Implementation,
    ListRootsResult,
    Root,
    Tool,
    ToolListChangedNotification,
)
from pydantic import ValidationError

from ozzie_server_ext import __version__
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.programs.mcp_answers import answered, offers_of, short
from ozzie_server_ext.programs.mcp_questions import NotAskable, question_of, result_of
from ozzie_server_ext.programs.mcp_transports import FORBIDDEN, UNAUTHORIZED, Ask, RemoteServer, StartedServer, rights
from ozzie_server_ext.programs.tool_output import Failure, text_of
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.jsontext import InvalidJson, canonical_bytes, loads, repair_text
from ozzie_server_ext.protocol.tool_host import (
    MAX_LIST_BYTES,
    MAX_SERVER_TOOLS,
    Claims,
    Connect,
    Connected,
    ErrorCode,
    HostEvent,
    Invoke,
    Output,
    Progress,
    Remote,
    Renew,
    ServerTool,
    Started,
    Tools,
)
from ozzie_server_ext.render.text import quoted

MAX_PAGES = 50
_RELIST_S = 1.0
"""A server that reports changes all the time is listed once in so long."""
_PROGRESS_S = 0.1
_LIST_S = 30.0
_RENEW_S = 60.0
_MAX_WORDS = 500
_MAX_NAME = 128
_MAX_SCHEMA_DEPTH = 56
"""Lines to the gateway have 64 levels at most."""
_MAX_TEXT = 16_000
"""Characters of a description or of instructions that go on to the gateway."""


class Session:
    """A connection to a server: `run` makes it, keeps it, and ends it; meanwhile `invoke` may be called."""

    def __init__(self, connect: Connect, send: Callable[[HostEvent], None], ask: Ask) -> None:
        self._connect = connect
        self._send = send
        self._ask = ask
        self._server = connect.server
        server = connect.server
        self._started = StartedServer(server) if isinstance(server, Started) else None
        self._remote = RemoteServer(server, self._another_token) if isinstance(server, Remote) else None
        self._client: Client | None = None
        self._calls: dict[str, _Call] = {}
        self._has_changed = asyncio.Event()
        self._ended = asyncio.Event()
        """Set when a server at an address has forgotten the session."""

    async def run(self) -> None:
        """Connect, and stay connected until cancelled. Raises Failure."""
        try:
            await self._run()
        except Failure:
            raise
        except OzzieError as error:
            raise Failure("sandbox.unavailable", " ".join(filter(None, [str(error), error.hint]))) from None
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is None or current.cancelling():
                raise
            # The library cancels the task that entered its context if the connection breaks.
            raise Failure("mcp.lost", self._why("The connection broke.")) from None
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            if isinstance(inner := _innermost(error), Failure):
                raise inner from None
            if self._client is not None:
                raise Failure("mcp.lost", self._why(_words(error))) from None
            if self._remote is not None:
                raise self._rejection(self._remote, _words(error)) from None
            raise Failure("mcp.start", self._why(_words(error))) from None

    async def _run(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            server = self._started or self._remote
            assert server is not None
            client = Client(
                server.streams(),
                client_info=Implementation(name="ozzie", version=__version__),
                message_handler=self._on_message,
                list_roots_callback=self._roots,
                elicitation_callback=self._elicited,
                cache=None,
            )
            try:
                async with asyncio.timeout(self._connect.within_s):
                    await stack.enter_async_context(client)
                    tools = await _tools_of(client)
            except TimeoutError:
                words = f"It did not answer within {self._connect.within_s:g} s."
                raise Failure("mcp.timeout", self._why(words)) from None
            self._client = client
            client.session.validate_tool_result = _unchecked
            self._send(self._connected(client, tools))
            async with asyncio.TaskGroup() as group:
                listening = group.create_task(self._listen(client))
                following = group.create_task(self._follow(client))
                try:
                    await self._until_lost()
                finally:
                    listening.cancel()
                    following.cancel()

    async def _until_lost(self) -> None:
        await (self._ended if self._started is None else self._started.lost).wait()
        failure = Failure("mcp.lost", self._why("It has ended."))
        # At once, as ending it takes a while: the next call must go to another connection.
        self._send(failure.event(self._connect.id))
        raise failure

    def _connected(self, client: Client, tools: tuple[ServerTool, ...]) -> Connected:
        info = client.server_info
        return Connected(
            id=self._connect.id,
            name=short(info.name if info else "", _MAX_NAME),
            version=short(info.version if info else "", _MAX_NAME),
            era=client.protocol_version,
            instructions=short(client.instructions or "", _MAX_TEXT),
            tools=tools,
            offers=offers_of(client),
        )

    def _rejection(self, remote: RemoteServer, words: str) -> Failure:
        """Return why an address can't be connected to: the last HTTP status says more than `words`, which are the
        server's or the library's."""
        match remote.status:
            case 401:
                return self._unauthorized()
            case 403 if remote.scope:
                return self._forbidden(remote.scope)
            case 403:
                return Failure("mcp.start", "It refuses you (HTTP 403): you may not be allowed to use it.")
            case 404:
                return Failure("mcp.start", "There is no MCP server at this address (HTTP 404).")
            case status if status >= 400:
                return Failure("mcp.start", f"{words.splitlines()[0].rstrip('.')} (HTTP {status}).")
            case _:
                return Failure("mcp.start", words)

    def _unauthorized(self) -> Failure:
        """Return the failure for HTTP 401, with which a server says that it did nothing."""
        server = self._server
        assert isinstance(server, Remote)
        if server.token:
            return Failure("mcp.signed_out", "It does not accept your sign-in any more (HTTP 401).")
        if server.headers:
            return Failure("mcp.key", "It does not accept the key that it was given (HTTP 401).")
        return Failure("mcp.sign_in", "It wants you to sign in, or a key (HTTP 401).")

    def _forbidden(self, scope: str) -> Failure:
        """Return the failure for HTTP 403 about rights that a sign-in lacks."""
        wanted = f': it wants the right "{scope}"' if scope else ""
        return Failure("mcp.signed_out", f"Your sign-in does not go so far (HTTP 403){wanted}.", scope=scope)

    def _why(self, words: str) -> str:
        """Return a sentence about the end, with the last that the server itself wrote."""
        if self._started is None:
            return words
        said = self._started.words()[-_MAX_WORDS:]
        return " ".join(
            filter(None, [self._started.reason or words, f"It wrote: {said}" if said else "", self._refused()])
        )

    def _refused(self) -> str:
        """Return a sentence about hosts that it was refused since the last one, or ""."""
        if self._started is None or not self._started.refused:
            return ""
        hosts = ", ".join(self._started.refused)
        self._started.refused.clear()
        return f"It was refused the network to {hosts}, which nobody granted it."

    async def _another_token(self, token: str) -> str:
        """Ask the gateway for a token in place of a rejected one; return "" if there is none in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_RENEW_S):
                return await self._ask(Renew(id=self._connect.id, token=token))
        return ""

    # --- what the server begins -----------------------------------------------------------------------------------

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._has_changed.set()

    async def _roots(self, context: Any) -> ListRootsResult:
        """The folders that it was granted."""
        server = self._server
        access = server.access if isinstance(server, Started) else None
        paths = (*access.writes, *access.reads) if access else ()
        return ListRootsResult(roots=[Root(uri=f"file://{path}") for path in paths])  # pyright: ignore[reportArgumentType]

    async def _elicited(
        self, context: Any, params: ElicitRequestFormParams | ElicitRequestURLParams
    ) -> ElicitResult | ErrorData:
        """Have a person asked, if the server asks during a call. In the older era it does not say during which, so of
        several none can ask."""
        call = _CALL.get() or (next(iter(self._calls.values())) if len(self._calls) == 1 else None)
        if call is None or call.call_id not in self._calls:
            return ElicitResult(action="decline")
        try:
            question = question_of(call.call_id, params)
        except NotAskable as why:
            self._send(Progress(id=call.call_id, text=f"{why} Nobody was asked."))
            return ElicitResult(action="decline")
        async with call.paused(), call.asking:
            return result_of(question, await self._ask(question))

    async def _listen(self, client: Client) -> None:
        """Follow a server of the newer era, which reports changes only on a stream that was asked for."""
        with contextlib.suppress(Exception):  # of the older era, or it has no such stream
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._has_changed.set()

    async def _follow(self, client: Client) -> None:
        """Tell the gateway of each change of the tools. Raises Failure if they can't be listed."""
        while True:
            await self._has_changed.wait()
            await asyncio.sleep(_RELIST_S)
            self._has_changed.clear()
            try:
                async with asyncio.timeout(_LIST_S):
                    tools = await _tools_of(client)
            except (Failure, MCPError, ValidationError, TimeoutError) as error:
                # Else its tools would go on as they were described before.
                raise Failure("mcp.lost", f"Its changed tools can't be listed. {_words(error)}") from None
            self._send(Tools(id=self._connect.id, tools=tools))

    # --- calls ----------------------------------------------------------------------------------------------------

    async def invoke(self, invoke: Invoke) -> str:
        """Call a tool; return the JSON of its `Output`. Raises Failure."""
        if self._client is None or (self._started is not None and self._started.lost.is_set()):
            raise Failure("mcp.lost", self._why("It is not connected."))
        calling = asyncio.ensure_future(self._call(self._client, invoke))
        lost = asyncio.ensure_future((self._started.lost if self._started else self._refused_there()).wait())
        try:
            await asyncio.wait({calling, lost}, return_when=asyncio.FIRST_COMPLETED)
            if not calling.done():
                if self._remote is not None:
                    raise self._rejection(self._remote, "It refuses the call.")
                raise Failure("mcp.lost", self._why("It has ended."), was_sent=True)
            output = calling.result()
            if output.failed and (refused := self._refused()):
                output = msgspec.structs.replace(output, texts=(*output.texts, refused))
            return text_of(output)
        finally:
            calling.cancel()
            lost.cancel()

    def _refused_there(self) -> asyncio.Event:
        assert self._remote is not None
        return self._remote.refused

    async def _call(self, client: Client, invoke: Invoke) -> Output:
        told_at = 0.0

        async def report(progress: float, total: float | None, message: str | None) -> None:
            nonlocal told_at
            now = time.monotonic()
            if now - told_at < _PROGRESS_S:
                return
            told_at = now
            count = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
            self._send(Progress(id=invoke.id, text=repair_text(short(message or count, _MAX_WORDS))))

        try:
            async with asyncio.timeout(invoke.within_s) as limit:
                call = self._calls[invoke.id] = _Call(invoke.id, limit)
                _CALL.set(call)
                try:
                    output = await answered(client, invoke, report)
                finally:
                    del self._calls[invoke.id]
        except TimeoutError:
            raise Failure("mcp.timeout", f"It did not answer within {invoke.within_s:g} s.", was_sent=True) from None
        except MCPError as error:
            # -32000 stands for a connection that was closed; all other codes are the server's answer.
            is_lost = error.code == -32000
            code: ErrorCode = "mcp.lost" if is_lost else "mcp.refused"
            words = short(error.message, _MAX_WORDS)
            if self._started is None and error.code == UNAUTHORIZED:
                raise self._unauthorized() from None
            if self._started is None and error.code == FORBIDDEN:
                raise self._forbidden(rights(words)) from None
            if self._started is None and error.code == -32600 and words == _FORGOTTEN:
                self._ended.set()
                raise Failure("mcp.lost", "It has ended the session.") from None
            if self._started is None and error.code in _OF_HTTP:
                # The library's, for an answer that it can't read: the call may have been carried out.
                raise Failure("mcp.garbage", _OF_HTTP[error.code].format(words.split("\n")[0]), was_sent=True) from None
            raise Failure(code, self._why(words) if is_lost else words, was_sent=is_lost) from None
        except Failure:
            raise
        except ValidationError as error:
            words = f"Its answer does not have the form of a result: {_words(error)}"
            raise Failure("mcp.garbage", words, was_sent=True) from None
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise Failure("mcp.lost", self._why(_words(error)), was_sent=True) from None
        except InputRequiredRoundsExceededError:
            raise Failure("mcp.garbage", "It asks for more input without end.", was_sent=True) from None
        except Exception as error:
            raise Failure("mcp.garbage", f"Its answer can't be used: {_words(error)}", was_sent=True) from None
        return output


class _Call:
    """A call that is being made. Its time does not pass while a person is asked; `asking` is held meanwhile."""

    def __init__(self, call_id: str, limit: asyncio.Timeout) -> None:
        self.call_id = call_id
        self.asking = asyncio.Lock()
        self._limit = limit
        self._left_s = 0.0
        self._pauses = 0

    @contextlib.asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        now = asyncio.get_running_loop().time
        if not self._pauses:
            self._left_s = (self._limit.when() or now()) - now()
            self._limit.reschedule(None)
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses and not self._limit.expired():
                with contextlib.suppress(RuntimeError):  # the call has ended
                    self._limit.reschedule(now() + self._left_s)


_CALL: ContextVar[_Call | None] = ContextVar("the call of a server that is being made", default=None)

_FORGOTTEN = "Session terminated"
"""The library's words for an answer 404: the server does not know the session, and did nothing."""
_OF_HTTP = {
    -32700: "Its answer can't be read: {}",
    -32603: "It answered with an error of HTTP. {}",
    -32600: "{}",
}


async def _unchecked(name: str, result: CallToolResult) -> None:
    """Does nothing, in place of the library's check of a result by the server's own schema, which can take forever."""


async def _tools_of(client: Client) -> tuple[ServerTool, ...]:
    """Return all tools of a server. Raises Failure for a list that does not end."""
    if client.server_capabilities.tools is None:
        return ()
    found: list[ServerTool] = []
    cursor: str | None = None
    size = 0
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            found.append(_tool(tool))
            size += len(json.dumps(encode(found[-1])))
            if len(found) > MAX_SERVER_TOOLS or size > MAX_LIST_BYTES:
                most = f"{MAX_SERVER_TOOLS} tools, with {MAX_LIST_BYTES >> 10} kB of descriptions"
                raise Failure("mcp.too_long", f"It lists more than {most}.")
        cursor = page.next_cursor
        if cursor is None:
            return tuple(found)
    raise Failure("mcp.too_long", f"Its list of tools has more than {MAX_PAGES} pages.")


def _tool(tool: Tool) -> ServerTool:
    claims = tool.annotations
    schema: JsonObject = tool.input_schema
    try:
        loads(canonical_bytes(schema), max_bytes=1 << 24, max_depth=_MAX_SCHEMA_DEPTH)
    except InvalidJson as error:
        raise Failure(
            "mcp.garbage", f"The arguments of {quoted(tool.name[:_MAX_NAME])} can't be read. {error}"
        ) from None
    return ServerTool(
        name=repair_text(tool.name[: _MAX_NAME + 1]),
        schema=schema,
        title=short(tool.title or (claims.title if claims else None) or "", _MAX_NAME),
        description=short(tool.description or "", _MAX_TEXT),
        claims=Claims(
            read_only=claims.read_only_hint,
            destructive=claims.destructive_hint,
            idempotent=claims.idempotent_hint,
            open_world=claims.open_world_hint,
        )
        if claims
        else Claims(),
    )


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def _words(error: BaseException) -> str:
    """Return the innermost error of a group in words."""
    error = _innermost(error)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}."
    text = str(error) or type(error).__name__
    return short(text, _MAX_WORDS)
