"""How long the event loop is held."""

import asyncio
import time


async def longest_hold(running: "asyncio.Task[object]") -> float:
    """Return the most processor time that the loop took between two turns of this coroutine while `running` ran, in
    seconds. Not the time that passed, which other processes lengthen."""
    longest, before = 0.0, time.thread_time()
    while not running.done():
        await asyncio.sleep(0)
        now = time.thread_time()
        longest, before = max(longest, now - before), now
    return longest
