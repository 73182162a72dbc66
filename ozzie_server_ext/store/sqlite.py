"""The event log in SQLite: one file, one writing thread, separate readers, and listeners told of each commit."""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar, Unpack

from ozzie_server_ext.domain.clock import Clock, IdSource
from ozzie_server_ext.domain.events import HUB, Draft, Event, EventBody
from ozzie_server_ext.domain.ids import BlobRef, EventId, MessageId, SessionId, session_stream
from ozzie_server_ext.domain.tasks import Claim
from ozzie_server_ext.store import contents, erasing, search, snapshots, sqlite_events, sqlite_rows, writer
from ozzie_server_ext.store.admission import Append, SaltSource, prepare, random_salt
from ozzie_server_ext.store.contents import HeldContents
from ozzie_server_ext.store.database import FAILURES, open_readable, unusable
from ozzie_server_ext.store.documents import Hits, Wanted
from ozzie_server_ext.store.erasing import Target, Traces
from ozzie_server_ext.store.log import EventFilter, Head, Listener, Listeners, LogClosed, Verification
from ozzie_server_ext.store.projections.blobs import named_by
from ozzie_server_ext.store.projector import TABLES
from ozzie_server_ext.store.tables import Row, RowFilter, query, table_named
from ozzie_server_ext.store.texts import NO_TEXTS, ArtifactTexts
from ozzie_server_ext.store.troubles import Troubles
from ozzie_server_ext.store.writer import Committer, Delivery, Writer

_READERS = 2

T = TypeVar("T")


class SqliteEventLog:
    """An EventLog in a SQLite file. Make one with `open`."""

    def __init__(
        self, path: Path, clock: Clock, ids: IdSource, salts: SaltSource, troubles: Troubles, texts: ArtifactTexts
    ) -> None:
        self._path = path
        self._clock = clock
        self._ids = ids
        self._salts = salts
        self._troubles = troubles
        self._head = Head()
        self._epoch = 0
        self._listeners = Listeners()
        self.contents = HeldContents()
        self._recent = sqlite_rows.RecentRows(("sessions", "tasks"))
        self._writer = Writer(path, texts, asyncio.get_running_loop(), self._deliver)
        self._readers: _Readers | None = None

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        clock: Clock,
        ids: IdSource,
        salts: SaltSource = random_salt,
        troubles: Troubles | None = None,
        texts: ArtifactTexts = NO_TEXTS,
    ) -> "SqliteEventLog":
        """Open the log at `path`, create it if missing, and become its only writer. Outdated projections are rebuilt.
        Later failures are noted in `troubles`; artifacts are searched by `texts`, or by their names alone. Raise
        NewerStore, DamagedStore, Unavailable."""
        log = cls(path, clock, ids, salts, troubles or Troubles(), texts)
        log._epoch, log._head = await log._writer.start()
        try:
            log._readers = _Readers(path)
        except BaseException:
            await log._writer.stop()
            raise
        return log

    async def append(
        self, stream: str, drafts: Sequence[Draft], *, expected_version: int | None = None, claim: Claim | None = None
    ) -> tuple[Event, ...]:
        if self._readers is None:
            raise LogClosed()
        append = prepare(
            stream,
            drafts,
            expected_version=expected_version,
            claim=claim,
            clock=self._clock,
            ids=self._ids,
            salts=self._salts,
            contents=self.contents.of(ref for draft in drafts for ref in named_by(draft.body)),
        )
        return await self._writer.append(append)

    async def read(self, **which: Unpack[EventFilter]) -> tuple[Event, ...]:
        return await self._read(lambda connection: sqlite_events.read(connection, **which))

    async def read_stream(self, stream: str, *, after_version: int = 0) -> tuple[Event, ...]:
        return await self._read(lambda connection: sqlite_events.read_stream(connection, stream, after_version))

    async def version(self, stream: str) -> int:
        return await self._read(lambda connection: sqlite_events.tip(connection, stream).version)

    async def head(self) -> Head:
        return self._head

    async def hash_at(self, position: int) -> str | None:
        return await self._read(lambda connection: sqlite_events.hash_at(connection, position))

    async def verify(self) -> Verification:
        return await self._read(sqlite_events.verify)

    async def content(self, digest: bytes) -> bytes | None:
        """Return the stored blob of that hash, None if there is none."""
        return await self._read(lambda connection: contents.read(connection, digest))

    async def contents_there(self, digests: Sequence[bytes]) -> set[bytes]:
        """Return those of the hashes under which a blob is stored."""
        return await self._read(lambda connection: contents.stored(connection, digests))

    async def rows(self, table: str, **which: Unpack[RowFilter]) -> list[Row]:
        declared = table_named(TABLES, table)
        selection = query(declared, **which)
        return await self._read(lambda connection: sqlite_rows.select(connection, declared, selection))

    async def row(self, table: str, *key: str) -> Row | None:
        declared = table_named(TABLES, table)
        if self._readers is None:
            raise LogClosed()
        if (recent := self._recent.get(table, key)) is not None:
            return dict(recent)
        return await self._read(lambda connection: sqlite_rows.one(connection, declared, key))

    async def search(self, wanted: Wanted) -> Hits:
        if self._readers is None:
            raise LogClosed()
        await self._writer.call(Committer.complete_index)
        return await self._read(lambda connection: search.find(connection, wanted))

    async def dump(self) -> str:
        return await self._read(lambda connection: sqlite_rows.dump(connection, TABLES))

    async def rebuild(self) -> str:
        if self._readers is None:
            raise LogClosed()
        dumped = await self._writer.call(Committer.rebuild_and_dump)
        self._recent.note(None)
        return dumped

    async def erase(self, target: Target) -> Event:
        """Erase a session or the turn of a message; return the event that records it. Its traces in files and free
        pages are still to be removed (`uncleaned`, `tasks.erasures`). Raises like `store.erasing.erase`."""
        if self._readers is None:
            raise LogClosed()
        event_id, salt = EventId(self._ids.new()), self._salts()  # here: `record` runs on another thread

        def record(body: EventBody) -> Append:
            draft = Draft(body=body, actor="user", source=HUB, session_id=target.session_id, event_id=event_id)
            return prepare(
                session_stream(target.session_id),
                [draft],
                expected_version=None,
                clock=self._clock,
                ids=self._ids,
                salts=lambda: salt,
            )

        (event,) = await self._writer.commit(lambda committer: committer.erase(target, record))
        return event

    async def session_of_message(self, message_id: MessageId) -> SessionId:
        """Return the session of a message. Raises NotFound."""
        return await self._read(lambda connection: erasing.session_of(connection, message_id))

    async def uncleaned(self) -> list[Traces]:
        """Return the erasures whose traces are still to be removed."""
        return await self._read(erasing.uncleaned)

    async def repeating_blobs(self) -> Mapping[BlobRef, int]:
        """See `store.erasing.repeating_blobs`."""
        return await self._read(erasing.repeating_blobs)

    async def write_anew(self) -> None:
        """Write the database's file anew, without what was erased. Raises Unavailable if another program reads it."""
        if self._readers is None:
            raise LogClosed()
        await self._writer.call(Committer.write_anew)

    async def note_cleaned(self, position: int) -> None:
        """Note that the traces of all erasures up to this position are removed."""
        if self._readers is None:
            raise LogClosed()
        await self._writer.call(lambda committer: committer.note_cleaned(position))

    async def sessions_with_snapshots(self) -> set[SessionId]:
        """See `store.snapshots.sessions`."""
        return await self._read(snapshots.sessions)

    async def snapshots(self, session_id: SessionId, before: int | None, key: bytes) -> Sequence[bytes] | None:
        """See `store.snapshots.read`."""
        return await self._read(lambda connection: snapshots.read(connection, session_id, before, key))

    async def add_snapshot(
        self, session_id: SessionId, content: bytes, *, position: int, after: int, key: bytes
    ) -> bool:
        """Store a snapshot behind that at position `after`, or as the only one if that is 0. Return whether it was."""
        if self._readers is None:
            raise LogClosed()
        return await self._writer.call(
            lambda committer: committer.add_snapshot(session_id, content, position=position, after=after, key=key)
        )

    async def expect_owned(self) -> None:
        await self._read(lambda connection: writer.expect_owner(connection, self._epoch))

    def on_commit(self, listener: Listener, *, types: Set[str] | None = None) -> None:
        self._listeners.add(listener, types)

    async def close(self) -> None:
        readers, self._readers = self._readers, None
        if readers is not None:
            await readers.close()
            await self._writer.stop()  # last, so that SQLite merges the WAL into the database

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._readers is None:
            raise LogClosed()
        try:
            return await self._readers.run(work)
        except FAILURES as error:
            failure = unusable(error, self._path)
            self._troubles.failed("reading the log", failure, self._read_something)
            raise failure from error

    async def _read_something(self) -> None:
        await self._read(sqlite_events.head)

    async def _write_something(self) -> None:
        if self._readers is None:
            raise LogClosed()
        await self._writer.call(Committer.probe)

    def _deliver(self, delivery: Delivery) -> None:
        self._head = delivery.head
        self._recent.note(delivery.written)
        for _, result in delivery.results:
            if isinstance(result, Exception):
                self._troubles.failed("the log", result, self._write_something)
        if delivery.new:
            self._troubles.worked("the log")
            self._listeners.tell(delivery.new)
        for future, result in delivery.results:
            if future.done():
                continue  # the caller was cancelled
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)


class _Readers:
    """A few read-only connections, each used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._executor = ThreadPoolExecutor(_READERS, thread_name_prefix="ozzie-store-reader")
        self._free: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        for _ in range(_READERS):
            self._free.put(open_readable(path))

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._with_connection, work)

    async def close(self) -> None:
        """Wait for the reads under way, then close the connections."""
        await asyncio.to_thread(self._executor.shutdown)
        for _ in range(_READERS):
            self._free.get_nowait().close()

    def _with_connection(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._free.get_nowait()  # as many threads as connections: one is always free
        try:
            return work(connection)
        finally:
            self._free.put(connection)
