"""Looks at everything that a home keeps: the log, the pages of its database, the blobs, the tables made from the log.

Read-only, and beside a gateway that goes on: all that is read from the database is of one moment.
"""

import hashlib
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from ozzie_server_ext.domain.ids import BlobRef
from ozzie_server_ext.store import sqlite_events, sqlite_rows
from ozzie_server_ext.store.anchor import AnchorFiles
from ozzie_server_ext.store.blobs import path_of
from ozzie_server_ext.store.database import FAILURES, open_readable, unusable, what_failed
from ozzie_server_ext.store.projector import TABLES
from ozzie_server_ext.store.tables import Table, dump_lines
from ozzie_server_ext.store.verifier import RESTORE, Verdict, verify_open

_MOST_FINDINGS = 20
"""Of one kind: the first ones say enough."""
_CHUNK = 1 << 20
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not as it was written, and what to do about it."""

    what: str
    hint: str

    def __str__(self) -> str:
        return f"{self.what} {self.hint}"


@dataclass(frozen=True, slots=True)
class DeepVerdict:
    """What was found. `blobs` counts the files whose content was compared with their name."""

    verdict: Verdict
    faults: tuple[Fault, ...]
    blobs: int
    note: str = ""
    """Why something was not looked at."""

    @property
    def ok(self) -> bool:
        return self.verdict.ok and not self.faults


def check_deeply(files: AnchorFiles, blobs: Path) -> DeepVerdict:
    """Check a home. Raises as `open_readable`."""
    try:
        with closing(open_readable(files.database)) as connection:
            verdict = verify_open(connection, files)
            faults = list(_pages(connection))
            note = ""
            if verdict.chain.ok:
                # A file that SQLite deletes by itself: the tables of a large log don't fit into memory.
                with closing(sqlite3.connect("", isolation_level=None)) as rebuilt:
                    note = _compare(connection, rebuilt, verdict, faults)
                    needed = [BlobRef(ref) for (ref,) in rebuilt.execute("SELECT ref FROM blobs WHERE needed > 0")]
                connection.execute("ROLLBACK")
                faults += _missing(connection, blobs, needed)
            else:
                note = "The tables, and which blobs are missing, can't be checked against a log that was changed."
    except FAILURES as error:
        raise unusable(error, files.database) from error
    wrong, count = _blobs(blobs)
    return DeepVerdict(verdict, (*faults, *wrong), count, note)


def _compare(connection: sqlite3.Connection, rebuilt: sqlite3.Connection, verdict: Verdict, faults: list[Fault]) -> str:
    """Make the tables in `rebuilt` and add how those of `connection` differ; return why they could not be compared."""
    rebuilt.execute("BEGIN")
    sqlite_events.fold_into(connection, rebuilt)
    if not sqlite_events.are_current(connection):
        return "The tables were made by another version: they are made again at the next start."
    if verdict.chain.erased:
        return "The tables were not compared with the log: bodies of its events were erased."
    faults += _tables(connection, rebuilt)
    return ""


def _pages(connection: sqlite3.Connection) -> Iterator[Fault]:
    try:
        found = connection.execute(f"PRAGMA integrity_check({_MOST_FINDINGS})").fetchall()
    except sqlite3.DatabaseError as error:
        found = [(str(error),)]
    for (text,) in found:
        if text != "ok":
            yield Fault(f"The database is damaged: {' '.join(str(text).split())}.", RESTORE)


def _tables(connection: sqlite3.Connection, rebuilt: sqlite3.Connection) -> Iterator[Fault]:
    for table in TABLES.values():
        hint = "Run `ozzie events rebuild`, and restart Ozzie: it makes the tables again from the log."
        try:
            for there, expected in zip_longest(_lines(connection, table), _lines(rebuilt, table)):
                if there != expected:
                    first = (there or expected or "")[:200]
                    yield Fault(f"The table {table.name} is not what the log says, from {first} on.", hint)
                    break
        except sqlite3.DatabaseError as error:
            yield Fault(f"The table {table.name} can't be read: {what_failed(error)}.", hint)


def _lines(connection: sqlite3.Connection, table: Table) -> Iterator[str]:
    yield from dump_lines(table, sqlite_rows.all_rows(connection, table))


def _missing(connection: sqlite3.Connection, blobs: Path, needed: list[BlobRef]) -> Iterator[Fault]:
    missing = [ref for ref in needed if not path_of(blobs, ref).exists()]
    for ref in missing[:_MOST_FINDINGS]:
        row = connection.execute("SELECT needed FROM blobs WHERE ref = ?", (ref,)).fetchone()
        if row != (0,):  # else it was erased meanwhile
            yield Fault(
                f"The blob {ref}, which an event names, is missing.", f"Put {path_of(blobs, ref)} back from a backup."
            )
    if len(missing) > _MOST_FINDINGS:
        yield Fault(f"{len(missing):,} blobs that events name are missing in all.", RESTORE)


def _blobs(folder: Path) -> tuple[list[Fault], int]:
    """Compare the content of each file with its name; the faults, and how many there are."""
    faults: list[Fault] = []
    count = 0
    for path in sorted(folder.glob("??/*")):
        if not _HASH.fullmatch(path.parent.name + path.name):
            continue  # being written, or nothing of ours
        count += 1
        fault = _content(path)
        if fault is not None and path.exists() and len(faults) < _MOST_FINDINGS:
            faults.append(fault)
    return faults, count


def _content(path: Path) -> Fault | None:
    hint = f"Put {path} back from a backup."
    digest = hashlib.sha256()
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        return Fault(f"The blob {path} can't be read: {error.strerror}.", hint)
    if digest.hexdigest() == path.parent.name + path.name:
        return None
    return Fault(f"The content of the blob {path} was changed: its name is the hash of another.", hint)
