"""Opening files below one folder only, and walking through them."""

import os
import re
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import msgspec

from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.tools.base import ToolFailed

MAX_NAME_BYTES = 255
"""The limit of Linux file systems, in bytes of UTF-8."""

# O_NONBLOCK: opening a FIFO must not wait for its other end.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
FOLDER = FILE | os.O_DIRECTORY

# Letters drawn as nothing, and variation selectors.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


class OutsideProject(ToolFailed):
    """The path leads out of the project or to something that is not accessible there."""

    code = "tool.outside_project"


def parts_below(path: str, *, hidden: bool = False) -> tuple[str, ...]:
    """Return the components of a path relative to the project's root.

    Raises OutsideProject for absolute paths, `..` and, unless `hidden` is set, hidden files, which hold credentials and
    settings.
    """
    pure = PurePosixPath(path.strip() or ".")
    if "\0" in path:
        raise OutsideProject("The path contains a zero byte.")
    if pure.is_absolute() or str(pure).startswith("~"):
        raise OutsideProject(f"{path} is not below the project folder; give a path relative to it.")
    parts = tuple(part for part in pure.parts if part != ".")
    if ".." in parts:
        raise OutsideProject(f"{path} leads out of the project folder.")
    if not hidden and any(part.startswith(".") for part in parts):
        raise OutsideProject(f"{path} is hidden; hidden files and folders are not offered.")
    return parts


def readable_parts(path: str) -> tuple[str, ...]:
    """Return the components of the path of a file to be changed. As `parts_below`, but each name must read as it is:
    nothing invisible, no line break, no space at an end or doubled.

    Raises OutsideProject; ToolFailed for an unreadable or too long name and for the project folder itself.
    """
    shown = visible_label(path)
    for part in path.split("/"):
        if visible_label(part) != part or _BLANK.search(part):
            raise ToolFailed(f"The name {shown} has characters that nobody can see or read; use a plain name.")
        if len(part.encode()) > MAX_NAME_BYTES:
            raise ToolFailed(f"The name {part[:40]}… is longer than {MAX_NAME_BYTES} bytes; use a shorter one.")
    parts = parts_below(path)
    if not parts:
        raise ToolFailed("This is the project folder itself; name a file in it.")
    return parts


def open_deepest(root: Path, parts: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """Open the deepest existing folder of `parts`; return its descriptor and the missing rest. The caller closes it.

    Raises OutsideProject for a symbolic link on the way, ToolFailed for anything else that is no folder.
    """
    path = "/".join(parts)
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for index, part in enumerate(parts):
        try:
            deeper = os.open(part, FOLDER, dir_fd=descriptor)
        except FileNotFoundError:
            return descriptor, parts[index:]
        except OSError as error:
            refusal = _explain(path, part, descriptor, error)
            os.close(descriptor)
            raise refusal from None
        os.close(descriptor)
        descriptor = deeper
    return descriptor, ()


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_plain(folder: int, name: str, path: str) -> int | None:
    """Open the plain file `name` of an open folder; return its descriptor, which the caller closes, or None if there is
    no such name. `path` is for messages.

    Raises OutsideProject for a symbolic link, ToolFailed for anything else that is no plain file.
    """
    try:
        descriptor = os.open(name, FILE, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _explain(path, name, folder, error) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ToolFailed(f"{path} is not a plain file.")
    return descriptor


def open_below(root: Path, path: str, *, folder: bool, hidden: bool = False) -> int:
    """Open the file (or folder) at `path` below `root`; the caller closes the descriptor. `hidden` is for callers that
    show names to the user and read nothing.

    Raises OutsideProject, or ToolFailed if it does not exist or is no plain file (folder).
    """
    parts = parts_below(path, hidden=hidden)
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        try:
            deeper = os.open(part, FOLDER if folder or not last else FILE, dir_fd=descriptor)
        except OSError as error:
            raise _explain(path, part, descriptor, error) from None
        finally:
            os.close(descriptor)
        descriptor = deeper
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISDIR(mode) if folder else stat.S_ISREG(mode)):
        os.close(descriptor)
        raise ToolFailed(f"{path} is not a {'folder' if folder else 'plain file'}.")
    return descriptor


def _explain(path: str, part: str, folder: int, error: OSError) -> ToolFailed:
    try:
        is_link = stat.S_ISLNK(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        is_link = False
    if is_link:
        return OutsideProject(f"{path} passes through a symbolic link, which may lead out of the project.")
    if isinstance(error, FileNotFoundError):
        return ToolFailed(f"{path} does not exist.")
    if isinstance(error, NotADirectoryError):
        return ToolFailed(f"{path}: {part} is not a folder.")
    return ToolFailed(f"{path} can't be opened: {error.strerror}.")


MAX_DEPTH = 100
"""Nested folders that are searched."""
MAX_FILES = 50_000
"""Files of one walk."""


class Found(msgspec.Struct, frozen=True):
    """A plain file: its path in the project, its size in bytes, and the open folder that has it as `name`."""

    path: str
    size: int
    folder: int
    name: str

    def open(self) -> BinaryIO:
        """Open it for reading; if it is no plain file any more, it reads as empty."""
        try:
            descriptor = open_plain(self.folder, self.name, self.path)
        except ToolFailed:
            descriptor = None
        return BytesIO() if descriptor is None else os.fdopen(descriptor, "rb")


class Walk:
    """One bounded walk: it ends after `limit_s` seconds, after MAX_FILES files, or when another thread stops it.
    `is_cut` says whether it ended early; `looked_at` counts files."""

    def __init__(self, limit_s: float) -> None:
        self._end = time.monotonic() + limit_s
        self._stopped = threading.Event()
        self.looked_at = 0
        self.is_cut = False

    def stop(self) -> None:
        self._stopped.set()

    @property
    def is_over(self) -> bool:
        """Whether it must stop."""
        if self._stopped.is_set() or self.looked_at >= MAX_FILES or time.monotonic() > self._end:
            self.is_cut = True
        return self.is_cut

    def files(self, root: Path, path: str) -> Iterator[Found]:
        """Yield the plain files at and below `path` in the project; hidden files are left out, links not followed.
        Raises ToolFailed if `path` is neither a folder nor a plain file."""
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
        """Yield the plain file at `path`. Raises `otherwise`, the error of opening it as a folder, if it is none."""
        folder, _, name = path.rstrip("/").rpartition("/")
        try:
            with closing(open_below(root, folder or ".", folder=True)) as opened:
                if not _is_shown(name) or (size := _size(name, opened)) is None:
                    raise otherwise
                self.looked_at += 1
                yield Found(path, size, opened, name)
        except FileNotFoundError:
            raise otherwise from None


def _is_shown(name: str) -> bool:
    """Hidden files and names that are no text are left out: nobody could ask for the latter."""
    return not name.startswith(".") and name.isprintable()


def _size(name: str, folder: int) -> int | None:
    """Return the size of a plain file; None for anything else and for what has gone."""
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return info.st_size if stat.S_ISREG(info.st_mode) else None
