"""Events in SQLite: the statements over the tables of migration 0001, and the walk that verifies a file."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from ozzie_server_ext.domain.events import ERASURE_TYPES, ArtifactErased, Event
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.store import search, sqlite_rows
from ozzie_server_ext.store.admission import Found, Tip
from ozzie_server_ext.store.chain import ChainWalk, Envelope, StoredBody
from ozzie_server_ext.store.codec import decode, time_text
from ozzie_server_ext.store.database import error_text, is_damage
from ozzie_server_ext.store.documents import DOCUMENT_TYPES, TextOf, no_text
from ozzie_server_ext.store.log import BEGINNING, Head, Verification
from ozzie_server_ext.store.projector import FOLDED_TYPES, TABLES, apply, fingerprint
from ozzie_server_ext.store.sqlite_rows import ManyRows, SqliteRows

_ENVELOPE = ", ".join(f"e.{name}" for name in Envelope._fields)
_WITH_BODY = f"SELECT {_ENVELOPE}, b.body, b.salt FROM events AS e JOIN bodies AS b USING (position)"
_WITH_OR_WITHOUT = f"SELECT {_ENVELOPE}, b.body, b.salt FROM events AS e LEFT JOIN bodies AS b USING (position)"
_INSERT_ENVELOPE = ManyRows("INSERT INTO events", len(Envelope._fields))
_INSERT_BODY = ManyRows("INSERT INTO bodies (position, body, salt)", 3)
_IS_ERASURE = f"type IN ({', '.join(repr(name) for name in sorted(ERASURE_TYPES))})"
"""As in the index `events_of_erasures`, which is used for nothing else."""
_OF_TYPES = "e.type IN (SELECT value FROM json_each(?))"

_WIDTH = len(Envelope._fields)
_REBUILD_PAGE = 2000
_PAGE = 500
_FIRST, _LAST = -(1 << 63), (1 << 63) - 1


def insert(connection: sqlite3.Connection, new: Sequence[Found]) -> None:
    """Write new events into the open transaction."""
    if new:
        sqlite_rows.insert_many(connection, _INSERT_ENVELOPE, [envelope for envelope, _ in new])
        sqlite_rows.insert_many(connection, _INSERT_BODY, [(item.position, *stored) for item, stored in new if stored])


def head(connection: sqlite3.Connection) -> Head:
    row = connection.execute("SELECT position, hash FROM events ORDER BY position DESC LIMIT 1").fetchone()
    return Head() if row is None else Head(*row)


def hash_at(connection: sqlite3.Connection, position: int) -> str | None:
    row = connection.execute("SELECT hash FROM events WHERE position = ?", (position,)).fetchone()
    return None if row is None else row[0]


def has_erasure_after(connection: sqlite3.Connection, position: int) -> bool:
    """Whether something was erased after this position. An index has these events alone."""
    sql = f"SELECT 1 FROM events WHERE {_IS_ERASURE} AND position > ? LIMIT 1"
    return connection.execute(sql, (position,)).fetchone() is not None


def tip(connection: sqlite3.Connection, stream: str) -> Tip:
    sql = "SELECT version, event_id, trace_id FROM events WHERE stream = ? ORDER BY version DESC LIMIT 1"
    row = connection.execute(sql, (stream,)).fetchone()
    return Tip() if row is None else Tip(*row)


def version_of_key(connection: sqlite3.Connection, stream: str, key: str) -> int | None:
    sql = "SELECT version FROM events WHERE stream = ? AND idempotency_key = ?"
    row = connection.execute(sql, (stream, key)).fetchone()
    return None if row is None else row[0]


def stream_slice(connection: sqlite3.Connection, stream: str, first: int, count: int) -> list[Found]:
    sql = f"{_WITH_OR_WITHOUT} WHERE e.stream = ? AND e.version >= ? AND e.version < ? ORDER BY e.version"
    return [_found(row) for row in connection.execute(sql, (stream, first, first + count))]


def read(
    connection: sqlite3.Connection,
    *,
    after: int = 0,
    limit: int = 1000,
    types: frozenset[str] | None = None,
    session_id: str | None = None,
    task_id: str | None = None,
    before: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    newest_first: bool = False,
    most_bytes: int | None = None,
    erased: bool = False,
) -> tuple[Event, ...]:
    """See `EventLog.read`."""
    conditions = (
        ("e.position > ?", after),
        ("e.position < ?", before),
        (_OF_TYPES, None if types is None else dumps(sorted(types))),
        ("e.session_id = ?", session_id),
        ("e.task_id = ?", task_id),
        ("e.ts >= ?", None if since is None else time_text(since)),
        ("e.ts < ?", None if until is None else time_text(until)),
    )
    given = [(condition, value) for condition, value in conditions if value is not None]
    where = " AND ".join(condition for condition, _ in given)
    order = "DESC" if newest_first else "ASC"
    events = _WITH_OR_WITHOUT if erased else _WITH_BODY
    sql = f"{events} WHERE {where} ORDER BY e.position {order} LIMIT ?"
    rows = connection.execute(sql, [*(value for _, value in given), max(limit, 0)])
    return tuple(_events(rows if most_bytes is None else _up_to_bytes(rows, most_bytes)))


def read_all(
    connection: sqlite3.Connection, types: frozenset[str], session_id: SessionId | None = None, *, after: int = 0
) -> Iterator[Event]:
    """Yield all events of some types, of one session or of all, in order, without those whose body was erased."""
    while page := read(connection, after=after, limit=_PAGE, types=types, session_id=session_id):
        yield from page
        after = page[-1].position


def read_at(connection: sqlite3.Connection, positions: Sequence[int]) -> tuple[Event, ...]:
    """Return the events at these positions, without those whose body was erased."""
    sql = f"{_WITH_BODY} WHERE e.position IN (SELECT value FROM json_each(?)) ORDER BY e.position"
    return tuple(_events(connection.execute(sql, (dumps(positions),))))


def read_stream(connection: sqlite3.Connection, stream: str, after_version: int) -> tuple[Event, ...]:
    """See `EventLog.read_stream`."""
    sql = f"{_WITH_BODY} WHERE e.stream = ? AND e.version > ? ORDER BY e.version"
    return tuple(_events(connection.execute(sql, (stream, after_version))))


def verify(connection: sqlite3.Connection, *, after: Head = BEGINNING, until: int | None = None) -> Verification:
    """Like `EventLog.verify`, over what the connection sees now. `after`: the beginning up to this event is taken as
    verified, and its erased events are not counted; `until`: the last event to verify."""
    walk = ChainWalk(after)
    part = "WHERE e.position BETWEEN ? AND ?"
    # From the beginning: whatever is there, so that an event which was put in at a position below 1 is found too.
    bounds = (_FIRST if after == BEGINNING else after.position + 1, _LAST if until is None else until)
    try:
        for row in connection.execute(f"{_WITH_OR_WITHOUT} {part} ORDER BY e.position", bounds):
            found = _found(row)
            bad = walk.step(found.envelope, found.stored)
            if bad is not None:
                return bad
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return walk.broken_off(error_text(error))
    return walk.end()


def fold_into(
    source: sqlite3.Connection,
    target: sqlite3.Connection,
    rows: SqliteRows | None = None,
    also: Callable[[Sequence[Event]], None] = lambda events: None,
) -> None:
    """Fold the events in `source` into the tables in `target`, whose rows are `rows`. `also` gets the events, too."""
    for table in TABLES.values():
        sqlite_rows.create(target, table)
    rows = rows or SqliteRows(target)
    rows.begin_empty()
    types = dumps(sorted(FOLDED_TYPES | DOCUMENT_TYPES))
    cursor = source.execute(f"{_WITH_BODY} WHERE {_OF_TYPES} ORDER BY e.position", (types,))
    while page := cursor.fetchmany(_REBUILD_PAGE):
        events = tuple(_events(page))
        for event in events:
            apply(event, rows)
        rows.keep()
        rows.flush(TABLES)
        also(events)


def rebuild(connection: sqlite3.Connection, rows: SqliteRows, text_of: TextOf = no_text, *, index: bool = True) -> None:
    """Rebuild the projections and, with `index`, the search index from the log, in the open transaction."""
    if index:
        search.create(connection)
        add = partial(search.add, connection, text_of=not_erased(connection, text_of))
        fold_into(connection, connection, rows, add)
    else:
        fold_into(connection, connection, rows)
    connection.execute("DELETE FROM projections")
    connection.execute("INSERT INTO projections (fingerprint) VALUES (?)", (fingerprint(),))


def rebuild_index(connection: sqlite3.Connection, text_of: TextOf) -> None:
    """Rebuild the search index alone, in the open transaction."""
    search.create(connection)
    search.add(connection, read_all(connection, DOCUMENT_TYPES), not_erased(connection, text_of))


def complete_index(connection: sqlite3.Connection, text_of: TextOf) -> None:
    """Add to the search index what was recorded after its last document, in the open transaction. None of that is an
    artifact whose content is erased: before such an erasure is recorded, the index is complete."""
    search.add(connection, read_all(connection, DOCUMENT_TYPES, after=search.last(connection)), text_of)


def not_erased(connection: sqlite3.Connection, text_of: TextOf) -> TextOf:
    """Return a `text_of` that has no text for the artifacts whose contents are erased: another artifact may have the
    same."""
    erasures = read_all(connection, frozenset({ArtifactErased.type}))
    erased = {event.body.artifact_id for event in erasures if isinstance(event.body, ArtifactErased)}
    return lambda artifact: "" if artifact.artifact_id in erased else text_of(artifact)


def are_current(connection: sqlite3.Connection) -> bool:
    """Whether these folds made the stored projections, and all of them are there: a person may have dropped one
    (docs/log-format.md)."""
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    made_by = connection.execute("SELECT fingerprint FROM projections").fetchone()
    return made_by == (fingerprint(),) and there >= {*TABLES, search.TABLE}


def _events(rows: Iterable[tuple[Any, ...]]) -> Iterator[Event]:
    for row in rows:
        stored = StoredBody(*row[_WIDTH:])
        is_erased = stored == (None, None)  # in a damaged page, one of them may be NULL
        yield decode(Envelope(*row[:_WIDTH]), None if is_erased else stored)


def _up_to_bytes(rows: Iterable[tuple[Any, ...]], most: int) -> Iterator[tuple[Any, ...]]:
    """Yield rows until their bodies have so many bytes. Later ones are never fetched."""
    size = 0
    for row in rows:
        yield row
        size += len(row[_WIDTH] or b"")
        if size >= most:
            return


def _found(row: tuple[Any, ...]) -> Found:
    body = row[_WIDTH]
    return Found(Envelope(*row[:_WIDTH]), None if body is None else StoredBody(body, row[_WIDTH + 1]))
