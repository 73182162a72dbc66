"""The one thread that writes to the log, its commits in batches, and the ownership of the log."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import msgspec

from ozzie_server_ext.domain.errors import Bug, InputError, OzzieError, Unavailable
from ozzie_server_ext.domain.events import ArtifactErased, Event, EventBody
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.domain.terms import forget_words
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.store import erasing, search, snapshots, sqlite_events, sqlite_rows
from ozzie_server_ext.store.admission import Admitted, Append, Found, Tip, admit
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.contents import ContentWriter, Parts
from ozzie_server_ext.store.database import open_writable, unusable
from ozzie_server_ext.store.documents import DOCUMENT_TYPES
from ozzie_server_ext.store.erasing import Target
from ozzie_server_ext.store.log import EventIdTaken, EventLog, Head, OwnerLost
from ozzie_server_ext.store.projections.artifacts import ARTIFACTS
from ozzie_server_ext.store.projector import TABLES
from ozzie_server_ext.store.sqlite_rows import SqliteRows, Written
from ozzie_server_ext.store.tables import Key, Row
from ozzie_server_ext.store.texts import NO_TEXTS, ArtifactTexts

log = logger(__name__)


def take_over(connection: sqlite3.Connection) -> int:
    """Become the owner; return the epoch that identifies this owner."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        (epoch,) = connection.execute("UPDATE owner SET epoch = epoch + 1 RETURNING epoch").fetchone()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return epoch


def begin(connection: sqlite3.Connection, epoch: int) -> None:
    """Begin to write. Raises OwnerLost, leaving the transaction open."""
    connection.execute("BEGIN IMMEDIATE")
    expect_owner(connection, epoch)


def expect_owner(connection: sqlite3.Connection, epoch: int) -> None:
    """Raise OwnerLost if somebody has become the owner after `epoch`."""
    if connection.execute("SELECT epoch FROM owner").fetchone() != (epoch,):
        raise OwnerLost()


_MOST_STREAMS = 10_000

Result = tuple[Event, ...] | Exception


class Committed(msgspec.Struct, frozen=True):
    """The outcome of a batch: for each append its events or its error, and all new events of the log."""

    results: tuple[Result, ...]
    new: tuple[Event, ...]
    written: Written | None = msgspec.field(default_factory=dict[str, Any])
    """The rows of projections that were written; None if that may be any."""


class Committer:
    """Writes through the only connection that may, for one thread. An earlier owner may not write any more. As a
    `LogState` it is the log as of now: what is recorded, and what the open transaction will add."""

    def __init__(self, connection: sqlite3.Connection, path: Path, texts: ArtifactTexts = NO_TEXTS) -> None:
        self._connection = connection
        self._path = path
        self._texts = texts
        self.epoch = take_over(connection)
        self._rows = SqliteRows(connection)
        self._head = sqlite_events.head(connection)
        self._tips: dict[str, Tip] = {}
        self._unwritten: list[Found] = []
        self._erasures: list[Event] = []
        self.unindexed = 0
        """Documents that were recorded since the search index was completed, or that was tried."""
        self._written: dict[str, dict[Key, Row]] = {}
        self._contents: dict[bytes, Parts] = {}
        self._content_writer = ContentWriter(connection)
        self._erased: set[SessionId] | None = None

    def head(self) -> Head:
        return self._head

    def tip(self, stream: str) -> Tip:
        known = self._tips.get(stream)
        return sqlite_events.tip(self._connection, stream) if known is None else known

    def is_erased(self, session_id: SessionId) -> bool:
        if self._erased is None:
            self._erased = erasing.erased_sessions(self._connection)
        return session_id in self._erased

    def version_of_key(self, stream: str, key: str) -> int | None:
        return sqlite_events.version_of_key(self._connection, stream, key)

    def slice(self, stream: str, first: int, count: int) -> list[Found]:
        return sqlite_events.stream_slice(self._connection, stream, first, count)

    def commit(self, appends: Sequence[Append]) -> Committed:
        """Record what can be recorded. If the transaction fails, every append gets Unavailable, or OwnerLost if this is
        no longer the owner."""
        before = self._head
        try:
            try:
                return self._transact(appends, savepoints=False)
            except Exception as error:
                if _concerns_all(error):
                    raise
                self._roll_back(before)
                return self._transact(appends, savepoints=True)
        except Exception as error:
            self._roll_back(before)
            failed = unusable(error, self._path) if isinstance(error, sqlite3.Error) else error
            return Committed((failed,) * len(appends), ())

    def erase(self, target: Target, record: Callable[[EventBody], Append]) -> Committed:
        """Erase, and record the fact as `record` prepares it. Raises like `store.erasing.erase`; then nothing has
        changed."""
        before = self._head
        try:
            begin(self._connection, self.epoch)
            sqlite_events.complete_index(self._connection, self._texts)  # it can only remove what is there
            erasure = erasing.erase(self._connection, self._rows, target, self._texts)
            admitted = self._admit(record(erasure.fact))
            self._write_out()
            erasing.note_uncleaned(self._connection, self._head.position, erasure.blobs)
            self._connection.execute("COMMIT")
        except BaseException:
            self._roll_back(before)
            raise
        self._content_writer.forget()
        forget_words()
        self._erased = None
        return Committed((admitted.events,), admitted.events, None)

    def write_anew(self) -> None:
        """See `store.erasing.write_anew`. Raises OwnerLost."""
        expect_owner(self._connection, self.epoch)
        self.complete_index()
        erasing.write_anew(self._connection)

    def note_cleaned(self, position: int) -> None:
        """See `store.erasing.note_cleaned`. Raises OwnerLost."""
        expect_owner(self._connection, self.epoch)
        erasing.note_cleaned(self._connection, position)

    def add_snapshot(self, session_id: SessionId, content: bytes, *, position: int, after: int, key: bytes) -> bool:
        """See `store.snapshots.add`; false, too, if something was erased after `position`. Raises Unavailable or
        OwnerLost."""
        try:
            begin(self._connection, self.epoch)
            is_outdated = sqlite_events.has_erasure_after(self._connection, position)
            added = not is_outdated and snapshots.add(
                self._connection, session_id, content, position=position, after=after, key=key
            )
            self._connection.execute("COMMIT")
        except BaseException as error:
            self._roll_back(self._head)
            if isinstance(error, sqlite3.Error):
                raise unusable(error, self._path) from error
            raise
        return added

    def probe(self) -> None:
        """Commit a change without meaning. Raise sqlite3.Error or OwnerLost if nothing can be committed now."""
        try:
            begin(self._connection, self.epoch)
            for step in (1, -1):  # an update that changes nothing would not be written
                self._connection.execute("UPDATE owner SET epoch = epoch + ?", (step,))
            self._connection.execute("COMMIT")
        except BaseException:
            self._roll_back(self._head)
            raise

    def rebuild_and_dump(self) -> str:
        """Rebuild the projections and return their canonical dump."""
        self.rebuild()
        return sqlite_rows.dump(self._connection, TABLES)

    def rebuild(self) -> None:
        """Drop the projections and fold them from the log."""
        try:
            begin(self._connection, self.epoch)
            sqlite_events.rebuild(self._connection, self._rows, self._texts)
            self._connection.execute("COMMIT")
        except BaseException:
            self._roll_back(self._head)
            raise

    def make_current(self) -> None:
        """Rebuild the projections if other folds made them, else complete the search index."""
        if sqlite_events.are_current(self._connection):
            self.index()
        else:
            self.rebuild()

    def complete_index(self) -> None:
        """Complete the search index, if documents are missing."""
        if self.unindexed:
            self.index()

    def index(self) -> None:
        """Complete the search index, in a transaction of its own, for which nobody waits for the disk: what a crash
        takes of it is added at the next start. If that fails, it is tried again with the next documents, and until
        then searches find less."""
        self.unindexed = 0
        try:
            self._connection.execute("PRAGMA synchronous = NORMAL")
            begin(self._connection, self.epoch)
            sqlite_events.complete_index(self._connection, self._texts)
            self._connection.execute("COMMIT")
        except (sqlite3.Error, OzzieError) as error:
            self._roll_back(self._head)
            log.warning("what was recorded last can't be searched yet: %s", error)
        finally:
            self._connection.execute("PRAGMA synchronous = FULL")

    def _transact(self, appends: Sequence[Append], *, savepoints: bool) -> Committed:
        results: list[Result] = []
        new: list[Event] = []
        self._written = {}
        begin(self._connection, self.epoch)
        for append in appends:
            try:
                admitted = self._write_alone(append) if savepoints else self._admit(append)
            except Exception as error:
                if _concerns_all(error):
                    raise
                results.append(error)
            else:
                results.append(admitted.events)
                new.extend(admitted.events if admitted.new else ())
        self._write_out()
        self._connection.execute("COMMIT")
        self.unindexed += sum(event.type in DOCUMENT_TYPES for event in new)
        return Committed(tuple(results), tuple(new), self._written)

    def _admit(self, append: Append) -> Admitted:
        try:
            admitted = admit(append, self, self._rows)
        except BaseException:
            self._rows.discard()
            raise
        self._rows.keep()
        if admitted.new:
            self._unwritten += admitted.new
            self._erasures += (event for event in admitted.events if isinstance(event.body, ArtifactErased))
            self._contents |= append.contents
            last = admitted.events[-1]
            self._head = Head(last.position, last.hash)
            if len(self._tips) >= _MOST_STREAMS:
                self._write_out()
                self._tips.clear()
            self._tips[append.stream] = Tip(last.version, last.event_id, last.trace_id)
        return admitted

    def _write_alone(self, append: Append) -> Admitted:
        before = self._head
        self._connection.execute("SAVEPOINT append")
        try:
            admitted = self._admit(append)
            self._write_out()
        except Exception as error:
            if _concerns_all(error):
                raise
            self._forget(before)
            self._connection.execute("ROLLBACK TO append")
            self._connection.execute("RELEASE append")
            raise _refusal(error, append) from error
        self._connection.execute("RELEASE append")
        return admitted

    def _write_out(self) -> None:
        sqlite_events.insert(self._connection, self._unwritten)
        self._erase_texts()
        self._content_writer.write(self._contents.items())
        for table, rows in self._rows.flush(TABLES).items():
            self._written.setdefault(table, {}).update(rows)
        self._unwritten.clear()
        self._erasures.clear()
        self._contents.clear()

    def _erase_texts(self) -> None:
        """Take the texts of artifacts that are being erased out of the search index; their names stay in it. What a
        person erased has to leave the database's file, too."""
        if self._erasures:
            sqlite_events.complete_index(self._connection, self._texts)
        for event in self._erasures:
            if isinstance(event.body, ArtifactErased) and (created := self._created(event, event.body)):
                if search.remove(self._connection, created, self._texts.unchanged):
                    search.add(self._connection, created)
                else:
                    sqlite_events.rebuild_index(self._connection, self._texts)
                if event.body.why == "person":
                    erasing.note_uncleaned(self._connection, event.position, ())
                    forget_words()

    def _created(self, event: Event, erased: ArtifactErased) -> tuple[Event, ...]:
        """Return the creation of the artifact, if it is erased by this event."""
        row = self._rows.get(ARTIFACTS, (erased.artifact_id,))
        if row is None or row["erased_at"] != time_text(event.ts):
            return ()
        return sqlite_events.read_at(self._connection, [int(str(row["position"]))])

    def _roll_back(self, head: Head) -> None:
        if self._connection.in_transaction:  # after some errors SQLite has rolled back by itself
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
        self._forget(head)

    def _forget(self, head: Head) -> None:
        """Drop what was not committed; the log ends at `head`."""
        self._head = head
        self._tips.clear()
        self._unwritten.clear()
        self._erasures.clear()
        self._contents.clear()
        self._content_writer.forget()
        self._rows.forget()


def _concerns_all(error: Exception) -> bool:
    """Whether the whole transaction fails, and not just one append."""
    of_one = sqlite3.IntegrityError | sqlite3.DataError | sqlite3.InterfaceError | sqlite3.ProgrammingError
    return isinstance(error, sqlite3.Error | OwnerLost) and not isinstance(error, of_one)


def _refusal(error: Exception, append: Append) -> Exception:
    """Return what SQLite's error about one append means to its caller."""
    if isinstance(error, OverflowError):
        return InputError("A number is too large to be stored.")
    if isinstance(error, sqlite3.IntegrityError) and "events.event_id" in str(error):
        return EventIdTaken(", ".join(prepared.event_id for prepared in append.prepared))
    if isinstance(error, sqlite3.Error):
        return Bug(f"The store refused an append to {append.stream}: {error}.")
    return error


_ENOUGH_APPENDS = 256
"""Appends in one commit: bounds how long the first of them waits for the last."""
INDEX_AFTER_S = 0.1
"""The search index is completed when nothing was recorded for so long; before, if a search wants it."""
_ENOUGH_DOCUMENTS = 64
"""To be added to the index at once: bounds how long an append may wait for them."""

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


class Delivery(msgspec.Struct, frozen=True):
    """The result of a commit: for each append its events or its error, all new events, the rows of projections that
    were written (None: any), and the new head."""

    results: tuple[tuple[asyncio.Future[tuple[Event, ...]], Result], ...]
    new: tuple[Event, ...]
    written: Written | None
    head: Head


class _Waiting(msgspec.Struct, frozen=True):
    append: Append
    future: asyncio.Future[tuple[Event, ...]]


class _WriterTask(msgspec.Struct, frozen=True):
    """Other work to do between commits."""

    work: Callable[[Committer], Any]
    future: "Future[Any]"


class _OwnCommit(msgspec.Struct, frozen=True):
    """Work that commits by itself what is then delivered."""

    work: Callable[[Committer], Committed]
    future: asyncio.Future[tuple[Event, ...]]


class _Stop(msgspec.Struct, frozen=True):
    """Close the database and end."""


_Other = _WriterTask | _OwnCommit | _Stop
_Job = list[_Waiting] | _Other


class Writer:
    """The writing thread. All methods are for the event loop's thread; `deliver` is called on it."""

    def __init__(
        self, path: Path, texts: ArtifactTexts, loop: asyncio.AbstractEventLoop, deliver: Callable[[Delivery], None]
    ) -> None:
        self._path = path
        self._texts = texts
        self._loop = loop
        self._deliver = deliver
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._gathered: list[_Waiting] = []
        self._opened: Future[tuple[int, Head]] = Future()
        self._thread = threading.Thread(target=self._run, name="ozzie-store-writer", daemon=True)

    async def start(self) -> tuple[int, Head]:
        """Open the database, become its owner, and bring it up to date; return the owner's epoch and the log's head.
        Raises like `open_writable`."""
        self._thread.start()
        return await asyncio.wrap_future(self._opened)

    def append(self, append: Append) -> asyncio.Future[tuple[Event, ...]]:
        """Queue an append. Appends of the same turn of the loop share a commit: had the first one gone ahead alone, the
        others would wait for its commit and then for their own."""
        future: asyncio.Future[tuple[Event, ...]] = self._loop.create_future()
        if not self._gathered:
            self._loop.call_soon(self._send_off)
        self._gathered.append(_Waiting(append, future))
        return future

    async def call(self, work: Callable[[Committer], T]) -> T:
        """Run `work` between two commits, after all earlier appends."""
        future: Future[T] = Future()
        self._send_off()
        self._jobs.put(_WriterTask(work, future))
        return await asyncio.wrap_future(future)

    def commit(self, work: Callable[[Committer], Committed]) -> asyncio.Future[tuple[Event, ...]]:
        """Run `work`, which commits one append by itself, after all earlier appends; its events are delivered like
        those of others."""
        future: asyncio.Future[tuple[Event, ...]] = self._loop.create_future()
        self._send_off()
        self._jobs.put(_OwnCommit(work, future))
        return future

    async def stop(self) -> None:
        """Finish pending work, close the database, and end the thread."""
        self._send_off()
        self._jobs.put(_Stop())
        await asyncio.to_thread(self._thread.join)

    def _send_off(self) -> None:
        if self._gathered:
            self._jobs.put(self._gathered)
            self._gathered = []

    def _run(self) -> None:
        try:
            connection = open_writable(self._path)
        except BaseException as error:
            self._opened.set_exception(error)
            return
        try:
            committer = self._begin(connection)
            if committer is not None:
                self._serve(committer)
        finally:
            connection.close()

    def _begin(self, connection: sqlite3.Connection) -> Committer | None:
        try:
            committer = Committer(connection, self._path, self._texts)
            committer.make_current()
        except BaseException as error:
            self._opened.set_exception(self._translated(error))
            return None
        self._opened.set_result((committer.epoch, committer.head()))
        return committer

    def _serve(self, committer: Committer) -> None:
        while True:
            try:
                batch, other = self._take(INDEX_AFTER_S if committer.unindexed else None)
            except Empty:
                committer.index()
                continue
            if batch:
                self._commit(batch, committer)
                if committer.unindexed >= _ENOUGH_DOCUMENTS:
                    committer.index()
            match other:
                case _WriterTask(work, future):
                    if future.set_running_or_notify_cancel():  # somebody still waits for it
                        try:
                            future.set_result(work(committer))
                        except BaseException as error:
                            future.set_exception(self._translated(error))
                case _OwnCommit(work, future):
                    try:
                        committed = work(committer)
                    except Exception as error:
                        committed = Committed((self._translated(error),), ())
                    self._send((future,), committed, committer)
                case _Stop():
                    committer.complete_index()
                    return
                case None:
                    pass

    def _take(self, within_s: float | None) -> tuple[list[_Waiting], _Other | None]:
        """Return the waiting appends, about `_ENOUGH_APPENDS` at most, and the other work that came after them. Raises
        Empty if nothing comes for so long."""
        job = self._jobs.get(timeout=within_s)
        batch: list[_Waiting] = []
        while isinstance(job, list):
            batch += job
            if len(batch) >= _ENOUGH_APPENDS:
                return batch, None
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return batch, None
        return batch, job

    def _commit(self, batch: list[_Waiting], committer: Committer) -> None:
        committed = committer.commit([waiting.append for waiting in batch])
        self._send([waiting.future for waiting in batch], committed, committer)

    def _send(
        self, futures: Sequence[asyncio.Future[tuple[Event, ...]]], committed: Committed, committer: Committer
    ) -> None:
        results = tuple(zip(futures, committed.results, strict=True))
        with suppress(RuntimeError):  # the loop is closed, so nobody waits
            delivery = Delivery(results, committed.new, committed.written, committer.head())
            self._loop.call_soon_threadsafe(self._deliver, delivery)

    def _translated(self, error: E) -> E | Unavailable:
        return unusable(error, self._path) if isinstance(error, sqlite3.Error) else error


CHECK_S = 2.0


class OwnerWatch:
    """Checks every `every_s` seconds whether the log is still owned; calls `on_lost` once it is not, and stops."""

    def __init__(self, event_log: EventLog, on_lost: Callable[[OwnerLost], None], *, every_s: float = CHECK_S) -> None:
        self._log = event_log
        self._on_lost = on_lost
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._watch(), name="watch over the log's owner")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self._log.expect_owned()
            except OwnerLost as error:
                log.error("%s This gateway stops.", error)
                self._on_lost(error)
                return
            except OzzieError as error:
                log.warning("can't check whether the log still belongs to this gateway: %s", error)
