"""From when to when tasks have worked, and how long that is in all (MD-5)."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.tasks.work import RECOVERY, Work

Stretch = tuple[datetime, datetime | None]
"""From when to when something went on; None where it does yet."""


def worked(events: Iterable[Event], now: datetime) -> timedelta:
    """How long a task has worked, by its events up to now."""
    return sum(((end or now) - begin for begin, end in stretches(events)), timedelta())


def stretches(events: Iterable[Event]) -> list[Stretch]:
    """From when to when a task has worked, by its events up to now. Of one that a gateway's end cut off, until the last
    thing that it recorded."""
    found: list[Stretch] = []
    work = Work()
    since, last = None, None
    for event in events:
        work.take(event)
        is_late = event.source == RECOVERY  # what that records, it records long after the task was cut off
        if since is None and work.goes_on and not is_late:
            since = event.ts
        elif since and not work.goes_on:
            found.append((since, last if is_late and last else event.ts))
            since = None
        if not is_late:
            last = event.ts
    return found if since is None else [*found, (since, None)]
