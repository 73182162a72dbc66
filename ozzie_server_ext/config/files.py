"""Files that are there whole or not at all, also after a power cut; and by what it is noticed that one changed."""

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

Stamps: TypeAlias = tuple[tuple[str, int, int], ...]
"""Of each file that is there: its path, its time of change in nanoseconds, its size in bytes."""


def stamps_of(files: Iterable[Path]) -> Stamps:
    """By what a change of files is noticed without reading them."""
    found: list[tuple[str, int, int]] = []
    for file in files:
        try:
            info = file.stat()
        except OSError:
            continue
        found.append((str(file), info.st_mtime_ns, info.st_size))
    return tuple(found)


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
