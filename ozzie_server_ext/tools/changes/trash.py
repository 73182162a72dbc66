"""The project's trash: a file goes to `.ozzie/trash/ID/` under its own path, and can be restored.

The note beside it is written first, so that the origin of everything in the trash is known.
"""

import os
import re
from contextlib import suppress
from datetime import datetime
from errno import EXDEV
from pathlib import Path

import msgspec
from msgspec.structs import asdict

from ozzie_server_ext.protocol.jsontext import InvalidJson, dumps, loads_object
from ozzie_server_ext.tools.base import ToolFailed, Unsettled
from ozzie_server_ext.tools.changes.held import (
    OpenFile,
    OpenFolder,
    folder_as_seen,
    make_folders,
    move,
    opened_as_seen,
    remove_folders,
    require_renames,
)
from ozzie_server_ext.tools.changes.seen import (
    FileChanged,
    Seen,
    explain_os_errors,
    gone,
    identity,
    identity_at,
    look,
    read_file,
    replaced,
)
from ozzie_server_ext.tools.safe_open import FOLDER, OutsideProject, closing, open_deepest, open_plain, readable_parts

TRASH = (".ozzie", "trash")
_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_BYTES = 16 * 1024


class TrashNote(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is the file's origin in the project; `trashed_at` is ISO 8601; `sha256` is of its content."""

    id: str
    path: str
    trashed_at: str
    sha256: str

    @property
    def place(self) -> tuple[str, ...]:
        """The folder in the trash that holds the file, below the project."""
        return (*TRASH, self.id, *self.path.split("/")[:-1])

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def write_note(root: Path, note: TrashNote) -> None:
    """Write the note durably, replacing one of an interrupted attempt. Raises ToolFailed, OSError."""
    with closing(open_or_make(root, TRASH)) as trash:
        with suppress(FileNotFoundError):
            os.unlink(_file(note.id), dir_fd=trash)
        with open(os.open(_file(note.id), _NEW, 0o600, dir_fd=trash), "wb") as file:
            file.write(dumps(asdict(note)).encode())
            file.flush()
            os.fsync(file.fileno())
        os.fsync(trash)


def read_note(root: Path, trash_id: str) -> TrashNote | None:
    """Return the note, or None if there is no readable one. Raises ToolFailed for an invalid id, and if the trash is
    not a folder of the project."""
    _check_id(trash_id)
    descriptor, missing = open_deepest(root, TRASH)
    with closing(descriptor):
        found = None if missing else open_plain(descriptor, _file(trash_id), f"{'/'.join(TRASH)}/{_file(trash_id)}")
    if found is None:
        return None
    with open(found, "rb") as file, suppress(InvalidJson, KeyError, ToolFailed):
        document = loads_object(file.read(_MAX_BYTES + 1), max_bytes=_MAX_BYTES)
        note = TrashNote(**{key: str(document[key]) for key in ("id", "path", "trashed_at", "sha256")})
        if note.id == trash_id and note.path == "/".join(readable_parts(note.path)):
            return note
    return None


def all_notes(root: Path) -> list[TrashNote]:
    """Return the notes of everything in the trash. Raises ToolFailed, OSError."""
    descriptor, missing = open_deepest(root, TRASH)
    with closing(descriptor):
        names = [] if missing else os.listdir(descriptor)
    ids = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    return [note for found in ids if _ID.fullmatch(found) and (note := read_note(root, found)) is not None]


def remove_note(root: Path, trash_id: str) -> None:
    """Raises OSError."""
    descriptor, missing = open_deepest(root, TRASH)
    with closing(descriptor):
        if not missing:
            os.unlink(_file(trash_id), dir_fd=descriptor)


def open_or_make(root: Path, names: tuple[str, ...]) -> int:
    """Open the folder at `names` below the project, making what is missing (0700); the caller closes the descriptor.
    Raises ToolFailed if something on the way is no folder, OSError."""
    descriptor, missing = open_deepest(root, names)
    for name in missing:
        with closing(descriptor):
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=descriptor)
            os.fsync(descriptor)
            deeper = os.open(name, FOLDER, dir_fd=descriptor)
        descriptor = deeper
    return descriptor


def _file(trash_id: str) -> str:
    _check_id(trash_id)
    return f"{trash_id}.json"


def _check_id(trash_id: str) -> None:
    if not _ID.fullmatch(trash_id):
        raise ToolFailed("This is no id of the trash; an id has at most 64 letters, digits, - and _.")


class Moved(msgspec.Struct, frozen=True):
    """A completed move. `place` is the file's new path in the project; `notes` are sentences for the user, usually
    none: what could not be confirmed."""

    place: str
    notes: tuple[str, ...]


def move_to_trash(root: Path, seen: Seen, trash_id: str, *, when: datetime) -> Moved:
    """Move the file that was seen to the trash, under a new id.

    Raises FileChanged if the file differs from what was seen, FileBusy, NotOffered or another ToolFailed: then nothing
    was done. Raises Unsettled if somebody changed it during the move and it could not be put back.
    """
    require_renames()
    readable_parts(seen.path)
    if seen.file is None:
        raise ToolFailed(f"{seen.path} does not exist.")
    note = TrashNote(id=trash_id, path=seen.path, trashed_at=when.isoformat(), sha256=seen.file.sha256)
    with explain_os_errors(seen.path), folder_as_seen(root, seen) as folder, opened_as_seen(folder, seen) as file:
        if _content(root, trash_id) is not None:
            raise ToolFailed(f"The trash already holds a file under the id {trash_id}; nothing was done.")
        try:
            write_note(root, note)
            with closing(open_or_make(root, note.place)) as descriptor:
                place = OpenFolder(root, note.place, descriptor)
                _move_away(folder, seen, place)
                try:
                    _confirm(folder, seen, place, file)
                except BaseException as error:
                    _put_back(place, seen.name, folder, error)
                    raise
                notes = (place.sync(), folder.sync())
        except (ToolFailed, OSError):
            _forget(root, note)
            raise
    return Moved("/".join((*note.place, note.name)), tuple(filter(None, notes)))


def was_trashed(root: Path, trash_id: str, sha256: str) -> bool:
    """Whether the trash has this content under this id, as after an interrupted call. Raises ToolFailed."""
    with explain_os_errors("The trash"):
        return _content(root, trash_id) == sha256


def restore(root: Path, trash_id: str) -> Moved:
    """Restore the file to its origin, with missing folders.

    Raises FileChanged if something is there now or it was changed in the trash, another ToolFailed: then nothing was
    done. Raises Unsettled if that is uncertain.
    """
    require_renames()
    with explain_os_errors("The trash"):
        note = _restorable(root, trash_id)
    seen = _free_place(root, note.path)
    placed = make_folders(root, seen) if seen.missing else seen
    try:
        with explain_os_errors(note.path), folder_as_seen(root, placed) as folder:
            notes = _take_out(root, note, folder, placed)
    except ToolFailed:
        remove_folders(root, seen.missing)
        raise
    _forget(root, note)
    return Moved(note.path, notes)


def _move_away(folder: OpenFolder, seen: Seen, place: OpenFolder) -> None:
    try:
        move(folder.descriptor, seen.name, place.descriptor, seen.name)
    except FileNotFoundError:
        raise gone(seen.path) from None
    except OSError as error:
        if error.errno != EXDEV:
            raise
        raise ToolFailed(
            f"{seen.path} is on another file system than the trash of the project ({'/'.join(TRASH)}), so it was "
            "left alone; remove it by hand."
        ) from None


def _confirm(folder: OpenFolder, seen: Seen, place: OpenFolder, file: OpenFile) -> None:
    if identity_at(place.descriptor, seen.name) != identity(file.descriptor):
        raise replaced(seen.path)
    if not (folder.leads_here() and place.leads_here()):
        raise FileChanged(f"The folder of {seen.path}, or the trash, was moved meanwhile; look at it again.")
    file.confirm()


def _put_back(from_folder: OpenFolder, name: str, to_folder: OpenFolder, why: BaseException) -> None:
    """Undo a move. Raises Unsettled if something has taken the place by now, or the file is gone."""
    try:
        move(from_folder.descriptor, name, to_folder.descriptor, name)
    except (ToolFailed, OSError):
        raise Unsettled(
            f"Another program changed {name} while it was moved, and it could not be moved back.",
            hint=f"Look for it in {'/'.join(from_folder.parts) or 'the project folder'}.",
        ) from why


def _take_out(root: Path, note: TrashNote, folder: OpenFolder, seen: Seen) -> tuple[str, ...]:
    with closing(open_or_make(root, note.place)) as descriptor:
        place = OpenFolder(root, note.place, descriptor)
        file = identity_at(descriptor, note.name)
        try:
            move(descriptor, note.name, folder.descriptor, seen.name)
        except FileExistsError:
            raise _occupied(note.path) from None
        try:
            if identity_at(folder.descriptor, seen.name) != file or not folder.leads_here():
                raise FileChanged(f"The folder of {note.path} was moved meanwhile; look at it, and restore it again.")
        except BaseException as error:
            _put_back(folder, seen.name, place, error)
            raise
        return tuple(filter(None, (folder.sync(), place.sync())))


def _restorable(root: Path, trash_id: str) -> TrashNote:
    note, content = read_note(root, trash_id), _content(root, trash_id)
    if note is None or content is None:
        raise ToolFailed(f"The trash holds nothing under the id {trash_id}.")
    if content != note.sha256:
        raise FileChanged(
            f"{note.path} was changed while it lay in the trash, so it stays there: {'/'.join(note.place)}. Move it by "
            "hand."
        )
    return note


def _free_place(root: Path, path: str) -> Seen:
    try:
        seen = look(root, path).seen
    except OutsideProject:
        raise
    except ToolFailed as error:
        if os.path.lexists(root / path):
            raise _occupied(path) from None
        raise FileChanged(f"{path} can't be restored: {error} It stays in the trash; clear the way first.") from None
    if seen.file is not None:
        raise _occupied(path)
    return seen


def _occupied(path: str) -> FileChanged:
    return FileChanged(f"Something is at {path} now, so the file stays in the trash; move that away first.")


def _content(root: Path, trash_id: str) -> str | None:
    """Return the SHA-256 of the file in the trash under an id; None if there is none with a note."""
    note = read_note(root, trash_id)
    if note is None:
        return None
    descriptor, missing = open_deepest(root, note.place)
    with closing(descriptor):
        file = None if missing else open_plain(descriptor, note.name, note.path)
    if file is None:
        return None
    with closing(file):
        return read_file(file, note.path)[0].sha256


def _forget(root: Path, note: TrashNote) -> None:
    """Remove the note and empty folders of an id without a file, as far as possible."""
    start = len(TRASH) + 1
    remove_folders(root, tuple("/".join(note.place[:end]) for end in range(start, len(note.place) + 1)))
    with suppress(OSError, ToolFailed):
        descriptor, missing = open_deepest(root, (*TRASH, note.id))
        os.close(descriptor)
        if missing:
            remove_note(root, note.id)
