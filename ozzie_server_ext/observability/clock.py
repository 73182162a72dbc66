"""Clocks and id sources: the real ones, and controllable ones for tests and replays."""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from ozzie_server_ext.domain.ids import RANDOM_BYTES, ulid_text


class SystemClock:
    """The machine's time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def milliseconds(self) -> int:
        """Return the milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class FakeClock:
    """A clock that only `advance` moves."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._monotonic = 0.0

    def now(self) -> datetime:
        return self._now

    def milliseconds(self) -> int:
        return int(self._now.timestamp() * 1000)

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds


class Milliseconds(Protocol):
    """A clock that counts for ids."""

    def milliseconds(self) -> int:
        """Return the milliseconds since 1970."""
        ...


class UlidSource:
    """ULIDs that sort in order of creation, also within a millisecond and when the clock steps back."""

    def __init__(self, clock: Milliseconds | None = None) -> None:
        self._clock = clock or SystemClock()
        self._last = 0

    def new(self) -> str:
        milliseconds = self._clock.milliseconds()
        # The ULID specification's monotonic factory: at the same millisecond, one more than the last.
        if milliseconds <= self._last >> 80:
            self._last += 1
        else:
            self._last = (milliseconds << 80) | int.from_bytes(RANDOM_BYTES.take(10), "big")
        return ulid_text(self._last)


class CountingIds:
    """Ids that count up from one: the same in every run."""

    def __init__(self) -> None:
        self._next = 0

    def new(self) -> str:
        self._next += 1
        return ulid_text(self._next)
