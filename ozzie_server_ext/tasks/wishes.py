"""What was wanted last of a task, by its events: that it is held, or goes on (ADR 41)."""

from collections.abc import Iterable
from typing import NamedTuple

from ozzie_server_ext.domain.events import (
    Event,
    TaskCancelled,
    TaskFailed,
    TaskPaused,
    TaskPausing,
    TaskResumed,
    TaskSucceeded,
)

BY_YOU = "by you"
"""Why a task is paused, as the line of its state says it."""


class Wish(NamedTuple):
    """That a task is `held`, or goes on; `position` is where in the log that was said, and `has_come` whether it is
    so by now."""

    position: int
    held: bool
    by: str = ""
    reason: str = ""
    has_come: bool = False


def last_wish(events: Iterable[Event]) -> Wish | None:
    """The last one of a task of these events; None where there was none since it last ended."""
    last: Wish | None = None
    is_paused = False
    for event in events:
        match event.body:
            case TaskPausing(by=by, reason=reason, wanted=wanted):
                last = Wish(event.position, wanted, by, reason, has_come=not wanted)
            case TaskPaused():
                is_paused = True
                last = last and last._replace(has_come=True)
            case TaskResumed(by=by) if is_paused:  # of what waited for an answer, it says nothing
                last, is_paused = Wish(event.position, held=False, by=by, has_come=True), False
            case TaskSucceeded() | TaskFailed() | TaskCancelled():
                last, is_paused = None, False
            case _:
                pass
    return last


def wished(events: Iterable[Event]) -> TaskPaused | None:
    """The pause that somebody asked for in a task of these events, and that has not come."""
    wish = last_wish(events)
    if wish is None or not wish.held or wish.has_come:
        return None
    return TaskPaused(by=wish.by, reason=wish.reason or BY_YOU)
