"""The tool host: other people's tools, in a process of their own that the gateway starts for one trust.

`python -m ozzie_server_ext.programs.tool_host --fd N --parent PID`. It alone loads `mcp`. Keys come over the socket and
go to the server that they are for; they appear in no log. What a server sends can end its own connection, or this
process, and nothing else.
"""

import asyncio
import logging
import time
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.programs.plane_child import PlaneChild, note, run_child
from ozzie_server_ext.protocol.codec import InvalidShape
from ozzie_server_ext.protocol.ndjson import LineTooLong
from ozzie_server_ext.protocol.tool_host import (
    Abort,
    Connect,
    Error,
    HostEvent,
    Invoke,
    Stop,
    message_json,
    parse_command,
)

if TYPE_CHECKING:
    from ozzie_server_ext.programs.mcp_sessions import Session


class ToolHost(PlaneChild):
    """Serves one connection until it ends."""

    def __init__(self) -> None:
        super().__init__()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._sessions: dict[str, Session] = {}

    def calls(self) -> Iterable[asyncio.Task[None]]:
        return tuple(self._tasks.values())

    async def prepare(self) -> None:
        started = time.perf_counter()
        await asyncio.to_thread(_load)
        self.send_ready(took_ms=round((time.perf_counter() - started) * 1000))

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
            case Connect() | Invoke() if command.id in self._tasks:
                note("A call has the id of another one.")
            case Connect():
                self._tasks[command.id] = self.loop.create_task(self._connect(command))
            case Invoke():
                self._tasks[command.id] = self.loop.create_task(self._invoke(command))

    def _abort(self, call_id: str) -> None:
        if (task := self._tasks.get(call_id)) is None:
            self._tell(Stop(id=call_id))  # it has ended already; whoever aborted it waits for an end
        else:
            # Not before its first step, or it could not even report its end.
            self.loop.call_soon(task.cancel)

    async def _connect(self, connect: Connect) -> None:
        from ozzie_server_ext.programs.mcp_sessions import Failure, Session

        end: HostEvent = Stop(id=connect.id)
        session = self._sessions[connect.id] = Session(connect, self._tell)
        try:
            await session.run()
        except Failure as failure:
            end = failure.event(connect.id)
        except asyncio.CancelledError:
            pass
        finally:
            del self._sessions[connect.id], self._tasks[connect.id]
            self._tell(end)

    async def _invoke(self, invoke: Invoke) -> None:
        from ozzie_server_ext.programs.mcp_sessions import Failure

        end: HostEvent = Stop(id=invoke.id)
        try:
            session = self._sessions.get(invoke.connection)
            if session is None:
                raise Failure("mcp.lost", "The server is not connected any more.")
            async for piece in session.invoke(invoke):
                await self.writable.wait()
                self._tell(piece)
        except Failure as failure:
            end = failure.event(invoke.id)
        except asyncio.CancelledError:
            pass
        finally:
            del self._tasks[invoke.id]
            self._tell(end)

    def _tell(self, event: HostEvent) -> None:
        self.send(message_json(event))


def _load() -> None:
    from ozzie_server_ext.programs import mcp_sessions  # noqa: F401  # it takes half a second


def _prepare_process() -> None:
    # No library may write to the log: what servers send may hold keys and conversations.
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")


def main() -> None:
    """Run until the gateway closes the connection."""
    run_child(ToolHost, __doc__, prepare_process=_prepare_process)


if __name__ == "__main__":
    main()
