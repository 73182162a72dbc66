"""What lies in the trash under an id, as `.ozzie/trash/ID.json` says it, beside the folder that holds the file."""

import os
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ozzie_server_ext.protocol.jsontext import InvalidJson, dumps, loads_object
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.rooted import FOLDER, closing, open_deepest, open_plain, readable_parts

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
