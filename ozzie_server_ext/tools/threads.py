"""Work in a thread that is not left alone: once begun, it is waited for, also by who is told to stop."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 10.0


async def to_its_end(work: Callable[[], T]) -> T:
    """The result of `work`. Where the caller is cancelled meanwhile, it still gets the result of what was begun: a
    thread can't be stopped, and half a step that nobody knows of is worse than a stop that comes a moment later. It
    asks its own task (`cancelling()`) whether that was so. Work that hangs is given up after PATIENCE_S."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running}, timeout=PATIENCE_S)
        if not running.done():
            raise
    return running.result()
