"""Erasing a session, or a message with its turn, in one transaction (docs/adr/0060-erasure.md).

The bodies of its events go, with what models were sent and answered, and the tables are rebuilt without them. What has
to stay true without the bodies is in the fact of the erasure: use that counts against budgets, and marks of files. What
remains in files and in free pages of the database is removed afterwards, by whoever finds the row in `cleanups`.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple, TypedDict

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.errors import Conflict, Gone, NotFound, Unavailable
from ozzie_server_ext.domain.events import (
    ERASURE_TYPES,
    ConversationCompacted,
    Event,
    LabelsCleared,
    MessageErased,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    SessionErased,
)
from ozzie_server_ext.domain.ids import BlobRef, MessageId, SessionId, TaskId
from ozzie_server_ext.domain.remains import BudgetUse, ChosenModel, FileMark, ModelUse, Remains
from ozzie_server_ext.domain.tasks import FINAL
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.store import contents, search, snapshots, sqlite_events, sqlite_rows
from ozzie_server_ext.store.blobs import digest_of
from ozzie_server_ext.store.projections import budgets, marks, usage
from ozzie_server_ext.store.projections.blobs import named_by
from ozzie_server_ext.store.projections.sessions import left_out
from ozzie_server_ext.store.sqlite_rows import SqliteRows
from ozzie_server_ext.store.tables import Key, Row, Table
from ozzie_server_ext.store.texts import ArtifactTexts

_PAGE = 500
_CALLS = frozenset({ModelCallStarted.type, ModelCallCompleted.type, ModelCallFailed.type})
_IN = "IN (SELECT value FROM json_each(?))"


class Target(NamedTuple):
    """What a person erases: a session or, with a `message_id`, the turn of that message. `by` is who does it."""

    by: str
    session_id: SessionId
    message_id: MessageId | None = None


def session_of(connection: sqlite3.Connection, message_id: MessageId) -> SessionId:
    """Return the session of a message. Raises NotFound."""
    row = _row(connection, "SELECT session_id FROM messages WHERE message_id = ?", message_id)
    if row is None or row[0] is None:
        raise NotFound(
            f"There is no message {message_id[:40]}.", hint="List those of a session with ozzie messages list SESSION."
        )
    return SessionId(row[0])


class Erasure(NamedTuple):
    """The fact that is still to be recorded in the session's stream, and the blobs that nobody needs any more."""

    fact: SessionErased | MessageErased
    blobs: tuple[BlobRef, ...]


def erase(connection: sqlite3.Connection, rows: SqliteRows, target: Target, texts: ArtifactTexts) -> Erasure:
    """Erase in the open transaction. Raises NotFound; Gone if it was erased before; Conflict while a turn runs that
    would repeat it."""
    fork = _session(connection, target.session_id)
    tasks = _tasks(connection, target)
    first = _first_of(connection, target, tasks)
    heirs = _heirs(connection, target.session_id)
    forks = _readers(connection, target, first, tasks)
    _expect_no_open_task(connection, (target.session_id, *forks))
    before = {table.name: _by_key(connection, table) for table in _LASTING}
    models, keys = _chosen_models(connection, heirs), _keys(connection)

    readers = forks if target.message_id is None else (target.session_id, *forks)
    positions = _positions(connection, target, tasks)
    named = {ref for event in _read(connection, positions) for ref in named_by(event.body)}
    indexed = sqlite_events.not_erased(connection, texts.unchanged)
    removed = search.remove(connection, _read(connection, positions), indexed)
    _delete_bodies(connection, positions)
    _delete_bodies(connection, _summaries(connection, readers, after=first))
    sqlite_events.rebuild(connection, rows, texts, index=not removed)
    end = sqlite_events.head(connection).position + 1
    repeating = repeating_blobs(connection, {session_id: [range(first + 1, end)] for session_id in readers})
    blobs = tuple(sorted(_unneeded(connection, named | repeating.keys(), repeating)))
    contents.erase(connection, map(digest_of, blobs))
    snapshots.forget_all(connection)

    after = {table.name: _by_key(connection, table) for table in _LASTING}
    remains = _remains(before, after, is_session=target.message_id is None)
    if target.message_id is not None:
        fact = MessageErased(message_id=target.message_id, by=target.by, first=first, forks=forks, remains=remains)
        return Erasure(fact, blobs)
    lost = models - _chosen_models(connection, heirs)
    back = _keys(connection).items() - keys.items()
    remains = replace(remains, models=tuple(sorted(lost)), keys=tuple(sorted(key for key, _ in back)))
    return Erasure(SessionErased(by=target.by, forks=forks, remains=remains, **fork), blobs)


# --- what belongs to it ---------------------------------------------------------------------------------------------


class _Fork(TypedDict):
    """Where a session was forked from: see `SessionErased`."""

    parent: str
    forked_at: int
    turn: int
    without: tuple[TaskId, ...]


def _session(connection: sqlite3.Connection, session_id: SessionId) -> _Fork:
    """Return where the session was forked from. Raises NotFound, Gone."""
    names = "status, updated_at, parent, forked_at, forked_turn, forked_without"
    row = _row(connection, f"SELECT {names} FROM sessions WHERE session_id = ?", session_id)
    if row is None:
        raise NotFound(f"There is no session {session_id[:40]}.", hint="List them with ozzie sessions list.")
    status, updated_at, parent, forked_at, turn, without = row
    if status == "erased":
        raise Gone(f"The session {session_id} was erased on {updated_at[:10]}.")
    return {"parent": parent, "forked_at": forked_at, "turn": turn, "without": tuple(sorted(left_out(without)))}


def _tasks(connection: sqlite3.Connection, target: Target) -> tuple[TaskId, ...]:
    """Return the tasks to erase: all of the session, or that of the message, the one that delegated it, and all that
    were delegated from there."""
    if target.message_id is None:
        found = connection.execute("SELECT task_id FROM tasks WHERE session_id = ?", (target.session_id,))
        return tuple(TaskId(task_id) for (task_id,) in found)
    tree = """
        WITH RECURSIVE above (task_id, parent_id) AS (
            SELECT task_id, parent_id FROM tasks WHERE task_id = (SELECT task_id FROM messages WHERE message_id = ?)
            UNION
            SELECT t.task_id, t.parent_id FROM above JOIN tasks AS t ON t.task_id = above.parent_id
        ), tree (task_id) AS (
            SELECT task_id FROM above WHERE parent_id IS NULL
            UNION
            SELECT t.task_id FROM tree JOIN tasks AS t ON t.parent_id = tree.task_id
        )
        SELECT task_id FROM tree"""
    found = connection.execute(tree, (target.message_id,))
    tasks = tuple(TaskId(task_id) for (task_id,) in found)
    if not tasks:
        raise NotFound(f"There is no turn of the message {target.message_id[:40]}.")
    return tasks


def _first_of(connection: sqlite3.Connection, target: Target, tasks: Sequence[TaskId]) -> int:
    if target.message_id is None:
        row = _row(connection, "SELECT min(position) FROM events WHERE session_id = ?", target.session_id)
    else:
        row = _row(connection, f"SELECT min(position) FROM events WHERE task_id {_IN}", dumps(tasks))
    return 0 if row is None or row[0] is None else row[0]


def _heirs(connection: sqlite3.Connection, session_id: SessionId) -> tuple[SessionId, ...]:
    """Return the sessions forked from this one, and from those: they may have its chosen model."""
    tree = """
        WITH RECURSIVE tree (session_id) AS (
            SELECT session_id FROM sessions WHERE parent = ?
            UNION
            SELECT s.session_id FROM tree JOIN sessions AS s ON s.parent = tree.session_id
        )
        SELECT session_id FROM tree ORDER BY session_id"""
    return tuple(SessionId(each) for (each,) in connection.execute(tree, (session_id,)))


def _readers(
    connection: sqlite3.Connection, target: Target, first: int, tasks: Sequence[TaskId]
) -> tuple[SessionId, ...]:
    """Return the forks whose history has the event `first` of this session: one may leave a turn out that had begun."""
    turn = frozenset(tasks) if target.message_id is not None else frozenset[TaskId]()
    found: list[SessionId] = []
    pending = [target.session_id]
    sql = "SELECT session_id, forked_without FROM sessions WHERE parent = ? AND forked_at >= ?"
    while pending:
        for fork, without in connection.execute(sql, (pending.pop(), first)).fetchall():
            if not turn & left_out(without):
                found.append(SessionId(fork))
                pending.append(SessionId(fork))
    return tuple(sorted(found))


def _expect_no_open_task(connection: sqlite3.Connection, sessions: Sequence[SessionId]) -> None:
    ended = dumps(sorted(status.value for status in FINAL))
    sql = f"SELECT title, session_id FROM tasks WHERE session_id {_IN} AND status NOT {_IN} LIMIT 1"
    row = connection.execute(sql, (dumps(sessions), ended)).fetchone()
    if row is not None:
        title, session_id = row
        where = "" if session_id == sessions[0] else f", in the session {session_id}, which began with this one"
        raise Conflict(
            f'A turn is not over that reads it: "{title[:60]}"{where}.',
            hint="Wait for its end, or cancel it with ozzie tasks cancel.",
            code="conflict.open_task",
        )


def _positions(connection: sqlite3.Connection, target: Target, tasks: Sequence[TaskId]) -> list[int]:
    """Return the positions of the events to erase. That a person cleared labels stays: forks and files rely on it."""
    of_tasks = f"SELECT position FROM events WHERE task_id {_IN}"
    if target.message_id is not None:
        return [position for (position,) in connection.execute(of_tasks, (dumps(tasks),))]
    of_session = "SELECT position FROM events WHERE session_id = ?"
    both = f"{of_session} AND type != ? UNION {of_tasks}"
    found = connection.execute(both, (target.session_id, LabelsCleared.type, dumps(tasks)))
    return [position for (position,) in found]


def _summaries(connection: sqlite3.Connection, sessions: Sequence[SessionId], *, after: int) -> list[int]:
    sql = f"SELECT position FROM events WHERE session_id {_IN} AND type = ? AND position > ?"
    found = connection.execute(sql, (dumps(sessions), ConversationCompacted.type, after))
    return [position for (position,) in found]


# --- what goes ------------------------------------------------------------------------------------------------------

Ranges = Mapping[SessionId, Sequence[range]]
"""Positions by session."""


def _delete_bodies(connection: sqlite3.Connection, positions: Iterable[int]) -> None:
    connection.executemany("DELETE FROM bodies WHERE position = ?", ((position,) for position in positions))


def _read(connection: sqlite3.Connection, positions: Sequence[int]) -> Iterator[Event]:
    for begin in range(0, len(positions), _PAGE):
        yield from sqlite_events.read_at(connection, positions[begin : begin + _PAGE])


def repeating_blobs(connection: sqlite3.Connection, more: Ranges | None = None) -> Counter[BlobRef]:
    """Return the blobs that were erased although facts name them, and how many facts do: requests that were sent after
    an erased turn, and what models said of them for other purposes than to answer, repeat the turn. `more`: further
    positions by session whose calls repeat what is being erased."""
    found: Counter[BlobRef] = Counter()
    ranges = _repeating(connection)
    for session_id in ranges.keys() | (more or {}).keys():
        positions = [*ranges.get(session_id, ()), *(more or {}).get(session_id, ())]
        answering: set[str] = set()
        for event in sqlite_events.read_all(connection, _CALLS, session_id):
            match event.body:
                case ModelCallStarted(call_id=call_id, purpose="answer"):
                    answering.add(call_id)
                case ModelCallCompleted(call_id=call_id) | ModelCallFailed(call_id=call_id) if call_id in answering:
                    continue
                case _:
                    pass
            if any(event.position in each for each in positions):
                found.update(named_by(event.body))
    return found


def _repeating(connection: sqlite3.Connection) -> dict[SessionId, list[range]]:
    """Return the positions at which calls repeated what was erased later."""
    found: dict[SessionId, list[range]] = {}
    for event in sqlite_events.read_all(connection, ERASURE_TYPES):
        match event.body:
            case SessionErased(forks=forks):
                sessions, first = forks, 0
            case MessageErased(forks=forks, first=first) if event.session_id is not None:
                sessions = (event.session_id, *forks)
            case _:
                continue
        for session_id in sessions:
            found.setdefault(session_id, []).append(range(first + 1, event.position))
    return found


def _unneeded(
    connection: sqlite3.Connection, refs: Iterable[BlobRef], repeating: Mapping[BlobRef, int]
) -> Iterator[BlobRef]:
    for ref in refs:
        if not is_needed(connection, ref, repeating):
            yield ref


def is_needed(connection: sqlite3.Connection, ref: BlobRef, repeating: Mapping[BlobRef, int]) -> bool:
    """Whether a fact needs the blob that is not among the `repeating_blobs`."""
    row = _row(connection, "SELECT needed FROM blobs WHERE ref = ?", ref)
    return row is not None and row[0] > repeating.get(ref, 0)


def erased_sessions(connection: sqlite3.Connection) -> set[SessionId]:
    """Return the sessions that were erased as a whole."""
    return {
        SessionId(each) for (each,) in connection.execute("SELECT session_id FROM sessions WHERE status = 'erased'")
    }


# --- what stays true ------------------------------------------------------------------------------------------------

_LASTING = (budgets.BUDGETS, usage.USAGE, marks.MARKS)
"""The tables whose rows stay as they are, whatever is erased."""

_Rows = dict[Key, Row]


def _by_key(connection: sqlite3.Connection, table: Table) -> _Rows:
    found = (dict(zip(table.names, row, strict=True)) for row in sqlite_rows.all_rows(connection, table))
    return {table.key_of(row): row for row in found}


def _remains(before: dict[str, _Rows], after: dict[str, _Rows], *, is_session: bool) -> Remains:
    """Return what the tables lack now. The budgets of tasks go with them, and that of a session with it."""
    lasting_scopes = ("project", "day") if is_session else ("project", "day", "session")
    return Remains(
        budgets=tuple(
            BudgetUse(**more)
            for more in _lacking(budgets.BUDGETS, budgets.COUNTERS, before, after)
            if more["scope"] in lasting_scopes
        ),
        usage=tuple(ModelUse(**more) for more in _lacking(usage.USAGE, usage.COUNTERS, before, after)),
        marks=tuple(_lacking_marks(before[marks.MARKS.name], after[marks.MARKS.name])),
    )


def _lacking(
    table: Table, counters: Sequence[str], before: dict[str, _Rows], after: dict[str, _Rows]
) -> Iterator[dict[str, Any]]:
    for key, row in before[table.name].items():
        now = after[table.name].get(key) or table.row()
        more = {name: _int(row[name]) - _int(now[name]) for name in counters}
        if any(more.values()):
            yield {**dict(zip(table.key, key, strict=True)), **more}


def _lacking_marks(before: _Rows, after: _Rows) -> Iterator[FileMark]:
    """Yield the marks of all files: one that is absent may come back from another branch, a backup or a share."""
    for key, row in before.items():
        content, now = marks.content_of(row), after.get(key)
        if content and (now is None or marks.content_of(now) != content):
            yield FileMark(path=str(row["path"]), labels=content.labels, sources=content.sources)


def _chosen_models(connection: sqlite3.Connection, sessions: Sequence[SessionId]) -> set[ChosenModel]:
    sql = f"SELECT session_id, chosen_model, chosen_base_url FROM sessions WHERE session_id {_IN}"
    return {ChosenModel(*row) for row in connection.execute(sql, (dumps(sessions),))}


def _keys(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the session that each key opens."""
    return dict(connection.execute("SELECT key, session_id FROM session_keys WHERE session_id != ''"))


def _int(value: object) -> int:
    assert isinstance(value, int), "a counter is a number"
    return value


def _row(connection: sqlite3.Connection, sql: str, value: str) -> tuple[Any, ...] | None:
    return connection.execute(sql, (value,)).fetchone()


# --- traces ---------------------------------------------------------------------------------------------------------


class Traces(NamedTuple):
    """What an erasure may have left: blobs that are files, and text in the readable files of `sessions`, of which it
    erased something or all, and of the days on which something happened in them: each of these has their titles. Those
    files have no contents of artifacts."""

    position: int
    blobs: frozenset[BlobRef]
    sessions: tuple[SessionId, ...]
    days: frozenset[date]


def uncleaned(connection: sqlite3.Connection) -> list[Traces]:
    """Return the erasures whose traces are still to be removed. One that was itself erased has none of its own."""
    blobs = dict(connection.execute("SELECT position, blobs FROM cleanups"))
    found: list[Traces] = []
    for event in sqlite_events.read_at(connection, [*blobs]):
        sessions = _sessions_with_traces(event)
        sql = f"SELECT DISTINCT substr(ts, 1, 10) FROM events WHERE session_id {_IN}"
        days = frozenset(date.fromisoformat(day) for (day,) in connection.execute(sql, (dumps(sessions),)))
        of_erasure = msgspec.json.decode(blobs[event.position], type=frozenset[BlobRef])
        found.append(Traces(event.position, of_erasure, sessions, days))
    return found


def _sessions_with_traces(event: Event) -> tuple[SessionId, ...]:
    match event.body:
        case SessionErased(forks=forks) | MessageErased(forks=forks):
            assert event.session_id is not None, "it was recorded in a session"
            return (event.session_id, *forks)
        case _:
            return ()


def note_uncleaned(connection: sqlite3.Connection, position: int, blobs: Sequence[BlobRef]) -> None:
    """Note an erasure whose traces are to be removed."""
    connection.execute("INSERT INTO cleanups (position, blobs) VALUES (?, ?)", (position, dumps(blobs)))


def note_cleaned(connection: sqlite3.Connection, position: int) -> None:
    """Note that the traces of all erasures up to this position are removed."""
    connection.execute("DELETE FROM cleanups WHERE position <= ?", (position,))


def write_anew(connection: sqlite3.Connection) -> None:
    """Write the database anew, without free space, and empty its write-ahead log. What was removed from the search
    index leaves its file, too.

    `secure_delete` overwrites what is deleted, but not the copies that SQLite left as it moved rows between pages.
    Raises Unavailable while another program reads the file: it might still need the old pages.
    """
    _merge(connection)
    search.optimize(connection)
    connection.execute("VACUUM")
    _merge(connection)


def _merge(connection: sqlite3.Connection) -> None:
    """Move the whole write-ahead log into the database."""
    (is_busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        raise Unavailable(
            "Another program is reading the log, so what was erased can't be removed from its file yet.",
            hint="A long `ozzie events verify` is such a program.",
            code="store.busy",
        )
