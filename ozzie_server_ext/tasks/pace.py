"""How long what is done at once may keep the event loop: many quick steps together are a long one."""

import asyncio
from collections import deque

SLICE_S = 0.002
"""Of all runs together, before everybody else has a turn."""


class Pace:
    """Of one event loop. Those who have to wait go on in the order in which they came."""

    def __init__(self) -> None:
        self._until = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def keep(self) -> None:
        """To be awaited before each piece of work that does not wait itself."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._until:
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            loop.call_soon(self._begin_slice)
        await turn

    def _begin_slice(self) -> None:
        loop = asyncio.get_running_loop()
        self._until = loop.time() + SLICE_S
        turn = self._waiting.popleft()
        if not turn.done():  # whoever waited may have been cancelled
            turn.set_result(None)
        if self._waiting:
            loop.call_soon(self._begin_slice)
