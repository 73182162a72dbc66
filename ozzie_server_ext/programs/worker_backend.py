"""litellm in one of our processes: settings that keep it quiet, and loading it without blocking the loop."""

import asyncio
import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import AsyncGenerator, Awaitable
from typing import TYPE_CHECKING

from ozzie_server_ext.models.driver import AccessOf, ModelEvent, ModelRequest, Reasoning, TextDelta
from ozzie_server_ext.models.failures import model_error
from ozzie_server_ext.models.worker_client import command_of, failure_of, finished_of, provider_of
from ozzie_server_ext.programs.plane_child import note

if TYPE_CHECKING:
    from types import ModuleType


def prepare_process() -> None:
    """Configure the process. Must run before litellm is loaded."""
    # No library may write to the log: providers' messages repeat keys and conversations.
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    threading.excepthook = lambda args: note(f"A thread failed: {args.exc_type.__name__}.")
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    # In its development mode litellm loads a .env file from the folders above it.
    os.environ["LITELLM_MODE"] = "PRODUCTION"
    # litellm cuts an answer after 100 equal pieces, as in a table row; the turn bounds answers itself.
    os.environ["REPEATED_STREAMING_CHUNK_LIMIT"] = str(sys.maxsize)


async def load_backend() -> "ModuleType":
    """Return the module `worker_litellm`, warmed up. Loading takes seconds, so it runs in a thread.

    Raises ImportError.
    """
    loop = asyncio.get_running_loop()
    loaded: asyncio.Future[ModuleType] = loop.create_future()
    # A daemon: the process may have to end while this still loads.
    threading.Thread(target=_load, args=(loop, loaded), name="loading", daemon=True).start()
    backend = await loaded
    await backend.warm_up()
    return backend


def _load(loop: asyncio.AbstractEventLoop, loaded: "asyncio.Future[ModuleType]") -> None:
    try:
        from ozzie_server_ext.programs import worker_litellm

        worker_litellm.prepare()
    except ImportError as error:
        loop.call_soon_threadsafe(loaded.set_exception, error)
    except Exception as error:  # another version of litellm may lack what we need
        failed = ImportError(f"litellm can't be used ({type(error).__name__})")
        loop.call_soon_threadsafe(loaded.set_exception, failed)
    else:
        loop.call_soon_threadsafe(loaded.set_result, worker_litellm)


MAX_WAITING = 256
"""Unread pieces of an answer; above this number, reading from the provider stops."""


class LitellmDriver:
    """Calls models through litellm in this process. `backend` resolves to `worker_litellm`; calls wait for it."""

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

        def on_text(text: str) -> None:
            waiting.put_nowait(TextDelta(text))
            if waiting.qsize() >= MAX_WAITING:
                room.clear()

        provider = provider_of(access)
        answer = backend.Answer(
            command_of(request, request.call_id, access),
            provider,
            on_text=on_text,
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
            except Exception as error:  # litellm raises many kinds; `error_event` sorts them out
                failed = backend.error_event(error, provider, begun=answer.begun)
                raise failure_of(failed, request, access, streamed=bool(text)) from error
            yield finished_of(stop, access, "".join(text), ttft_ms)
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait({running})
