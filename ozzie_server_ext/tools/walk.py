"""Walking through the project's plain files, in the order of their names and along no link (THREATS 16)."""

import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.rooted import closing, open_below, open_plain

MAX_DEPTH = 100
"""Folders in folders that are looked into."""
MAX_FILES = 50_000
"""How many are looked at in one walk."""


@dataclass(frozen=True, slots=True)
class Found:
    """A plain file: its path relative to the project, its size in bytes, and the open folder in which it is `name`."""

    path: str
    size: int
    folder: int
    name: str

    def open(self) -> BinaryIO:
        """Open it to be read; what is no plain file any more reads as an empty one."""
        try:
            descriptor = open_plain(self.folder, self.name, self.path)
        except ToolFailed:
            descriptor = None
        return BytesIO() if descriptor is None else os.fdopen(descriptor, "rb")


class Walk:
    """One walk, with an end: after `limit_s` seconds, after MAX_FILES files, or when it is stopped from another thread.
    `is_cut` says whether one of these came before the last file; `looked_at` counts files."""

    def __init__(self, limit_s: float) -> None:
        self._end = time.monotonic() + limit_s
        self._stopped = threading.Event()
        self.looked_at = 0
        self.is_cut = False

    def stop(self) -> None:
        self._stopped.set()

    @property
    def is_over(self) -> bool:
        """Whether it may go no further."""
        if self._stopped.is_set() or self.looked_at >= MAX_FILES or time.monotonic() > self._end:
            self.is_cut = True
        return self.is_cut

    def files(self, root: Path, path: str) -> Iterator[Found]:
        """The plain files at and below `path` in the project, without what is hidden; no link is followed. Raises
        ToolFailed where `path` is neither a folder nor a plain file."""
        try:
            top = open_below(root, path, folder=True)
        except ToolFailed as error:
            yield from self._file(root, path, error)
            return
        prefix = "/".join(part for part in path.split("/") if part not in ("", "."))
        with closing(top):
            for at, folders, names, opened in os.fwalk(".", dir_fd=top, follow_symlinks=False):
                if self.is_over:
                    return
                if at.count("/") >= MAX_DEPTH:
                    folders.clear()
                    self.is_cut = True
                folders[:] = sorted(name for name in folders if _is_shown(name))
                below = os.path.normpath(os.path.join(prefix, at))
                for name in sorted(filter(_is_shown, names)):
                    if self.is_over:
                        return
                    if (size := _size(name, opened)) is not None:
                        self.looked_at += 1
                        yield Found(name if below == "." else f"{below}/{name}", size, opened, name)

    def _file(self, root: Path, path: str, otherwise: ToolFailed) -> Iterator[Found]:
        """The one plain file at `path`. Raises what was told of it as a folder where it is none."""
        folder, _, name = path.rstrip("/").rpartition("/")
        try:
            with _opened(root, folder or ".") as opened:
                if not _is_shown(name) or (size := _size(name, opened)) is None:
                    raise otherwise
                self.looked_at += 1
                yield Found(path, size, opened, name)
        except FileNotFoundError:
            raise otherwise from None


@contextmanager
def _opened(root: Path, folder: str) -> Iterator[int]:
    with closing(open_below(root, folder, folder=True)) as opened:
        yield opened


def _is_shown(name: str) -> bool:
    """Hidden files are not offered, and neither is a name that is no text: nobody could ask for it."""
    return not name.startswith(".") and name.isprintable()


def _size(name: str, folder: int) -> int | None:
    """Of a plain file; None for anything else, and for what has gone."""
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return info.st_size if stat.S_ISREG(info.st_mode) else None
