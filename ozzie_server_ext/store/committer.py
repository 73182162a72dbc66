"""Group commit: many appends in one SQLite transaction, each of which is recorded whole or refused alone.

An append is admitted in memory first, which is where nearly all refusals happen, and what was admitted is then written
in bulk. Where SQLite itself objects to something (an id that is taken, a key that came twice in the batch), the batch
is written again with a savepoint per append, each of which then sees the ones before it.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ozzie_server_ext.domain.errors import Bug, InputError
from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.store import ownership, sqlite_events, sqlite_rows
from ozzie_server_ext.store.admission import Admitted, Append, Found, admit
from ozzie_server_ext.store.database import unusable
from ozzie_server_ext.store.log import EventIdTaken, Head, OwnerLost
from ozzie_server_ext.store.projector import TABLES
from ozzie_server_ext.store.sqlite_rows import SqliteRows

_MOST_STREAMS = 10_000

Result = tuple[Event, ...] | Exception


@dataclass(frozen=True, slots=True)
class Committed:
    """The outcome of a batch: per append its events or its error, and all that is new in the log."""

    results: tuple[Result, ...]
    new: tuple[Event, ...]


class Committer:
    """Writes through the one connection that may; for one thread. Whoever wrote before it may no more.

    Towards admission it is the log as of now: what is recorded, and what the transaction at hand will add.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self.epoch = ownership.take_over(connection)
        self._rows = SqliteRows(connection)
        self._head = sqlite_events.head(connection)
        self._versions: dict[str, int] = {}
        self._unwritten: list[Found] = []

    def head(self) -> Head:
        return self._head

    def version(self, stream: str) -> int:
        known = self._versions.get(stream)
        return sqlite_events.version(self._connection, stream) if known is None else known

    def version_of_key(self, stream: str, key: str) -> int | None:
        return sqlite_events.version_of_key(self._connection, stream, key)

    def slice(self, stream: str, first: int, count: int) -> list[Found]:
        return sqlite_events.stream_slice(self._connection, stream, first, count)

    def commit(self, appends: Sequence[Append]) -> Committed:
        """Record what can be recorded. If the transaction fails, every append gets Unavailable: OwnerLost where this is
        not the one that writes any more."""
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

    def probe(self) -> None:
        """Commit a change of no meaning. Raises sqlite3.Error or OwnerLost if nothing can be committed now."""
        try:
            ownership.begin(self._connection, self.epoch)
            ownership.write(self._connection)
            self._connection.execute("COMMIT")
        except BaseException:
            self._roll_back(self._head)
            raise

    def rebuild(self) -> str:
        """Make the projections anew; the canonical dump of them."""
        self.make_anew()
        return sqlite_rows.dump(self._connection, TABLES)

    def make_anew(self) -> None:
        """Drop the projections and fold them from the log."""
        try:
            ownership.begin(self._connection, self.epoch)
            sqlite_events.rebuild(self._connection, self._rows)
            self._connection.execute("COMMIT")
        except BaseException:
            self._roll_back(self._head)
            raise

    def make_current(self) -> None:
        """Make the projections anew where they are not what the present folds would make."""
        if not sqlite_events.are_current(self._connection):
            self.make_anew()

    def _transact(self, appends: Sequence[Append], *, savepoints: bool) -> Committed:
        results: list[Result] = []
        new: list[Event] = []
        ownership.begin(self._connection, self.epoch)
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
        return Committed(tuple(results), tuple(new))

    def _admit(self, append: Append) -> Admitted:
        try:
            admitted = admit(append, self, self._rows)
        except BaseException:
            self._rows.discard()
            raise
        self._rows.keep()
        if admitted.new:
            self._unwritten += admitted.new
            last = admitted.events[-1]
            self._head = Head(last.position, last.hash)
            if len(self._versions) >= _MOST_STREAMS:
                self._write_out()
                self._versions.clear()
            self._versions[append.stream] = last.version
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
        self._rows.flush(TABLES)
        self._unwritten.clear()

    def _roll_back(self, head: Head) -> None:
        if self._connection.in_transaction:  # after some errors SQLite has done it by itself
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
        self._forget(head)

    def _forget(self, head: Head) -> None:
        """Take the log to be what is stored, and to end at `head`."""
        self._head = head
        self._versions.clear()
        self._unwritten.clear()
        self._rows.forget()


def _concerns_all(error: Exception) -> bool:
    """Whether the transaction can't go on, as distinct from one append that can't be part of it."""
    alone = sqlite3.IntegrityError | sqlite3.DataError | sqlite3.InterfaceError | sqlite3.ProgrammingError
    return isinstance(error, sqlite3.Error | OwnerLost) and not isinstance(error, alone)


def _refusal(error: Exception, append: Append) -> Exception:
    """What SQLite's objection to one append means to its caller."""
    if isinstance(error, OverflowError):
        return InputError("A number is too large to be stored.")
    if isinstance(error, sqlite3.IntegrityError) and "events.event_id" in str(error):
        return EventIdTaken(", ".join(prepared.event_id for prepared in append.prepared))
    if isinstance(error, sqlite3.Error):
        return Bug(f"The store refused an append to {append.stream}: {error}.")
    return error
