"""The lineage of a session: a fork begins with a part of another session, which it shares by reference."""

from collections.abc import Sequence

import msgspec

from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.sessions import left_out


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a session's log that belongs to a lineage: up to the event `until` (None: all), without the events of
    the tasks `without`, which had begun by then and are no part of the fork."""

    session_id: SessionId
    until: int | None = None
    without: frozenset[TaskId] = frozenset()

    @property
    def before(self) -> int | None:
        """The position before which to read it; None: to the end."""
        return None if self.until is None else self.until + 1

    def has(self, position: int, task_id: TaskId | None) -> bool:
        """Whether an event of the session belongs to it."""
        return (self.until is None or position <= self.until) and task_id not in self.without

    def of(self, events: Sequence[Event]) -> list[Event]:
        """Return those of the session's events that belong to it."""
        return [event for event in events if self.has(event.position, event.task_id)]


async def lineage_of(log: EventLog, session_id: SessionId) -> list[Stretch]:
    """Return the parts of which a session's history consists: those of its ancestors, the oldest first, and itself.

    A fork may begin in the part that its parent shares with others, so an ancestor is read up to the earliest fork on
    the way.
    """
    found: list[Stretch] = []
    until: int | None = None
    without: frozenset[TaskId] = frozenset()
    while session_id:  # parents are older than forks, so this ends
        found.append(Stretch(session_id=session_id, until=until, without=without))
        row = await log.row("sessions", session_id)
        if row is None:
            break
        forked_at = int(str(row["forked_at"]))
        until = forked_at if until is None else min(until, forked_at)
        without |= left_out(row["forked_without"])
        session_id = SessionId(str(row["parent"]))
    return found[::-1]
