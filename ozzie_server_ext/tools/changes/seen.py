"""What was seen at a path: what a person approves, and what a change is bound to."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.safe_open import closing, open_deepest, open_plain, readable_parts


class FileChanged(ToolFailed):
    """What is there is not what was seen, so nothing was done."""

    code = "tool.file_changed"


class FileBusy(ToolFailed):
    """Another program has the file or its folder in use; nothing was done, and what was seen still holds."""

    code = "tool.file_busy"


@contextmanager
def told_in_words(path: str) -> Iterator[None]:
    """Turns what the system refuses, before anything was done, into a ToolFailed."""
    try:
        yield
    except OSError as error:
        raise ToolFailed(f"{path} was not changed: {error.strerror or error}.") from error


MAX_BYTES = 2 * 1024 * 1024
"""Of a file that tools change, unless they say otherwise."""
LARGEST = 64 * 1024 * 1024
"""In bytes, of any file that is held against what was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSeen:
    """A plain file with one name. `mode` is all of `st_mode`, `size` in bytes, `sha256` of the content, hexadecimal."""

    device: int
    inode: int
    mode: int
    owner: int
    group: int
    size: int
    mtime_ns: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is at `path` (relative to the project, canonical); `file` is None where nothing is.

    `anchor` is the device and inode of the deepest folder on the way that is there, `missing` the paths of the folders
    that would have to be made below it, the outermost first. Strings and integers only, so it goes into any record.
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


@dataclass(frozen=True, slots=True)
class Looked:
    """What was seen, and the file's bytes; none where there is no file."""

    seen: Seen
    content: bytes


def look(root: Path, path: str, *, most: int = MAX_BYTES) -> Looked:
    """What is at `path` below `root`; nothing there is no error. `most`: in bytes.

    Raises OutsideProject for what leads out, is hidden or passes a symbolic link; FileChanged where it is being written
    to; ToolFailed for names that can't be read, for folders, devices, pipes and sockets, for a file with a second name
    (hard link), and above `most`.
    """
    parts = readable_parts(path)
    path = "/".join(parts)
    with told_in_words(path):
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
    """What an open plain file is, and all of its bytes.

    Raises FileChanged where it changes meanwhile or has no name any more, ToolFailed for a second name and above
    `most`, OSError.
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
    """Device and inode of what is open."""
    info = os.fstat(descriptor)
    return info.st_dev, info.st_ino


def named(folder: int, name: str) -> tuple[int, int] | None:
    """Device and inode of what has `name` in an open folder, a link itself if it is one; None for nothing."""
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return info.st_dev, info.st_ino


def _read_all(descriptor: int, most: int) -> bytes:
    """From the beginning, and at most a byte more than `most`: a file may grow while it is read."""
    pieces = bytearray()
    while len(pieces) <= most:
        piece = os.pread(descriptor, most + 1 - len(pieces), len(pieces))
        if not piece:
            break
        pieces += piece
    return bytes(pieces)


def _moment(info: os.stat_result) -> tuple[int, ...]:
    return (info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_nlink)
