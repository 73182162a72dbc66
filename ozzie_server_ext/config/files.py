"""Atomic, durable file replacement, one writer at a time, and stamps that show changes of files."""

import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

Stamps: TypeAlias = tuple[tuple[str | int, ...], ...]
"""For each file: its path, and the values that differ between two states of it."""


def stamps_of(files: Iterable[Path]) -> Stamps:
    """Return stamps that change whenever the files do, without reading them. They cover the name itself, which may be a
    link, and its target. The error number tells an unreadable file from a missing one."""
    return tuple((str(file), *_stamp(file, follow_symlinks=False), *_stamp(file)) for file in files)


def _stamp(file: Path, *, follow_symlinks: bool = True) -> tuple[int, ...]:
    try:
        info = file.stat(follow_symlinks=follow_symlinks)
    except FileNotFoundError:
        return ()
    except OSError as error:
        return (error.errno or 0,)
    # Anyone can set a modification time, and a rename keeps it; not so for the inode's change time and number.
    return (info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns, info.st_size)


def is_one_of(file: Path, others: Iterable[Path]) -> bool:
    """Return whether `file` exists and is the same file as one of the others, by any name."""
    try:
        here = file.stat()
    except OSError:
        return False
    return any(_stamp(other)[:2] == (here.st_dev, here.st_ino) for other in others)


TEMPORARY = ".new-"
"""How the names of files begin that are still being written."""


def replace_file(path: Path, content: bytes, *, prefix: str = TEMPORARY) -> None:
    """Replace the content of `path` atomically (0600): write a temporary file, sync it, then rename it. Its name begins
    with `prefix`."""
    descriptor, temporary = tempfile.mkstemp(prefix=prefix, dir=path.parent)  # 0600
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


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold off other writers of `path`, so that no change is lost. The lock is on a file beside it."""
    descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # releases the lock


def sync_folder(folder: Path) -> None:
    """Make renames and new files in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
