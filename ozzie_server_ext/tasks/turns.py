"""The turns of a session in their order, with those that it shares with the session that it was forked from."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.events import FINAL_TYPES, Event, MessageErased, TaskCreated, TaskRetried
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.store.lineage import Stretch, read_part
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.rows import task_of

_MARKS = FINAL_TYPES | {TaskCreated.type, TaskRetried.type, MessageErased.type}


class SessionTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, counted from 1 by `number`. `row` is its task's; None if a person (`erased_by`) erased the turn, at the
    time `at`.

    `position` is that of its first event, `ends` are those of its ends and `retries` those after which it went on, as
    far as the session has them: its history ends at `until` in an ancestor, None if the turn is its own.
    """

    number: int
    session_id: SessionId
    position: int
    at: datetime
    row: Row | None
    erased_by: str = ""
    ends: tuple[int, ...] = ()
    retries: tuple[int, ...] = ()
    until: int | None = None

    @property
    def task_id(self) -> TaskId:
        """The task. The turn was not erased."""
        assert self.row is not None, "the turn was not erased"
        return task_of(self.row)

    @property
    def status(self) -> str:
        """That of its task; "erased"; or "cut", if it was in its middle when the session was forked."""
        if self.row is None:
            return "erased"
        return "cut" if self.is_cut else str(self.row["status"])

    @property
    def is_cut(self) -> bool:
        """Whether it goes on in an ancestor only."""
        return self.until is not None and self.end_at(self.until) is None

    def end_at(self, position: int) -> int | None:
        """Return where the turn had ended as of `position`; None if it was going on then."""
        end = max((each for each in self.ends if each <= position), default=None)
        went_on = end is not None and any(end < each <= position for each in self.retries)
        return None if went_on else end


async def turns_of(log: EventLog, lineage: Sequence[Stretch]) -> list[SessionTurn]:
    """Return the turns of a session by its lineage, without those of erased sessions. Raises what reading the log
    raises."""
    found = [turn for part in lineage for turn in await _turns_in(log, part)]
    return [replace(turn, number=number) for number, turn in enumerate(found, 1)]


async def erased_sessions(log: EventLog, lineage: Sequence[Stretch]) -> list[datetime]:
    """Return when the ancestors were erased that are."""
    rows = [await log.row("sessions", part.session_id) for part in lineage]
    return [datetime.fromisoformat(str(row["updated_at"])) for row in rows if row and row["status"] == "erased"]


async def _turns_in(log: EventLog, part: Stretch) -> list[SessionTurn]:
    rows = {
        task_of(row): row for row in await log.rows("tasks", where={"session_id": part.session_id, "parent_id": None})
    }
    turns: dict[TaskId, SessionTurn] = {}
    erased: list[SessionTurn] = []
    # An erasure is recorded later than what it is about.
    for event in await read_part(log, replace(part, until=None), _MARKS):
        task_id = event.task_id
        if isinstance(event.body, MessageErased):
            if await _has(log, part, event.body.first):
                erased.append(_turn(event, event.body.first, None, part.until, event.body.by))
        elif task_id is None or task_id not in rows or not part.has(event.position, task_id):
            pass
        elif isinstance(event.body, TaskCreated):
            turns[task_id] = _turn(event, event.position, rows[task_id], part.until)
        elif (turn := turns.get(task_id)) is None:
            pass  # its beginning was erased
        elif isinstance(event.body, TaskRetried):
            turns[task_id] = replace(turn, retries=(*turn.retries, event.position))
        else:
            turns[task_id] = replace(turn, ends=(*turn.ends, event.position))
    return sorted((*turns.values(), *erased), key=lambda turn: turn.position)


def _turn(event: Event, position: int, row: Row | None, until: int | None, by: str = "") -> SessionTurn:
    assert event.session_id is not None, "it was read from a session"
    return SessionTurn(
        number=0, session_id=event.session_id, position=position, at=event.ts, row=row, erased_by=by, until=until
    )


async def _has(log: EventLog, part: Stretch, position: int) -> bool:
    """Whether the event at `position`, which may be erased, belongs to the part."""
    return bool(part.of(await log.read(after=position - 1, before=position + 1, limit=1, erased=True)))
