"""The one thread that writes to SQLite, with group commit (DESIGN §2.1).

It takes every append that waits, writes each under a savepoint of its own, commits once, and only then lets the
callers and listeners know: an append that is refused fails alone, a commit that fails fails all of its batch.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.store import sqlite_events, sqlite_rows
from ozzie_server_ext.store.admission import Admitted, Append, Found, admit
from ozzie_server_ext.store.database import open_writable, unusable
from ozzie_server_ext.store.log import EventIdTaken, Head
from ozzie_server_ext.store.projector import TABLES
from ozzie_server_ext.store.sqlite_rows import SqliteRows

_MOST_APPENDS = 256
"""Appends in one commit: bounds how long the first of them waits for the last."""

_MOST_STREAMS = 10_000

T = TypeVar("T")
Result = tuple[Event, ...] | Exception


@dataclass(frozen=True, slots=True)
class Delivery:
    """The outcome of one batch: for each append its events or its error, and what is new in the log."""

    results: tuple[tuple[asyncio.Future[tuple[Event, ...]], Result], ...]
    new: tuple[Event, ...]
    head: Head


@dataclass(frozen=True, slots=True)
class _Waiting:
    append: Append
    future: asyncio.Future[tuple[Event, ...]]


@dataclass(frozen=True, slots=True)
class _Call:
    """Something else to do between batches, in a transaction of its own."""

    work: Callable[["_State"], Any]
    future: "Future[Any]"


@dataclass(frozen=True, slots=True)
class _Stop:
    """Close the database and end."""


_Job = _Waiting | _Call | _Stop


class Writer:
    """The writing thread. All methods are for the event loop's thread; `deliver` is called on it."""

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop, deliver: Callable[[Delivery], None]) -> None:
        self._path = path
        self._loop = loop
        self._deliver = deliver
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._opened: Future[Head] = Future()
        self._thread = threading.Thread(target=self._run, name="ozzie-store-writer", daemon=True)

    async def start(self) -> Head:
        """Open the database, bring it up to date, and return its head; raises as `open_writable`."""
        self._thread.start()
        return await asyncio.wrap_future(self._opened)

    def append(self, append: Append) -> asyncio.Future[tuple[Event, ...]]:
        future: asyncio.Future[tuple[Event, ...]] = self._loop.create_future()
        self._jobs.put(_Waiting(append, future))
        return future

    async def rebuild(self) -> str:
        """Make the projections anew; the new canonical dump."""
        return await self._call(_rebuild)

    async def stop(self) -> None:
        """Finish what was asked for, close the database, end the thread."""
        self._jobs.put(_Stop())
        await asyncio.to_thread(self._thread.join)

    async def _call(self, work: Callable[["_State"], T]) -> T:
        future: Future[T] = Future()
        self._jobs.put(_Call(work, future))
        return await asyncio.wrap_future(future)

    def _run(self) -> None:
        try:
            state = _State(open_writable(self._path))
        except BaseException as error:
            self._opened.set_exception(error)
            return
        try:
            try:
                state.make_current()
            except BaseException as error:
                self._opened.set_exception(unusable(error, self._path) if isinstance(error, sqlite3.Error) else error)
                return
            self._opened.set_result(state.head())
            self._serve(state)
        finally:
            state.connection.close()

    def _serve(self, state: "_State") -> None:
        while True:
            batch, other = self._take()
            if batch:
                delivery = _write(batch, state, self._path)
                with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    self._loop.call_soon_threadsafe(self._deliver, delivery)
            match other:
                case _Call():
                    self._do(other, state)
                case _Stop():
                    return
                case None:
                    pass

    def _take(self) -> tuple[list[_Waiting], _Call | _Stop | None]:
        """All appends that wait, up to the bound, and what came after them, if that was something else."""
        job = self._jobs.get()
        batch: list[_Waiting] = []
        while isinstance(job, _Waiting):
            batch.append(job)
            if len(batch) == _MOST_APPENDS:
                return batch, None
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return batch, None
        return batch, job

    def _do(self, call: _Call, state: "_State") -> None:
        try:
            call.future.set_result(call.work(state))
        except sqlite3.Error as error:
            call.future.set_exception(unusable(error, self._path))
        except BaseException as error:
            call.future.set_exception(error)


class _State:
    """The log as the open transaction sees it (`admission.LogState`), with what is worth keeping in memory."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.rows = SqliteRows(connection)
        self._head = sqlite_events.head(connection)
        self._versions: dict[str, int] = {}

    def head(self) -> Head:
        return self._head

    def version(self, stream: str) -> int:
        known = self._versions.get(stream)
        return sqlite_events.version(self.connection, stream) if known is None else known

    def version_of_key(self, stream: str, key: str) -> int | None:
        return sqlite_events.version_of_key(self.connection, stream, key)

    def slice(self, stream: str, first: int, count: int) -> list[Found]:
        return sqlite_events.stream_slice(self.connection, stream, first, count)

    def record(self, admitted: Admitted) -> None:
        """Write what was admitted, with the rows that its folds left."""
        sqlite_events.insert(self.connection, admitted.new)
        self.rows.flush(TABLES)
        last = admitted.events[-1]
        self._head = Head(last.position, last.hash)
        if len(self._versions) >= _MOST_STREAMS:
            self._versions.clear()
        self._versions[last.stream] = last.version

    def forget(self, head: Head) -> None:
        """Go back to where the log stood, after a transaction that did not happen."""
        self._head = head
        self._versions.clear()
        self.rows.forget()

    def make_current(self) -> None:
        """Make the projections anew where they are not what the present folds would make."""
        if not sqlite_events.are_current(self.connection):
            _rebuild(self)


def _write(batch: Sequence[_Waiting], state: _State, path: Path) -> Delivery:
    before = state.head()
    results: list[tuple[asyncio.Future[tuple[Event, ...]], Result]] = []
    new: list[Event] = []
    try:
        state.connection.execute("BEGIN IMMEDIATE")
        for waiting in batch:
            try:
                admitted = _write_one(waiting.append, state)
            except _Refused as refused:
                results.append((waiting.future, refused.error))
            else:
                results.append((waiting.future, admitted.events))
                new.extend(admitted.events if admitted.new else ())
        state.connection.execute("COMMIT")
    except sqlite3.Error as error:
        # Nothing of the batch is in the log: each caller hears so, nobody else hears of it.
        _roll_back(state.connection)
        state.forget(before)
        failed = unusable(error, path)
        return Delivery(tuple((waiting.future, failed) for waiting in batch), (), before)
    return Delivery(tuple(results), tuple(new), state.head())


class _Refused(Exception):
    """One append can't be recorded; the others can."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _write_one(append: Append, state: _State) -> Admitted:
    """Raises _Refused, with the transaction as it was before, or sqlite3.Error, which concerns all of the batch."""
    connection = state.connection
    connection.execute("SAVEPOINT append")
    try:
        admitted = admit(append, state, state.rows)
        if admitted.new:
            state.record(admitted)
    except sqlite3.IntegrityError:
        error: Exception = EventIdTaken(_ids(append))
    except sqlite3.Error:
        raise
    except Exception as refusal:
        error = refusal
    else:
        connection.execute("RELEASE append")
        return admitted
    state.rows.discard()
    connection.execute("ROLLBACK TO append")
    connection.execute("RELEASE append")
    raise _Refused(error)


def _rebuild(state: _State) -> str:
    state.connection.execute("BEGIN IMMEDIATE")
    try:
        sqlite_events.rebuild(state.connection, state.rows)
        dump = sqlite_rows.dump(state.connection, TABLES)
        state.connection.execute("COMMIT")
    except BaseException:
        _roll_back(state.connection)
        state.rows.forget()
        raise
    return dump


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:  # after some errors SQLite has done it by itself
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


def _ids(append: Append) -> str:
    return ", ".join(prepared.event_id for prepared in append.prepared)
