"""Files that are there whole or not at all, also after a power cut; and by what it is noticed that one changed."""

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

Stamps: TypeAlias = tuple[tuple[str | int, ...], ...]
"""Of each file: its path, and what tells two states of it apart."""


def stamps_of(files: Iterable[Path]) -> Stamps:
    """By what a change of files is noticed without reading them: for the name itself, which may be a link, and for what
    it leads to. A file that can't be looked at is told from one that is not there by the number of the error."""
    return tuple((str(file), *_stamp(file, follow_symlinks=False), *_stamp(file)) for file in files)


def _stamp(file: Path, *, follow_symlinks: bool = True) -> tuple[int, ...]:
    try:
        info = file.stat(follow_symlinks=follow_symlinks)
    except FileNotFoundError:
        return ()
    except OSError as error:
        return (error.errno or 0,)
    # A time of change can be set by anyone, and a rename keeps it: the inode's own time and number can't and do not.
    return (info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns, info.st_size)


def is_one_of(file: Path, others: Iterable[Path]) -> bool:
    """Whether `file` is there and is, by another name or the same one, one of the others."""
    try:
        here = file.stat()
    except OSError:
        return False
    return any(_stamp(other)[:2] == (here.st_dev, here.st_ino) for other in others)


def replace_file(path: Path, content: bytes) -> None:
    """Make `path` hold `content`, 0600: written under another name first, durable before it has its own."""
    descriptor, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)  # 0600
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
