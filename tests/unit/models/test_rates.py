"""Limits of a provider, shared by everybody who asks it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ozzie_server_ext.models.rates import WINDOW_S, RateLimits, Rates
from ozzie_server_ext.observability.clock import FakeClock


class Minute:
    """Time that goes on only where somebody sleeps."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.began = self.clock.monotonic()
        self.rates = Rates(self.clock, self._sleep)
        self.through: list[tuple[str, float]] = []
        self.told: list[str] = []

    async def _sleep(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await asyncio.sleep(0)

    async def call(self, name: str, limits: RateLimits, tokens: int = 0, *, used: int | None = None) -> None:
        async with self.rates.place("p", limits, tokens, waiting=lambda: self.told.append(name)) as place:
            self.through.append((name, self.clock.monotonic() - self.began))
            if used is not None:
                place.settle(used)


async def test_no_stretch_of_a_minute_holds_more_requests_than_the_limit() -> None:
    minute = Minute()

    await asyncio.gather(*(minute.call(str(n), RateLimits(requests_per_minute=3)) for n in range(8)))

    assert [name for name, _ in minute.through] == [str(n) for n in range(8)], "in the order in which they came"
    times = [at for _, at in minute.through]
    assert all(later - earlier >= WINDOW_S for earlier, later in zip(times, times[3:], strict=False))
    assert times[-1] == pytest.approx(2 * WINDOW_S), "and no longer than that"


async def test_tokens_are_counted_as_they_were_used_in_fact() -> None:
    minute, limits = Minute(), RateLimits(tokens_per_minute=100)

    await minute.call("estimated at 90, used 20", limits, 90, used=20)
    await minute.call("fits", limits, 80)
    await minute.call("waits", limits, 1)

    assert [at for _, at in minute.through] == [0, 0, WINDOW_S]
    assert minute.told == ["waits"]


async def test_a_request_that_is_not_sent_after_all_counts_as_none() -> None:
    minute, limits = Minute(), RateLimits(requests_per_minute=2)

    async with minute.rates.place("p", limits, 0) as place:
        place.leave()
    for name in ("first", "second", "third"):
        await minute.call(name, limits)

    assert [at for _, at in minute.through] == [0, 0, WINDOW_S]


async def test_one_that_leaves_after_its_minute_leaves_the_others_counted() -> None:
    minute, limits = Minute(), RateLimits(requests_per_minute=1)

    async with minute.rates.place("p", limits, 0) as place:
        await minute.call("behind it", limits)
        place.leave()
    await minute.call("last", limits)

    assert [at for _, at in minute.through] == [WINDOW_S, 2 * WINDOW_S]


async def test_a_request_larger_than_a_minutes_tokens_goes_alone() -> None:
    minute, limits = Minute(), RateLimits(tokens_per_minute=100)

    await minute.call("small", limits, 10)
    await minute.call("large", limits, 1000)

    assert minute.through == [("small", 0), ("large", WINDOW_S)]


async def test_no_more_than_the_limit_run_at_once_and_one_that_ends_lets_the_next_through() -> None:
    rates, limits = Rates(FakeClock()), RateLimits(parallel=2)
    running, most = 0, 0
    gate = asyncio.Event()

    @asynccontextmanager
    async def one() -> AsyncIterator[None]:
        nonlocal running, most
        async with rates.place("p", limits, 0):
            running += 1
            most = max(most, running)
            yield
            running -= 1

    async def call() -> None:
        async with one():
            await gate.wait()

    calls = [asyncio.ensure_future(call()) for _ in range(7)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert running == 2
    calls[0].cancel()  # one that is given up gives its place back
    calls[3].cancel()  # and one that waits takes none
    gate.set()
    done = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 10)

    assert most == 2
    assert [isinstance(each, asyncio.CancelledError) for each in done] == [n in (0, 3) for n in range(7)]


async def test_providers_do_not_wait_for_one_another() -> None:
    minute, limits = Minute(), RateLimits(requests_per_minute=1)

    async with minute.rates.place("p", limits, 0), minute.rates.place("q", limits, 0):
        pass

    assert minute.clock.monotonic() == minute.began
