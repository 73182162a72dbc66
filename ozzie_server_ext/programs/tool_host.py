"""The tool host: other people's tools, in a process of their own that the gateway starts for one trust.

`python -m ozzie_server_ext.programs.tool_host --fd N --parent PID`. It alone loads `mcp` and `extism`. Keys come over
the socket and go to the server or plugin that they are for; they appear in no log. What these send can end their own
connection, or this process, and nothing else.
"""

import asyncio
import logging
import warnings
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, TypeAlias

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.programs.plane_child import PlaneChild, note, run_child
from ozzie_server_ext.programs.tool_output import Failure
from ozzie_server_ext.protocol.codec import InvalidShape
from ozzie_server_ext.protocol.jsontext import repair_text
from ozzie_server_ext.protocol.ndjson import LineTooLong
from ozzie_server_ext.protocol.tool_host import (
    PIECE_CHARS,
    Abort,
    Answer,
    Connect,
    Error,
    Granted,
    HostEvent,
    Invoke,
    Module,
    Piece,
    Program,
    Refresh,
    SignIn,
    Stop,
    message_json,
    parse_command,
)


class Connection(Protocol):
    """A connected server or a loaded plugin: `run` makes it, keeps it, and ends it; meanwhile `invoke` may be called,
    which returns the JSON of an `Output`. Both raise `tool_output.Failure`."""

    async def run(self) -> None: ...

    async def invoke(self, invoke: Invoke) -> str: ...


Make: TypeAlias = Callable[[Connect, Callable[[HostEvent], None], Callable[[HostEvent], Awaitable[str]]], Connection]
"""Makes a connection that sends events, and asks the gateway."""


class ToolHost(PlaneChild):
    """Serves one connection until it ends."""

    def __init__(self) -> None:
        super().__init__()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._connections: dict[str, Connection] = {}
        self._asking: dict[str, asyncio.Future[str]] = {}

    def calls(self) -> Iterable[asyncio.Task[None]]:
        return tuple(self._tasks.values())

    async def prepare(self) -> None:
        """What is needed is loaded with the first connection that needs it."""
        self.send_ready()

    def too_long(self, message: JsonObject, error: LineTooLong) -> JsonObject:
        failed = Error(id=str(message.get("id", "")), code="mcp.too_long", message=str(error), was_sent=True)
        return message_json(failed)

    def handle(self, message: JsonObject | str) -> None:
        try:
            command = parse_command(message if isinstance(message, dict) else {})
        except InvalidShape as error:
            note(f"A message was not understood: {error}")
            return
        match command:
            case Abort():
                self._abort(command.id)
            case Answer():
                if (asking := self._asking.get(command.id)) is not None and not asking.done():
                    asking.set_result(command.text)
            case Connect() | Invoke() | SignIn() | Refresh() if command.id in self._tasks:
                note("A call has the id of another one.")
            case Connect():
                self._tasks[command.id] = self.loop.create_task(self._connect(command))
            case Invoke():
                self._tasks[command.id] = self.loop.create_task(self._invoke(command))
            case SignIn() | Refresh():
                self._tasks[command.id] = self.loop.create_task(self._sign_in(command))

    def _abort(self, call_id: str) -> None:
        if (task := self._tasks.get(call_id)) is None:
            self._tell(Stop(id=call_id))  # it has ended already; whoever aborted it waits for an end
        else:
            # Not before its first step, or it could not even report its end.
            self.loop.call_soon(task.cancel)

    async def _connect(self, connect: Connect) -> None:
        end: HostEvent = Stop(id=connect.id)
        try:
            # What it needs is loaded in a thread: it takes half a second.
            make = await asyncio.to_thread(_KINDS.get(type(connect.server), _servers))
            connection = self._connections[connect.id] = make(connect, self._tell, self._ask)
            await connection.run()
        except Failure as failure:
            end = failure.event(connect.id)
        except asyncio.CancelledError:
            pass
        finally:
            self._connections.pop(connect.id, None)
            del self._tasks[connect.id]
            self._tell(end)

    async def _invoke(self, invoke: Invoke) -> None:
        end: HostEvent = Stop(id=invoke.id)
        try:
            connection = self._connections.get(invoke.connection)
            if connection is None:
                raise Failure("mcp.lost", "It is not connected any more.")
            text = await connection.invoke(invoke)
            *before, last = range(0, len(text), PIECE_CHARS)
            for at in before:
                await self.writable.wait()
                self._tell(Piece(id=invoke.id, text=text[at : at + PIECE_CHARS]))
            end = Stop(id=invoke.id, text=text[last:])
        except Failure as failure:
            end = failure.event(invoke.id)
        except asyncio.CancelledError:
            pass
        finally:
            del self._tasks[invoke.id]
            self._tell(end)

    async def _sign_in(self, command: SignIn | Refresh) -> None:
        from ozzie_server_ext.programs.mcp_auth import SignInFailed, refreshed, signed_in

        end: HostEvent = Stop(id=command.id)
        try:
            grant = await (signed_in(command, self._ask) if isinstance(command, SignIn) else refreshed(command))
            self._tell(Granted(id=command.id, grant=grant))
        except SignInFailed as failure:
            end = Error(id=command.id, code=failure.code, message=repair_text(str(failure)))
        except asyncio.CancelledError:
            pass
        except Exception as error:
            # Not its words: they may quote a token.
            end = Error(id=command.id, code="mcp.auth", message=f"Signing in failed ({type(error).__name__}).")
        finally:
            del self._tasks[command.id]
            self._tell(end)

    async def _ask(self, question: HostEvent) -> str:
        """Send a question of a call, and wait for its answer."""
        answer = self._asking[question.id] = self.loop.create_future()
        try:
            self._tell(question)
            return await answer
        finally:
            del self._asking[question.id]

    def _tell(self, event: HostEvent) -> None:
        self.send(message_json(event))


def _servers() -> Make:
    from ozzie_server_ext.programs.mcp_sessions import Session

    return Session


def _plugins() -> Make:
    from ozzie_server_ext.programs.wasm_plugins import LoadedPlugin

    return lambda connect, tell, ask: LoadedPlugin(connect, tell)


def _programs() -> Make:
    from ozzie_server_ext.programs.native_plugins import LoadedProgram

    return lambda connect, tell, ask: LoadedProgram(connect, tell)


_KINDS: dict[type, Callable[[], Make]] = {Module: _plugins, Program: _programs}


def _prepare_process() -> None:
    # No library may write to the log: what servers send may hold keys and conversations.
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")


def main() -> None:
    """Run until the gateway closes the connection."""
    run_child(ToolHost, __doc__, prepare_process=_prepare_process)


if __name__ == "__main__":
    main()
