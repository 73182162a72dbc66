"""The project's trash: a file goes to `.ozzie/trash/ID/` below the project, under its own path, and comes back from it.

The note beside it is written first, so that nothing lies in the trash of which nobody knows where it belongs.
"""

import os
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from errno import EXDEV
from pathlib import Path

from ozzie_server_ext.protocol.jsontext import InvalidJson, dumps, loads_object
from ozzie_server_ext.tools.base import ToolFailed, Unsettled
from ozzie_server_ext.tools.changes.held import (
    Held,
    Match,
    folder_as_seen,
    make_folders,
    move,
    opened_as_seen,
    remove_folders,
    require_renames,
)
from ozzie_server_ext.tools.changes.seen import FileChanged, Seen, identity, look, named, read_file, told_in_words
from ozzie_server_ext.tools.safe_open import FOLDER, OutsideProject, closing, open_deepest, open_plain, readable_parts

TRASH = (".ozzie", "trash")
_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashNote:
    """`path` is where the file lay, relative to the project; `trashed_at` is ISO 8601, `sha256` of its content."""

    id: str
    path: str
    trashed_at: str
    sha256: str

    @property
    def place(self) -> tuple[str, ...]:
        """The folder in the trash that holds the file, by its names below the project."""
        return (*TRASH, self.id, *self.path.split("/")[:-1])

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def write_note(root: Path, note: TrashNote) -> None:
    """Makes the note durable, in the place of one that a broken-off attempt left. Raises ToolFailed, OSError."""
    with closing(make_way(root, TRASH)) as trash:
        with suppress(FileNotFoundError):
            os.unlink(_file(note.id), dir_fd=trash)
        with open(os.open(_file(note.id), _NEW, 0o600, dir_fd=trash), "wb") as file:
            file.write(dumps(asdict(note)).encode())
            file.flush()
            os.fsync(file.fileno())
        os.fsync(trash)


def read_note(root: Path, trash_id: str) -> TrashNote | None:
    """None where there is none that can be read. Raises ToolFailed for what is no id, and where the trash is no folder
    of the project's own."""
    _check_id(trash_id)
    descriptor, missing = open_deepest(root, TRASH)
    with closing(descriptor):
        found = None if missing else open_plain(descriptor, _file(trash_id), f"{'/'.join(TRASH)}/{_file(trash_id)}")
    if found is None:
        return None
    with open(found, "rb") as file, suppress(InvalidJson, KeyError, ToolFailed):
        said = loads_object(file.read(_MAX_BYTES + 1), max_bytes=_MAX_BYTES)
        note = TrashNote(
            id=str(said["id"]), path=str(said["path"]), trashed_at=str(said["trashed_at"]), sha256=str(said["sha256"])
        )
        if note.id == trash_id and note.path == "/".join(readable_parts(note.path)):
            return note
    return None


def all_notes(root: Path) -> list[TrashNote]:
    """Of everything that lies in the trash. Raises ToolFailed, OSError."""
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


def make_way(root: Path, names: tuple[str, ...]) -> int:
    """An open descriptor of the folder at `names` below the project, whose missing parts are made, 0700; the caller
    closes it. Raises ToolFailed where something on the way is no folder, OSError."""
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
        raise ToolFailed("This is no id of the trash; an id has letters, digits, - and _, and at most 64 of them.")


@dataclass(frozen=True, slots=True)
class Moved:
    """It was done. `place` is where the file lies now, relative to the project; `notes` are sentences for the user,
    mostly none: what could not be made sure of afterwards."""

    place: str
    notes: tuple[str, ...]


def move_to_trash(root: Path, seen: Seen, trash_id: str, *, when: datetime) -> Moved:
    """Moves the file that was seen into the trash, under an id of the caller's that was not used before.

    Raises FileChanged where it is not what was seen, FileBusy, NotOffered or another ToolFailed: then nothing was done.
    Raises Unsettled where it could not be put back after somebody else changed it in that moment.
    """
    require_renames()
    readable_parts(seen.path)
    if seen.file is None:
        raise ToolFailed(f"{seen.path} does not exist.")
    note = TrashNote(id=trash_id, path=seen.path, trashed_at=when.isoformat(), sha256=seen.file.sha256)
    with told_in_words(seen.path), folder_as_seen(root, seen) as folder, opened_as_seen(folder, seen) as file:
        if _content(root, trash_id) is not None:
            raise ToolFailed(f"The trash already holds a file under the id {trash_id}; nothing was done.")
        try:
            write_note(root, note)
            with closing(make_way(root, note.place)) as descriptor:
                place = Held(root, note.place, descriptor)
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
    """Whether a file with that content lies in the trash under that id: a call that is made again after a crash finds
    what the first one did. Raises ToolFailed."""
    with told_in_words("The trash"):
        return _content(root, trash_id) == sha256


def restore(root: Path, trash_id: str) -> Moved:
    """Puts the file back to where it lay, with the folders that are missing.

    Raises FileChanged where something lies there now or it was changed in the trash, another ToolFailed: then nothing
    was done. Raises Unsettled where that can't be said.
    """
    require_renames()
    with told_in_words("The trash"):
        note = _restorable(root, trash_id)
    seen = _free_place(root, note.path)
    placed = make_folders(root, seen) if seen.missing else seen
    try:
        with told_in_words(note.path), folder_as_seen(root, placed) as folder:
            notes = _take_out(root, note, folder, placed)
    except ToolFailed:
        remove_folders(root, seen.missing)
        raise
    _forget(root, note)
    return Moved(note.path, notes)


def _move_away(folder: Held, seen: Seen, place: Held) -> None:
    try:
        move(folder.descriptor, seen.name, place.descriptor, seen.name)
    except FileNotFoundError:
        raise FileChanged(f"{seen.path} is gone since it was looked at; look at it again.") from None
    except OSError as error:
        if error.errno != EXDEV:
            raise
        raise ToolFailed(
            f"{seen.path} lies on another file system than the trash of the project ({'/'.join(TRASH)}), so it was "
            "left alone; remove it by hand."
        ) from None


def _confirm(folder: Held, seen: Seen, place: Held, file: Match) -> None:
    if named(place.descriptor, seen.name) != identity(file.descriptor):
        raise FileChanged(f"{seen.path} was replaced by another program; look at it again.")
    if not (folder.leads_here() and place.leads_here()):
        raise FileChanged(f"The folder of {seen.path}, or the trash, was moved meanwhile; look at it again.")
    file.confirm()


def _put_back(from_folder: Held, name: str, to_folder: Held, why: BaseException) -> None:
    """Moves what was moved back again. Raises Unsettled where something else lies there by now, or it is gone."""
    try:
        move(from_folder.descriptor, name, to_folder.descriptor, name)
    except (ToolFailed, OSError):
        raise Unsettled(
            f"Another program changed {name} in the moment when it was moved, and it could not be moved back.",
            hint=f"Look for it in {'/'.join(from_folder.parts) or 'the project folder'}.",
        ) from why


def _take_out(root: Path, note: TrashNote, folder: Held, seen: Seen) -> tuple[str, ...]:
    with closing(make_way(root, note.place)) as descriptor:
        place = Held(root, note.place, descriptor)
        file = named(descriptor, note.name)
        try:
            move(descriptor, note.name, folder.descriptor, seen.name)
        except FileExistsError:
            raise _taken(note.path) from None
        try:
            if named(folder.descriptor, seen.name) != file or not folder.leads_here():
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
            raise _taken(path) from None
        raise FileChanged(f"{path} can't be restored: {error} It stays in the trash; clear the way first.") from None
    if seen.file is not None:
        raise _taken(path)
    return seen


def _taken(path: str) -> FileChanged:
    return FileChanged(f"Something lies at {path} now, so the file stays in the trash; move that away first.")


def _content(root: Path, trash_id: str) -> str | None:
    """The SHA-256 of the file that lies in the trash under an id; None where there is none that was put there."""
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
    """Removes the note and the folders of an id under which no file lies; what can't be removed stays."""
    start = len(TRASH) + 1
    remove_folders(root, tuple("/".join(note.place[:end]) for end in range(start, len(note.place) + 1)))
    with suppress(OSError, ToolFailed):
        descriptor, missing = open_deepest(root, (*TRASH, note.id))
        os.close(descriptor)
        if missing:
            remove_note(root, note.id)
