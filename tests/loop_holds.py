"""How long the event loop is held."""

import asyncio
import os
import time


async def longest_hold(running: "asyncio.Task[object]") -> float:
    """Return the longest time between two turns of this coroutine while `running` ran, in seconds: what the loop's
    thread computed and what it waited for, but not its waits for a processor, which other processes lengthen."""
    statistics = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        longest, before = 0.0, _moment(statistics)
        while not running.done():
            await asyncio.sleep(0)
            now = _moment(statistics)
            longest, before = max(longest, now - before), now
        return longest
    finally:
        os.close(statistics)


def _moment(statistics: int) -> float:
    """Return seconds of a clock that stands still while the thread waits for a processor. The second number of
    `schedstat` counts those waits in nanoseconds (the kernel's Documentation/scheduler/sched-stats)."""
    waited_ns = int(os.pread(statistics, 100, 0).split()[1])
    return time.monotonic() - waited_ns / 1e9
