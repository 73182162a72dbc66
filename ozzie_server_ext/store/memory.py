"""The event log in memory: the same behaviour as on disk, for tests and demonstrations."""

import sqlite3
import weakref
from collections.abc import Sequence, Set
from itertools import islice
from typing import Unpack

from ozzie_server_ext.domain.clock import Clock, IdSource
from ozzie_server_ext.domain.events import Draft, Event
from ozzie_server_ext.domain.tasks import Claim
from ozzie_server_ext.store import search
from ozzie_server_ext.store.admission import Admitted, Found, SaltSource, Tip, admit, prepare, random_salt
from ozzie_server_ext.store.chain import ChainWalk, Envelope, StoredBody
from ozzie_server_ext.store.codec import decode, time_text
from ozzie_server_ext.store.documents import Hits, Wanted
from ozzie_server_ext.store.log import EventFilter, EventIdTaken, Head, Listener, Listeners, LogClosed, Verification
from ozzie_server_ext.store.projector import TABLES, apply
from ozzie_server_ext.store.tables import MemoryRows, Row, RowFilter, dump_lines, query, table_named


class InMemoryEventLog:
    """An EventLog in lists. `envelopes` and `bodies` hold what a disk would, in stored form, the bodies by position: to
    erase one, delete it."""

    def __init__(self, clock: Clock, ids: IdSource, *, salts: SaltSource = random_salt) -> None:
        self._clock = clock
        self._ids = ids
        self._salts = salts
        self.envelopes: list[Envelope] = []
        self.bodies: dict[int, StoredBody] = {}
        self._index = _Index(self.envelopes, self.bodies)
        self._rows = MemoryRows()
        self._search = _MemorySearch()
        self._listeners = Listeners()
        self._closed = False

    async def append(
        self, stream: str, drafts: Sequence[Draft], *, expected_version: int | None = None, claim: Claim | None = None
    ) -> tuple[Event, ...]:
        if self._closed:
            raise LogClosed()
        try:
            admitted = self._admit(stream, drafts, expected_version, claim)
            self._index.add(admitted.new)
        except BaseException:
            self._rows.discard()
            raise
        self._rows.commit()
        if admitted.new:
            self._search.add(admitted.events)
            self._listeners.tell(admitted.events)
        return admitted.events

    def _admit(
        self, stream: str, drafts: Sequence[Draft], expected_version: int | None, claim: Claim | None
    ) -> Admitted:
        """Return what an append would record. Its rows are kept or discarded by the caller. Raises as `append`."""
        append = prepare(
            stream,
            drafts,
            expected_version=expected_version,
            claim=claim,
            clock=self._clock,
            ids=self._ids,
            salts=self._salts,
        )
        return admit(append, self._index, self._rows)

    async def read(self, **which: Unpack[EventFilter]) -> tuple[Event, ...]:
        types, session_id, task_id = which.get("types"), which.get("session_id"), which.get("task_id")
        since, until, before = which.get("since"), which.get("until"), which.get("before")
        most_bytes = which.get("most_bytes")
        end = len(self.envelopes) if before is None else min(max(before - 1, 0), len(self.envelopes))
        positions = range(max(which.get("after", 0), 0), end)
        wanted = (
            envelope
            for envelope in map(
                self.envelopes.__getitem__, reversed(positions) if which.get("newest_first") else positions
            )
            if (types is None or envelope.type in types)
            and (session_id is None or envelope.session_id == session_id)
            and (task_id is None or envelope.task_id == task_id)
            and (since is None or envelope.ts >= time_text(since))
            and (until is None or envelope.ts < time_text(until))
            and (which.get("erased") or envelope.position in self.bodies)
        )
        found: list[Event] = []
        size = 0
        for envelope in islice(wanted, max(which.get("limit", 1000), 0)):
            event = decode(envelope, self.bodies.get(envelope.position))
            found.append(event)
            size += event.body_bytes
            if most_bytes is not None and size >= most_bytes:
                break
        return tuple(found)

    async def read_stream(self, stream: str, *, after_version: int = 0) -> tuple[Event, ...]:
        found = self._index.slice(stream, after_version + 1, len(self.envelopes))
        return tuple(decode(item.envelope, item.stored) for item in found if item.stored is not None)

    async def version(self, stream: str) -> int:
        return self._index.tip(stream).version

    async def head(self) -> Head:
        return self._index.head()

    async def hash_at(self, position: int) -> str | None:
        return self.envelopes[position - 1].hash if 0 < position <= len(self.envelopes) else None

    async def verify(self) -> Verification:
        walk = ChainWalk()
        for envelope in self.envelopes:
            bad = walk.step(envelope, self.bodies.get(envelope.position))
            if bad is not None:
                return bad
        return walk.end()

    async def rows(self, table: str, **which: Unpack[RowFilter]) -> list[Row]:
        declared = table_named(TABLES, table)
        selection = query(declared, **which)
        return self._rows.select(declared, selection)

    async def row(self, table: str, *key: str) -> Row | None:
        found = self._rows.get(table_named(TABLES, table), key)
        return None if found is None else dict(found)

    async def search(self, wanted: Wanted) -> Hits:
        return self._search.find(wanted, await self.rows("sessions"))

    async def dump(self) -> str:
        lines: list[str] = []
        for table in TABLES.values():
            rows = await self.rows(table.name)
            lines.extend(dump_lines(table, (tuple(row[name] for name in table.names) for row in rows)))
        return "\n".join(lines) + "\n"

    async def rebuild(self) -> str:
        self._rows.clear()
        self._search = _MemorySearch()
        events = await self.read(limit=len(self.envelopes))
        self._search.add(events)
        for event in events:
            apply(event, self._rows)
        self._rows.commit()
        return await self.dump()

    async def expect_owned(self) -> None:
        pass  # nobody else can open what is in this process's memory

    def on_commit(self, listener: Listener, *, types: Set[str] | None = None) -> None:
        self._listeners.add(listener, types)

    async def close(self) -> None:
        self._closed = True


class _MemorySearch:
    """The same index as on disk, with what its queries look up beside it. It is made by the first search: most logs in
    memory are never searched."""

    def __init__(self) -> None:
        self._unindexed: list[Event] = []
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._connection.close)
        self._connection.execute("CREATE TABLE events (position INTEGER PRIMARY KEY, type, session_id, ts)")
        self._connection.execute("CREATE TABLE sessions (session_id PRIMARY KEY, project)")
        search.create(self._connection)

    def add(self, events: Sequence[Event]) -> None:
        self._unindexed += events

    def find(self, wanted: Wanted, sessions: Sequence[Row]) -> Hits:
        events = [(event.position, event.type, event.session_id, time_text(event.ts)) for event in self._unindexed]
        self._connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", events)
        search.add(self._connection, self._unindexed)
        self._unindexed.clear()
        rows = [(row["session_id"], row["project"]) for row in sessions]
        self._connection.executemany("INSERT OR REPLACE INTO sessions VALUES (?, ?)", rows)
        return search.find(self._connection, wanted)


class _Index:
    """The events of each stream, and the idempotency keys and event ids in use."""

    def __init__(self, envelopes: list[Envelope], bodies: dict[int, StoredBody]) -> None:
        self._envelopes = envelopes
        self._bodies = bodies
        self._streams: dict[str, list[int]] = {}
        self._keys: dict[tuple[str, str], int] = {}
        self._ids: set[str] = set()

    def head(self) -> Head:
        if not self._envelopes:
            return Head()
        return Head(len(self._envelopes), self._envelopes[-1].hash)

    def tip(self, stream: str) -> Tip:
        positions = self._streams.get(stream)
        if not positions:
            return Tip()
        last = self._envelopes[positions[-1] - 1]
        return Tip(last.version, last.event_id, last.trace_id)

    def is_erased(self, session_id: str) -> bool:
        return False  # nothing is erased in a log in memory

    def version_of_key(self, stream: str, key: str) -> int | None:
        return self._keys.get((stream, key))

    def slice(self, stream: str, first: int, count: int) -> list[Found]:
        positions = self._streams.get(stream, [])[max(first - 1, 0) : max(first - 1 + count, 0)]
        return [Found(self._envelopes[position - 1], self._bodies.get(position)) for position in positions]

    def add(self, new: Sequence[Found]) -> None:
        """Store what was admitted. Raises EventIdTaken before storing any of it."""
        ids = [envelope.event_id for envelope, _ in new]
        for event_id in ids:
            if event_id in self._ids or ids.count(event_id) > 1:
                raise EventIdTaken(event_id)
        for envelope, stored in new:
            self._envelopes.append(envelope)
            if stored is not None:
                self._bodies[envelope.position] = stored
            self._streams.setdefault(envelope.stream, []).append(envelope.position)
            if envelope.idempotency_key is not None:
                self._keys[envelope.stream, envelope.idempotency_key] = envelope.version
            self._ids.add(envelope.event_id)
