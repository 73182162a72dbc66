"""The state of a path: what a person approves, and what a change is bound to."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.safe_open import closing, open_deepest, open_plain, readable_parts


class FileChanged(ToolFailed):
    """The file is not what was seen; nothing was done."""

    code = "tool.file_changed"


class FileBusy(ToolFailed):
    """Another program uses the file or its folder; nothing was done, and what was seen is still valid."""

    code = "tool.file_busy"


def gone(path: str) -> FileChanged:
    return FileChanged(f"{path} is gone since it was looked at; look at it again.")


def appeared(path: str) -> FileChanged:
    return FileChanged(f"{path} was not there when it was looked at, and now it is; look at it again.")


def replaced(path: str) -> FileChanged:
    return FileChanged(f"{path} was replaced by another program; look at it again.")


@contextmanager
def explain_os_errors(path: str) -> Iterator[None]:
    """Turn an OSError, raised before anything was done, into a ToolFailed."""
    try:
        yield
    except OSError as error:
        raise ToolFailed(f"{path} was not changed: {error.strerror or error}.") from error


MAX_BYTES = 2 * 1024 * 1024
"""Bytes of a file that tools change, unless they set another limit."""
LARGEST = 64 * 1024 * 1024
"""Bytes of any file that is compared with what was seen."""


class FileSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A plain file with one name: the whole `st_mode`, size in bytes, SHA-256 of the content in hexadecimal."""

    device: int
    inode: int
    mode: int
    owner: int
    group: int
    size: int
    mtime_ns: int
    sha256: str


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The state of `path` (relative to the project, canonical); `file` is None if there is none.

    `anchor` is the device and inode of the deepest existing folder on the way, `missing` the paths of the folders to
    make below it, outermost first. It has only strings and integers, so any record can hold it.
    """

    path: str
    anchor: tuple[int, int]
    missing: tuple[str, ...]
    file: FileSeen | None

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.split("/"))

    @property
    def name(self) -> str:
        return self.parts[-1]


class Looked(msgspec.Struct, frozen=True):
    """What was seen, and the file's bytes (empty if there is no file)."""

    seen: Seen
    content: bytes


def look(root: Path, path: str, *, most: int = MAX_BYTES) -> Looked:
    """Return the state of `path` below `root`; a missing file is no error. `most` bytes are read.

    Raises OutsideProject for a path that leads out, is hidden or passes a symbolic link; FileChanged while it is being
    written; ToolFailed for unreadable names, folders, devices, pipes and sockets, hard links, and above `most`.
    """
    parts = readable_parts(path)
    path = "/".join(parts)
    with explain_os_errors(path):
        folder, missing = open_deepest(root, parts[:-1])
        with closing(folder):
            anchor = identity(folder)
            descriptor = None if missing else open_plain(folder, parts[-1], path)
        there = len(parts) - 1 - len(missing)
        to_make = tuple("/".join(parts[: there + 1 + index]) for index in range(len(missing)))
        if descriptor is None:
            return Looked(Seen(path=path, anchor=anchor, missing=to_make, file=None), b"")
        with closing(descriptor):
            file, content = read_file(descriptor, path, most=most)
    return Looked(Seen(path=path, anchor=anchor, missing=to_make, file=file), content)


def read_file(descriptor: int, path: str, *, most: int = LARGEST) -> tuple[FileSeen, bytes]:
    """Return the state and all bytes of an open plain file.

    Raises FileChanged if it changes meanwhile or has no name any more, ToolFailed for a hard link and above `most`,
    OSError.
    """
    before = os.fstat(descriptor)
    if before.st_nlink > 1:
        raise ToolFailed(
            f"{path} has a second name elsewhere (a hard link), which a change here would cut off or reach; it is left "
            "alone. Copy it to a new name and work on that."
        )
    if before.st_size > most:
        raise ToolFailed(f"{path} is larger than {most:,} bytes; tools do not change such files.")
    content = _read_all(descriptor, most)
    after = os.fstat(descriptor)
    if _moment(before) != _moment(after) or len(content) != after.st_size or after.st_nlink == 0:
        raise FileChanged(f"{path} is being changed by another program; look at it again.")
    return FileSeen(
        device=after.st_dev,
        inode=after.st_ino,
        mode=after.st_mode,
        owner=after.st_uid,
        group=after.st_gid,
        size=after.st_size,
        mtime_ns=after.st_mtime_ns,
        sha256=hashlib.sha256(content).hexdigest(),
    ), content


def identity(descriptor: int) -> tuple[int, int]:
    """Return the device and inode of an open file."""
    info = os.fstat(descriptor)
    return info.st_dev, info.st_ino


def identity_at(folder: int, name: str) -> tuple[int, int] | None:
    """Return the device and inode of `name` in an open folder, of a link itself; None if there is none."""
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return info.st_dev, info.st_ino


def _read_all(descriptor: int, most: int) -> bytes:
    """Read at most one byte more than `most`: a file may grow meanwhile."""
    pieces = bytearray()
    while len(pieces) <= most:
        piece = os.pread(descriptor, most + 1 - len(pieces), len(pieces))
        if not piece:
            break
        pieces += piece
    return bytes(pieces)


def _moment(info: os.stat_result) -> tuple[int, ...]:
    return (info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_nlink)
