"""Cancelling work at the kernel's interrupt: ipykernel's own handler does not wake a waiting loop."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


async def interruptible(work: Awaitable[T]) -> T:
    """Await `work`; SIGINT cancels it. Raises what it raises, including CancelledError."""
    task = asyncio.ensure_future(work)
    with _on_interrupt(task.cancel):
        return await task


@contextmanager
def _on_interrupt(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` on the loop at SIGINT."""
    if threading.current_thread() is not threading.main_thread():
        yield  # a subshell: signals reach the main thread only
        return
    loop = asyncio.get_running_loop()
    before = signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(stop))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
