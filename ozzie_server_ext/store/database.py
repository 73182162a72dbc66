"""The SQLite file: opened in the right modes, checked to be ours, and migrated to the present schema."""

import errno
import os
import sqlite3
from contextlib import suppress
from importlib import resources
from pathlib import Path

from ozzie_server_ext.domain.disk import hint_for
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.store.log import DamagedStore, NewerStore

APPLICATION_ID = 0x4F5A5A49
"""Marks a file as Ozzie's: "OZZI"."""

_BUSY_MS = 5000


FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""What calls of SQLite raise; UnicodeDecodeError comes from a message that quotes a damaged file."""


def open_writable(path: Path) -> sqlite3.Connection:
    """Open the connection that writes: WAL, FULL, erased content overwritten. Creates the file if missing. Raise
    NewerStore, DamagedStore, Unavailable."""
    try:
        _make_private(path)
        connection = _connect(path)
    except FAILURES as error:
        raise unusable(error, path) from error
    except OSError as error:
        raise Unavailable(
            f"Can't open {path}: {error.strerror}.", hint=hint_for(path, error=error), code="store.unavailable"
        ) from error
    try:
        _recognise(connection, path)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "secure_delete = ON"):
            connection.execute(f"PRAGMA {pragma}")
        _migrate(connection)
    except FAILURES as error:
        connection.close()
        raise unusable(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def open_readable(path: Path) -> sqlite3.Connection:
    """Open a read-only connection. Raises NewerStore, DamagedStore or Unavailable, also if there is no such file."""
    if not path.is_file():
        raise Unavailable(f"There is no event log at {path}.", hint="Start Ozzie once; it creates one.")
    try:
        return _readable(path)
    except FAILURES as error:
        if _name(error).startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")) and not _has_unmerged(path):
            # In a read-only folder SQLite can't share the file with a writer, and there is none.
            with suppress(*FAILURES):
                return _readable(path, alone=True)
        raise unusable(error, path) from error


def forget_tables(path: Path) -> None:
    """Have the projections rebuilt by whoever opens the log next. Raises like `open_writable`; like `open_readable` if
    there is no log."""
    open_readable(path).close()
    connection = open_writable(path)
    try:
        connection.execute("DELETE FROM projections")
    except FAILURES as error:
        raise unusable(error, path) from error
    finally:
        connection.close()


def unusable(error: Exception, path: Path) -> Unavailable:
    """Return what a failure of SQLite means to a user."""
    if is_damage(error):
        return DamagedStore(f"{path} is damaged: {error_text(error)}.")
    if _name(error).startswith("SQLITE_BUSY"):
        hint = "Another program holds the database. Close that one, then try again."
    elif _name(error) == "SQLITE_FULL":
        hint = hint_for(path, error=OSError(errno.ENOSPC, ""))
    else:
        hint = hint_for(path, *_beside(path), path.parent)
    return Unavailable(f"The event log can't be used: {error}.", hint=hint, code="store.unavailable")


def error_text(error: Exception) -> str:
    """Return the error's text, without the content of a row that Python puts into it."""
    if isinstance(error, UnicodeDecodeError):
        return "it holds bytes that are no text"
    return str(error).partition(" with text ")[0]


def is_damage(error: Exception) -> bool:
    """Whether the file is not what SQLite wrote."""
    # Python's own errors about undecodable text have no name.
    if isinstance(error, UnicodeDecodeError):
        return True
    return _name(error).startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or str(error).startswith("Could not decode")


def _name(error: Exception) -> str:
    return getattr(error, "sqlite_errorname", "")


def _readable(path: Path, *, alone: bool = False) -> sqlite3.Connection:
    connection = _connect(path, f"{path.absolute().as_uri()}?immutable=1" if alone else "")
    try:
        connection.execute("PRAGMA query_only = ON")
        _recognise(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _beside(path: Path) -> tuple[Path, Path]:
    """Return the files that SQLite keeps beside an open database."""
    return path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")


def _has_unmerged(path: Path) -> bool:
    wal, _ = _beside(path)
    return wal.exists() and wal.stat().st_size > 0


def _connect(path: Path, uri: str = "") -> sqlite3.Connection:
    # We begin and end transactions; a connection may be closed on another thread than its own.
    connection = sqlite3.connect(
        uri or path, uri=bool(uri), isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    return connection


def _make_private(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SQLite gives its -wal and -shm files the mode of the database.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    path.chmod(0o600)
    for each in _beside(path):
        if each.exists():  # their mode is what the database had when they were created
            each.chmod(0o600)


def _recognise(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and (application or objects):
        raise Unavailable(f"{path} is another program's database.", hint="Set OZZIE_PATH to another folder.")
    if _version(connection) > len(_migrations()):
        raise NewerStore(str(path))


def _version(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def _migrations() -> list[str]:
    folder = resources.files("ozzie_server_ext.store") / "migrations"
    scripts = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    return [script.read_text("utf-8") for script in sorted(scripts, key=lambda file: file.name)]


def _migrate(connection: sqlite3.Connection) -> None:
    for number, script in enumerate(_migrations(), start=1):
        if number > _version(connection):
            marks = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {number};"
            try:
                connection.executescript(f"BEGIN IMMEDIATE; {script}; {marks} COMMIT;")
            except sqlite3.Error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
