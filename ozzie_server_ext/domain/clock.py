"""Ports for the time and for new ids, which are parameters everywhere. The real ones are in `observability.clock`."""

from datetime import UTC, date, datetime
from typing import Protocol


def moment_in(text: str) -> datetime:
    """Return the moment that a text names, in UTC: a day such as 2026-01-31, which begins in UTC, or a moment with an
    offset (RFC 3339). Raises ValueError."""
    if len(text) == len("2026-01-31"):
        day = date.fromisoformat(text)
        return datetime(day.year, day.month, day.day, tzinfo=UTC)
    at = datetime.fromisoformat(text.upper())
    if at.tzinfo is None:
        raise ValueError("a moment needs an offset")
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("a moment beyond all years") from error


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
