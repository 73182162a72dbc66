"""The model worker: litellm behind the worker protocol, in a separate process that the gateway starts.

`python -m ozzie_server_ext.programs.model_worker --fd N --parent PID`. Providers' keys come over the socket and stay in
memory: they appear in no environment and no log.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.programs.plane_child import PlaneChild, note, run_child
from ozzie_server_ext.programs.worker_backend import load_backend, prepare_process
from ozzie_server_ext.protocol.codec import InvalidShape, encode
from ozzie_server_ext.protocol.jsontext import repair_text
from ozzie_server_ext.protocol.ndjson import LineTooLong
from ozzie_server_ext.protocol.worker import (
    Abort,
    CloseSession,
    Configure,
    CreateSession,
    Describe,
    Described,
    Error,
    Generate,
    Provider,
    Reasoning,
    Status,
    Stop,
    event_json,
    parse_command,
)

if TYPE_CHECKING:
    from types import ModuleType


TICK_S = 0.02
MAX_LINE_CHARS = 128 * 1024
"""A character takes six bytes at most, so such a line stays below 1 MiB."""


class DeltaBatch:
    """Collects pieces for each call, and passes messages of the worker protocol to `send`."""

    def __init__(self, send: Callable[[JsonObject], None], *, tick_s: float = TICK_S) -> None:
        self._send = send
        self._tick_s = tick_s
        self._loop = asyncio.get_running_loop()
        self._open: set[str] = set()
        self._halves: dict[str, str] = {}
        self._pending: dict[str, list[str]] = {}
        self._size = 0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, call_id: str, text: str) -> None:
        """Add the next piece of a call's answer; empty text is ignored.

        The first half of a surrogate pair waits for the second: a provider may cut between them, and neither can be
        sent alone.
        """
        text = self._halves.pop(call_id, "") + text
        if "\ud800" <= text[-1:] <= "\udbff":
            self._halves[call_id], text = text[-1], text[:-1]
        for at in range(0, len(text), MAX_LINE_CHARS):
            self._add(call_id, text[at : at + MAX_LINE_CHARS])

    def end(self, call_id: str) -> None:
        """Send what is left of a call that has ended."""
        if half := self._halves.pop(call_id, ""):
            self._add(call_id, half)
        if call_id in self._pending:
            self.flush()
        self._open.discard(call_id)

    def flush(self) -> None:
        """Send everything collected, in one message."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending:
            texts: JsonObject = {call_id: repair_text("".join(parts)) for call_id, parts in self._pending.items()}
            self._pending.clear()
            self._size = 0
            self._send({"type": "tokens", "texts": texts})

    def _add(self, call_id: str, text: str) -> None:
        if call_id not in self._open:
            self._open.add(call_id)
            self._send({"type": "token", "id": call_id, "text": repair_text(text)})
            return
        if self._size + len(text) > MAX_LINE_CHARS:
            self.flush()
        self._pending.setdefault(call_id, []).append(text)
        self._size += len(text)
        if self._timer is None:
            self._due = self._loop.time() + self._tick_s
            self._timer = self._loop.call_at(self._due, self.flush)
        elif self._loop.time() >= self._due:
            self.flush()


class ModelWorker(PlaneChild):
    """Serves one connection until it ends."""

    def __init__(self) -> None:
        super().__init__()
        self._deltas = DeltaBatch(self.send)
        self._providers: dict[str, Provider] = {}
        self._calls: dict[str, tuple[str, asyncio.Task[None]]] = {}
        self._backend: asyncio.Future[ModuleType] = self.loop.create_future()
        self._tokens: Any = None

    def calls(self) -> Iterable[asyncio.Task[None]]:
        return (task for _, task in self._calls.values())

    # --- commands -----------------------------------------------------------------------------------------

    def handle(self, message: JsonObject | str) -> None:
        call_id = message.get("id") if isinstance(message, dict) else None
        try:
            if isinstance(message, str):
                raise InvalidShape("Expected a JSON object.")
            command = parse_command(message)
        except InvalidShape as error:
            self._answer({"ok": False, "error": str(error)}, call_id)
            return
        match command:
            case Configure():
                self._providers = dict(command.providers)
                self._answer({"ok": True}, call_id)
            case Generate() if command.id in self._calls:
                self._answer({"ok": False, "error": "There is a call with this id already."}, None)
            case Generate():
                # The provider as it is known now: lines after this one may change it.
                provider = self._providers.get(str(command.request.get("provider", "")))
                task = self.loop.create_task(self._generate(command, provider))
                self._calls[command.id] = (command.session_id, task)
            case Abort():
                self._abort(command)
            case CreateSession() | CloseSession():
                self._answer({"ok": False, "error": "Each generate brings its own conversation here."}, call_id)
            case Status():
                state: JsonObject = {"ready": self._backend.done(), "calls": len(self._calls), "pid": os.getpid()}
                self._answer({"ok": True, **state}, call_id)
            case Describe() if command.id in self._calls:
                self._answer({"ok": False, "error": "There is a call with this id already."}, None)
            case Describe():
                self._calls[command.id] = (command.id, self.loop.create_task(self._describe(command)))

    def _abort(self, command: Abort) -> None:
        self._answer({"ok": True}, None)
        if command.id and command.id not in self._calls:
            # It has ended already, or never began; the client waits for an end either way.
            self.send(event_json(Stop(finish="cancelled"), command.id))
        for known, (session_id, task) in self._calls.items():
            if session_id == command.session_id and command.id in ("", known):
                # Not before its first step, or it could not even report its end.
                self.loop.call_soon(task.cancel)

    async def _describe(self, command: Describe) -> None:
        try:
            backend = await self._backend
            described = Described(models=tuple(backend.facts_of(name) for name in command.models))
            self._answer({"ok": True, **encode(described)}, command.id)
        except asyncio.CancelledError:
            self.send(event_json(Stop(finish="cancelled"), command.id))
        finally:
            self._calls.pop(command.id, None)

    async def _generate(self, command: Generate, provider: Provider | None) -> None:
        final: Stop | Error
        try:
            if provider is None:
                final = Error(code="provider.not_found", message="There is no provider of this name.")
            else:
                final = await self._call_provider(command, provider)
        except asyncio.CancelledError:
            final = Stop(finish="cancelled")
        finally:
            self._calls.pop(command.id, None)
        self._deltas.end(command.id)
        self.send(event_json(final, command.id))

    async def _call_provider(self, command: Generate, provider: Provider) -> Stop | Error:
        """Return the end of the answer, or the error."""
        backend = await self._backend
        tokens: Any = self._tokens
        for last_try in (provider.oauth2 is None, True):
            access, begun = provider, False
            answer: Any = None
            try:
                access = await tokens.authorized(provider)
                answer = backend.Answer(
                    command,
                    access,
                    on_text=lambda text: self._deltas.add(command.id, text),
                    on_reasoning=lambda: self.send(event_json(Reasoning(), command.id)),
                )
                return await answer.run(writable=self.writable)
            except Exception as error:
                begun = answer is not None and answer.begun
                failed: Error = backend.error_event(error, access, begun=begun)
            if last_try or begun or failed.code != "provider.auth":
                return failed
            # The token may have been revoked, or expired while this machine slept: try a fresh one.
            tokens.forget(provider.oauth2)
        raise AssertionError("the last try returns")

    async def prepare(self) -> None:
        started = time.perf_counter()
        try:
            backend = await load_backend()
        except ImportError as error:
            note(f"litellm can't be loaded: {error}.")
            self.ended.set()
            return
        self._tokens = backend.Tokens()
        self._backend.set_result(backend)
        self.send_ready(took_ms=round((time.perf_counter() - started) * 1000))

    def too_long(self, message: JsonObject, error: LineTooLong) -> JsonObject:
        return event_json(Error(code="provider.garbage", message=str(error)), str(message.get("id", "")))

    def _answer(self, message: JsonObject, call_id: Any) -> None:
        self.send(message if call_id is None else {**message, "id": call_id})


def main() -> None:
    """Run until the gateway closes the connection."""
    run_child(ModelWorker, __doc__, prepare_process=prepare_process)


if __name__ == "__main__":
    main()
