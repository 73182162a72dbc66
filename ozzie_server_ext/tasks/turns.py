"""The turns of a session in their order, with those that it shares with the session that it was forked from."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

import msgspec

from ozzie_server_ext.domain.events import Event, MessageErased, TaskCreated
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.store.lineage import Stretch
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.rows import task_of

_PAGE = 1000
_BEGINNINGS = frozenset({TaskCreated.type, MessageErased.type})


class SessionTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, counted from 1 by `number`, whose first event is at `position`. `row` is its task's; None if a person
    erased the turn, `erased_by` name, at the time `at`.

    A number of 0 stands for all turns of a session that was erased.
    """

    number: int
    session_id: SessionId
    position: int
    at: datetime
    row: Row | None
    erased_by: str = ""


async def turns_of(log: EventLog, lineage: Sequence[Stretch]) -> list[SessionTurn]:
    """Return the turns of a session by its lineage. Raise what reading the log raises."""
    found: list[SessionTurn] = []
    for part in lineage:
        session = await log.row("sessions", part.session_id)
        if session is not None and session["status"] == "erased":
            at = datetime.fromisoformat(str(session["updated_at"]))
            found.append(SessionTurn(number=0, session_id=part.session_id, position=0, at=at, row=None))
            continue
        own = [turn async for turn in _turns_in(log, part)]
        own.sort(key=lambda turn: turn.position)
        count = sum(turn.number > 0 for turn in found)
        found += (msgspec.structs.replace(turn, number=count + index) for index, turn in enumerate(own, 1))
    return found


async def _turns_in(log: EventLog, part: Stretch) -> AsyncIterator[SessionTurn]:
    rows = await log.rows("tasks", where={"session_id": part.session_id, "parent_id": None})
    begun = {task_of(row): row for row in rows}
    async for event in _read(log, part):
        match event.body:
            case MessageErased(first=first, by=by) if part.has(first, None):
                yield _turn(event, first, None, by)
            case TaskCreated() if event.task_id and (row := begun.get(event.task_id)):
                if part.has(event.position, event.task_id):
                    yield _turn(event, event.position, row)
            case _:
                pass


def _turn(event: Event, position: int, row: Row | None, by: str = "") -> SessionTurn:
    assert event.session_id is not None, "it was read from a session"
    return SessionTurn(number=1, session_id=event.session_id, position=position, at=event.ts, row=row, erased_by=by)


async def _read(log: EventLog, part: Stretch) -> AsyncIterator[Event]:
    """Yield the beginnings of tasks and the erasures of turns; also those behind the part, which may be about it."""
    after = 0
    while page := await log.read(after=after, session_id=part.session_id, types=_BEGINNINGS, limit=_PAGE):
        for event in page:
            yield event
        after = page[-1].position
