"""When a task works, by what is recorded of it (MD-5): not while it waits for a person, for its turn, for a gateway to
take it up again, for its next attempt, or for what it has handed over to skills, which counts by itself.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from ozzie_server_ext.domain.events import (
    Event,
    TaskCancelled,
    TaskFailed,
    TaskPaused,
    TaskQueued,
    TaskStarted,
    TaskSucceeded,
    TaskWaitingApproval,
    TaskWaitingInput,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.toolmeta import SKILLS
from ozzie_server_ext.tasks.recovery import RECOVERY

_RESTS = (
    TaskWaitingInput,
    TaskWaitingApproval,
    TaskPaused,
    TaskSucceeded,
    TaskFailed,
    TaskCancelled,
    TaskQueued,
)
_CALL_ENDS = (ToolCallCompleted, ToolCallFailed, ToolCallCancelled, ToolCallUncertain)

Stretch = tuple[datetime, datetime | None]
"""From when to when something went on; None where it does yet."""


class Work:
    """Whether a task works, by its events one after the other."""

    def __init__(self) -> None:
        self._runs = False
        self._open: set[CallId] = set()
        self._handing_over: set[CallId] = set()

    @property
    def goes_on(self) -> bool:
        """One whose only open calls hand something over waits for that."""
        return self._runs and not (self._open and self._open <= self._handing_over)

    def take(self, event: Event) -> None:
        match event.body:
            case TaskStarted():
                self._runs = True
            case body if isinstance(body, _RESTS):
                self._runs = False
                self._open.clear()  # what is made again is begun again
            case ToolCallRequested(call_id=call_id, tool_id=tool_id) if tool_id.startswith(SKILLS):
                self._handing_over.add(call_id)
            case ToolCallStarted(call_id=call_id):
                self._open.add(call_id)
            case body if isinstance(body, _CALL_ENDS):
                self._open.discard(body.call_id)
            case _:
                pass


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
