"""Ports for the time and for new ids, which are parameters everywhere. The real ones are in `observability.clock`."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """A source of time, which tests and replays replace."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start. They never go backwards."""
        ...


class IdSource(Protocol):
    """A source of new ULIDs."""

    def new(self) -> str:
        """Return a new ULID. Within one source each sorts after the one before."""
        ...
