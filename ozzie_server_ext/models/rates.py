"""Rate limits of providers, shared by all turns: requests and tokens per minute, and calls at once."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec

from ozzie_server_ext.domain.clock import Clock

WINDOW_S = 60.0


class RateLimits(msgspec.Struct, frozen=True, kw_only=True):
    """None means no limit. Requests and tokens are counted over any 60 s."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    parallel: int | None = None


class _RecentCall(msgspec.Struct, eq=False):
    at: float
    tokens: int


class RateSlot:
    """A call that was admitted. `settle` sets the tokens that it really used."""

    def __init__(self, gate: "_Gate", call: _RecentCall) -> None:
        self._gate = gate
        self._call = call

    def settle(self, tokens: int) -> None:
        self._call.tokens = tokens

    def leave(self) -> None:
        """Withdraw: the call is not sent, and does not count as a request."""
        with contextlib.suppress(ValueError):  # it has left the window already
            self._gate.recent.remove(self._call)


class _Gate(msgspec.Struct):
    """One provider. Calls are admitted in order: small requests never overtake a large one for ever."""

    order: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    recent: deque[_RecentCall] = msgspec.field(default_factory=deque[_RecentCall])
    running: int = 0
    freed: asyncio.Event = msgspec.field(default_factory=asyncio.Event)


class Rates:
    """The limits are kept in memory: what was sent before a restart does not count."""

    def __init__(self, clock: Clock, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._gates: dict[str, _Gate] = {}

    @asynccontextmanager
    async def place(
        self, provider: str, limits: RateLimits, tokens: int, *, waiting: Callable[[], None] = lambda: None
    ) -> AsyncIterator[RateSlot]:
        """Wait until the provider's limits admit a call of about so many tokens. `waiting` is called once if it has to
        wait. A request larger than all tokens of a minute goes when it is alone in it."""
        gate = self._gates.setdefault(provider, _Gate())
        notified = False
        if gate.order.locked():
            waiting()
            notified = True
        async with gate.order:
            while (wait_s := self._wait_s(gate, limits, tokens)) != 0:
                if not notified:
                    waiting()
                    notified = True
                if wait_s is None:
                    gate.freed.clear()
                    await gate.freed.wait()
                else:
                    await self._sleep(wait_s)
            call = _RecentCall(self._clock.monotonic(), tokens)
            gate.recent.append(call)
            gate.running += 1
        try:
            yield RateSlot(gate, call)
        finally:
            gate.running -= 1
            gate.freed.set()

    def _wait_s(self, gate: _Gate, limits: RateLimits, tokens: int) -> float | None:
        """Return the seconds until the next check; 0 if the call may go, None to wait until another one ends."""
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
