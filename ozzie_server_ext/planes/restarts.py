"""When a child that died is started again, and when no more: pauses that grow, then an open circuit (DESIGN §2.15)."""

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The times of DESIGN §2.15, in seconds. A pause is chosen by how many deaths in a row went before it."""

    silent_s: float = 20.0
    starting_silent_s: float = 60.0
    pauses_s: tuple[float, ...] = (0.1, 0.5, 2.0, 10.0, 30.0)
    jitter: float = 0.2
    circuit_deaths: int = 5
    circuit_window_s: float = 120.0


class Restarts:
    """Counts deaths. Times are seconds of one monotonic clock."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._deaths: deque[float] = deque(maxlen=pace.circuit_deaths)
        self._in_a_row = 0

    def death(self, now: float, *, lived_s: float) -> float | None:
        """Counts a death: the pause before the next start, None where there is to be none for now."""
        self._deaths.append(now)
        self._in_a_row = 1 if lived_s > self._pace.circuit_window_s else self._in_a_row + 1
        if self.circuit_open(now):
            return None
        return self._pace.pauses_s[min(self._in_a_row, len(self._pace.pauses_s)) - 1]

    def circuit_open(self, now: float) -> bool:
        """Whether so many died in so short a time that another start would be in vain."""
        full = len(self._deaths) == self._pace.circuit_deaths
        return full and now - self._deaths[0] < self._pace.circuit_window_s
