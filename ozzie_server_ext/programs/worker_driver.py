"""Models through litellm in this very process, as a driver: what the model worker does, without a wire between."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable
from typing import TYPE_CHECKING

from ozzie_server_ext.models.driver import AccessOf, ModelEvent, ModelRequest, Reasoning, TextDelta
from ozzie_server_ext.models.failures import model_error
from ozzie_server_ext.models.worker_client import command_of, failure_of, finished_of, provider_of

if TYPE_CHECKING:
    from types import ModuleType

MAX_WAITING = 256
"""Pieces of an answer that nobody has read yet; above it the provider waits."""


class LitellmDriver:
    """`backend` gives `worker_litellm` once it is loaded; calls wait for it."""

    def __init__(self, backend: "Awaitable[ModuleType]", access: AccessOf) -> None:
        self._backend = asyncio.ensure_future(backend)
        self._access = access

    @property
    def ready(self) -> bool:
        return self._backend.done()

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        access = self._access(request.choice)
        started = time.perf_counter()
        try:
            backend = await asyncio.shield(self._backend)
        except ImportError as error:
            raise model_error("worker.unavailable", request.choice, detail=str(error)) from error
        waiting: asyncio.Queue[ModelEvent | None] = asyncio.Queue()
        room = asyncio.Event()
        room.set()

        def take(text: str) -> None:
            waiting.put_nowait(TextDelta(text))
            if waiting.qsize() >= MAX_WAITING:
                room.clear()

        provider = provider_of(access)
        answer = backend.Answer(
            command_of(request, request.call_id, access),
            provider,
            on_text=take,
            on_reasoning=lambda: waiting.put_nowait(Reasoning()),
        )
        running = asyncio.ensure_future(answer.run(writable=room))
        running.add_done_callback(lambda _: waiting.put_nowait(None))
        text: list[str] = []
        ttft_ms: float | None = None
        try:
            while (event := await waiting.get()) is not None:
                room.set()
                if isinstance(event, TextDelta):
                    if ttft_ms is None:
                        ttft_ms = (time.perf_counter() - started) * 1000
                    text.append(event.text)
                yield event
            try:
                stop = running.result()
            except Exception as error:  # litellm raises whatever it likes; `error_event` knows what it means
                failed = backend.error_event(error, provider, begun=answer.begun)
                raise failure_of(failed, request, access, streamed=bool(text)) from error
            yield finished_of(stop, access, "".join(text), ttft_ms)
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait({running})
