"""The files of `store.readable` on the disk: written, appended to, removed and synced, and the note beside them."""

import contextlib
import errno
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import closing
from pathlib import Path

import msgspec

from ozzie_server_ext.config.files import replace_file, sync_folder
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.ids import is_session_id
from ozzie_server_ext.protocol.jsontext import dumps, loads_object
from ozzie_server_ext.store.database import FAILURES, open_readable, unusable

_ONE_PATH = frozenset({errno.EISDIR, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.EEXIST})
"""Errors of one file, unlike those of the disk."""


class Batch(msgspec.Struct):
    """What to append to each file, and the files to write whole."""

    lines: dict[Path, list[str]] = msgspec.field(default_factory=lambda: defaultdict(list))
    whole: dict[Path, str] = msgspec.field(default_factory=dict[Path, str])


def note_of(root: Path) -> Path:
    """Return the file that notes up to which event the files are whole, as JSON with its `position` and `hash`."""
    return root / "data" / "readable.json"


def renewal_of(root: Path) -> Path:
    """Return the file whose presence has all files written anew, once the tables have been made anew."""
    return root / "data" / "readable.renew"


def is_renewal_due(root: Path) -> bool:
    """Return whether all files are to be written anew. Not before the log is opened again: until then, the tables still
    have what was erased (`store.database.forget_tables`). Raises like `open_readable`."""
    database = root / "data" / "ozzie.db"
    if not renewal_of(root).exists():
        return False
    if not database.is_file():  # a log in memory
        return True
    try:
        with closing(open_readable(database)) as connection:
            return connection.execute("SELECT fingerprint FROM projections").fetchone() is not None
    except FAILURES as error:
        raise unusable(error, database) from error


def read_note(note: Path) -> tuple[int, str]:
    """Return position and hash, 0 and "" without a note that says them."""
    try:
        found = loads_object(note.read_bytes())
    except (OSError, OzzieError, ValueError):
        return 0, ""
    position, noted = found.get("position"), found.get("hash")
    if isinstance(position, int) and 0 < position < 1 << 63 and isinstance(noted, str):
        return position, noted
    return 0, ""


def write_note(note: Path, position: int, noted: str) -> None:
    replace_file(note, dumps({"position": position, "hash": noted}).encode())


def begin_renewal(root: Path, *, is_due: bool) -> None:
    """Let the note alone say that all files are to be written; remove the mark if it `is_due`. One that comes later is
    for another renewal."""
    write_note(note_of(root), 0, "")
    if is_due:
        renewal_of(root).unlink(missing_ok=True)


_DAY = r"\d{4}-\d{2}-\d{2}"
_EVENTS, _DIARY = re.compile(rf"{_DAY}\.jsonl", re.ASCII), re.compile(rf"{_DAY}\.md", re.ASCII)
_INDEX = re.compile(r"index\.jsonl|\.new-.*")
_OF_SESSION = re.compile(r"meta\.json|messages\.jsonl|\.new-.*")


def clear(root: Path) -> dict[Path, OSError]:
    """Remove every file that could be ours, and the sessions' empty folders; return and raise errors like `remove`.
    Folders that are links are left alone: others may keep files of such names there."""
    failed: dict[Path, OSError] = {}
    for name, pattern in (("events", _EVENTS), ("logs", _DIARY), ("sessions", _INDEX)):
        _clear_folder(root / name, pattern, failed)
    for folder in _session_folders(root):
        _clear_folder(folder, _OF_SESSION, failed)
        with contextlib.suppress(OSError):  # not empty, a link, or kept for its failure
            folder.rmdir()
    if not (root / "sessions").is_symlink():
        _sync_folder(root / "sessions")
    return failed


def _clear_folder(folder: Path, pattern: re.Pattern[str], failed: dict[Path, OSError]) -> None:
    try:
        failed |= remove([each for each in _entries(folder) if pattern.fullmatch(each.name)])  # of a link, the link
        if not folder.is_symlink():
            _sync_folder(folder)
    except PermissionError as error:
        failed[folder] = error


def _session_folders(root: Path) -> list[Path]:
    try:
        return [each for each in _entries(root / "sessions") if is_session_id(each.name)]
    except PermissionError:
        return []


def _entries(folder: Path) -> list[Path]:
    """Return what is in a folder; nothing if it is a link. Raises PermissionError."""
    return list(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []


def store(batch: Batch, anew: Collection[Path] = (), skipped: Collection[Path] = ()) -> dict[Path, OSError]:
    """Write the batch: append the lines, but not to what was in the files `anew`. Return the errors that concern one
    path only; raise OSError for others."""
    failed: dict[Path, OSError] = {}
    for path in (batch.lines.keys() | batch.whole.keys()) - set(skipped):
        try:
            if path in batch.whole:
                _replace(path, batch.whole[path])
            elif batch.lines[path]:
                _append(path, batch.lines[path], is_anew=path in anew)
        except OSError as error:
            if error.errno not in _ONE_PATH:
                raise
            failed[path] = error
    return failed


def _append(path: Path, lines: Iterable[str], *, is_anew: bool) -> None:
    _private_folder(path.parent)
    if is_anew:
        path.unlink(missing_ok=True)
    text = "".join(f"{line}\n" for line in lines)
    with os.fdopen(_open_private(path, os.O_APPEND), "wb") as file:
        if path.suffix == ".md" and not os.fstat(file.fileno()).st_size:
            text = f"# {path.stem}\n\nTimes are UTC.\n\n{text}"
        file.write(text.encode("utf-8", "replace"))


def _replace(path: Path, text: str) -> None:
    """Replace a file atomically. It is synced with all others when the position is noted, unlike by `replace_file`: an
    earlier crash has it written anew."""
    _private_folder(path.parent)
    new = path.with_name(f".new-{path.name}")
    with os.fdopen(_open_private(new, os.O_TRUNC), "wb") as file:
        file.write(text.encode("utf-8", "replace"))
    new.replace(path)


def _open_private(path: Path, how: int) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, 0o600)
    if os.fstat(descriptor).st_mode & 0o077:
        with contextlib.suppress(PermissionError):  # another user's file, which we may write
            os.fchmod(descriptor, 0o600)
    return descriptor


def _private_folder(folder: Path) -> None:
    for each in (folder.parent, folder):  # `parents` would not make them private
        each.mkdir(mode=0o700, exist_ok=True)
        _tighten(each)


def tighten_folders(root: Path) -> None:
    """Make the existing folders private. Those of sessions, of which a home has thousands, are behind one of them, and
    are made private when they are written to."""
    for folder in (root / "events", root / "logs", root / "sessions"):
        _tighten(folder)


def _tighten(folder: Path) -> None:
    """Make a folder private, if it is no link: the target of that is a person's own."""
    if not folder.is_symlink() and folder.is_dir() and folder.stat().st_mode & 0o077:
        with contextlib.suppress(PermissionError):
            folder.chmod(0o700)


def remove(paths: Iterable[Path]) -> dict[Path, OSError]:
    """Remove the files; return the errors that concern one path only, raise OSError for others."""
    failed: dict[Path, OSError] = {}
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            if error.errno not in _ONE_PATH:
                raise
            failed[path] = error
    return failed


def sync(paths: Collection[Path]) -> None:
    """Make files durable, and their names."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    for folder in {folder for path in paths for folder in (path.parent, path.parent.parent)}:
        _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        sync_folder(folder)
