"""The SQLite file: opened with the right modes, recognised as ours, brought up to the present schema."""

import os
import sqlite3
from importlib import resources
from pathlib import Path

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.store.log import DamagedStore, NewerStore

APPLICATION_ID = 0x4F5A5A49
"""Marks a file as Ozzie's: "OZZI"."""

_BUSY_MS = 5000


def open_writable(path: Path) -> sqlite3.Connection:
    """The connection that writes: WAL, FULL, erased content overwritten. Makes the file where there is none.

    Raises NewerStore, DamagedStore or Unavailable.
    """
    try:
        _make_private(path)
        connection = _connect(path)
    except (OSError, sqlite3.Error) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise Unavailable(f"Can't open {path}: {why}.", hint="Check the folder's permissions and space.") from error
    try:
        _recognise(connection, path)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "secure_delete = ON"):
            connection.execute(f"PRAGMA {pragma}")
        _migrate(connection)
    except sqlite3.DatabaseError as error:
        connection.close()
        raise unusable(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def open_readable(path: Path) -> sqlite3.Connection:
    """A connection that can't change anything.

    Raises NewerStore, DamagedStore or Unavailable, the last also where there is no such file.
    """
    if not path.is_file():
        raise Unavailable(f"There is no event log at {path}.", hint="Start Ozzie once; it makes one.")
    try:
        connection = _connect(path)
    except sqlite3.Error as error:
        raise unusable(error, path) from error
    try:
        connection.execute("PRAGMA query_only = ON")
        _recognise(connection, path)
    except sqlite3.DatabaseError as error:
        connection.close()
        raise unusable(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def unusable(error: sqlite3.Error, path: Path) -> Unavailable:
    """What a failure of SQLite means to a user."""
    if is_damage(error):
        return DamagedStore(f"{path} is damaged: {error}.")
    hint = {
        "SQLITE_FULL": "Free some disk space, then try again.",
        "SQLITE_BUSY": "Another program holds the database. Close that one, then try again.",
        "SQLITE_READONLY": "Check the file's permissions, then try again.",
    }.get(_name(error), "Check the disk, its space and the file's permissions, then try again.")
    return Unavailable(f"The event log can't be used: {error}.", hint=hint, code="store.unavailable")


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file is not what SQLite wrote."""
    return _name(error).startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def _name(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", "")


def _connect(path: Path) -> sqlite3.Connection:
    # Transactions are ours to begin and end; a connection may be closed on another thread than its own.
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    return connection


def _make_private(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SQLite gives its -wal and -shm files the mode of the database.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    path.chmod(0o600)


def _recognise(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and (application or objects):
        raise Unavailable(f"{path} is another program's database.", hint="Name another OZZIE_PATH.")
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
