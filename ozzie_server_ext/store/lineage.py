"""The lineage of a session: a fork begins with a part of another session, which it shares by reference."""

from collections.abc import Sequence

import msgspec

from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.store.log import EventFilter, EventLog
from ozzie_server_ext.store.projections.sessions import left_out

_PAGE = 1000


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

    A fork may begin in the part that its parent shares with others. Then an ancestor is read up to the earliest fork on
    the way, and those that had not begun by then are left out.
    """
    found: list[Stretch] = []
    until: int | None = None
    without: frozenset[TaskId] = frozenset()
    while session_id:  # parents are older than forks, so this ends
        row = await log.row("sessions", session_id)
        forked_at = int(str(row["forked_at"])) if row is not None else 0
        if until is None or until > forked_at:
            found.append(Stretch(session_id=session_id, until=until, without=without))
        if row is None:
            break
        until = forked_at if until is None else min(until, forked_at)
        without |= left_out(row["forked_without"])
        session_id = SessionId(str(row["parent"]))
    return found[::-1]


async def read_part(
    log: EventLog,
    part: Stretch,
    types: frozenset[str] | None = None,
    *,
    task_id: TaskId | None = None,
    erased: bool = False,
) -> list[Event]:
    """Return the events of a part in their order: of these types, of this task; with `erased`, also those whose body
    was erased, which is `Erased` then."""
    found: list[Event] = []
    which: EventFilter = {"before": part.before, "session_id": part.session_id, "task_id": task_id, "types": types}
    which |= {"limit": _PAGE, "erased": erased}
    after = 0
    while page := await log.read(**(which | {"after": after})):
        found += part.of(page)
        after = page[-1].position
    return found
