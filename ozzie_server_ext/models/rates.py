"""Limits of providers that all turns share: requests and tokens a minute, and calls at once."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ozzie_server_ext.domain.clock import Clock

WINDOW_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """None where there is no limit. Requests and tokens are counted over every stretch of 60 s."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    parallel: int | None = None


@dataclass(slots=True, eq=False)
class _Call:
    at: float
    tokens: int


class RateSlot:
    """A call that was let through. `settle` says how many tokens it took in fact."""

    def __init__(self, gate: "_Gate", call: _Call) -> None:
        self._gate = gate
        self._call = call

    def settle(self, tokens: int) -> None:
        self._call.tokens = tokens

    def leave(self) -> None:
        """It is not sent after all, and counts as no request."""
        with contextlib.suppress(ValueError):  # it was a minute ago
            self._gate.recent.remove(self._call)


@dataclass(slots=True)
class _Gate:
    """One provider. Who waits is let through in order: a large request is never overtaken for ever by small ones."""

    order: asyncio.Lock = field(default_factory=asyncio.Lock)
    recent: deque[_Call] = field(default_factory=deque[_Call])
    running: int = 0
    freed: asyncio.Event = field(default_factory=asyncio.Event)


class Rates:
    """Kept in memory: what was sent before a restart is not counted after it."""

    def __init__(self, clock: Clock, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._gates: dict[str, _Gate] = {}

    @asynccontextmanager
    async def place(
        self, provider: str, limits: RateLimits, tokens: int, *, waiting: Callable[[], None] = lambda: None
    ) -> AsyncIterator[RateSlot]:
        """Wait until the provider's limits let a call of about so many tokens through. `waiting` is told once, where it
        does not go at once. A request that is larger than all tokens of a minute goes when it is alone in it."""
        gate = self._gates.setdefault(provider, _Gate())
        told = False
        if gate.order.locked():
            waiting()
            told = True
        async with gate.order:
            while (wait_s := self._wait_s(gate, limits, tokens)) != 0:
                if not told:
                    waiting()
                    told = True
                if wait_s is None:
                    gate.freed.clear()
                    await gate.freed.wait()
                else:
                    await self._sleep(wait_s)
            call = _Call(self._clock.monotonic(), tokens)
            gate.recent.append(call)
            gate.running += 1
        try:
            yield RateSlot(gate, call)
        finally:
            gate.running -= 1
            gate.freed.set()

    def _wait_s(self, gate: _Gate, limits: RateLimits, tokens: int) -> float | None:
        """Seconds until the next look is worth it; 0 where the call may go, None until another one has ended."""
        now = self._clock.monotonic()
        while gate.recent and gate.recent[0].at + WINDOW_S <= now:
            gate.recent.popleft()
        if limits.parallel is not None and gate.running >= limits.parallel:
            return None
        if not gate.recent:
            return 0
        full = limits.requests_per_minute is not None and len(gate.recent) >= limits.requests_per_minute
        if limits.tokens_per_minute is not None:
            full = full or sum(call.tokens for call in gate.recent) + tokens > limits.tokens_per_minute
        return gate.recent[0].at + WINDOW_S - now if full else 0
