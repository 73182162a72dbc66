"""Time and new ids are parameters: these are the ports; the real ones live in observability."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Where a part of Ozzie reads the time, so that a test or a replay can give it another."""

    def now(self) -> datetime:
        """The time now, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes backwards."""
        ...


class IdSource(Protocol):
    """Where new ULIDs come from."""

    def new(self) -> str:
        """A new ULID; within one source each sorts after the one before."""
        ...
