"""The folder of a file being changed: held open, locked against other changes by Ozzie, and watched."""

import ctypes
import errno
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes.seen import (
    FileBusy,
    FileChanged,
    Seen,
    appeared,
    explain_os_errors,
    gone,
    identity,
    read_file,
)
from ozzie_server_ext.tools.safe_open import FOLDER, closing, open_deepest, open_plain


class Lease:
    """A read lease on an open file within `with`. If none is available (another owner, some file systems), it does
    nothing and `wanted` stays False; then a program that has the file open keeps the old version."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path
        self._held = False

    def __enter__(self) -> Self:
        """Raises FileBusy if a program has the file open for writing."""
        try:
            # The kernel reports waiting writers by a signal: by default SIGIO, which would end the process. SIGURG is
            # ignored unless handled.
            fcntl.fcntl(self._descriptor, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(self._descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            self._held = True
        except OSError as error:
            if error.errno == errno.EAGAIN:
                raise FileBusy(
                    f"{self._path} is open for writing in another program, so it was left alone. Close it there, then "
                    "try again."
                ) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._held:
            with suppress(OSError):  # it ends with the descriptor at the latest
                fcntl.fcntl(self._descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)

    @property
    def wanted(self) -> bool:
        """Whether somebody waits to write to the file, or did since the lease was broken."""
        return self._held and fcntl.fcntl(self._descriptor, fcntl.F_GETLEASE) != fcntl.F_RDLCK


_NOREPLACE, _EXCHANGE = 1, 2

# Missing in the C library of systems other than Linux.
_renameat2: Callable[[int, bytes, int, bytes, int], int] | None = getattr(
    ctypes.CDLL(None, use_errno=True), "renameat2", None
)


class NotOffered(ToolFailed):
    """The system or file system has no safe atomic rename; nothing was done."""

    code = "tool.no_safe_rename"

    def __init__(self) -> None:
        super().__init__(
            "Nothing was changed: this file system can't swap or move a file in one step without the risk of losing "
            "what somebody else saves in that moment. Keep the project on a local disk of Linux, or make the change "
            "by hand."
        )


def require_renames() -> None:
    """Raises NotOffered if the system lacks atomic renames; call it before anything else."""
    if _renameat2 is None:
        raise NotOffered


def swap(folder: int, one: str, other: str) -> None:
    """Exchange two existing names. Raises NotOffered, FileNotFoundError, another OSError."""
    _rename(folder, one, folder, other, _EXCHANGE)


def move(folder: int, name: str, to_folder: int, to_name: str) -> None:
    """Move without overwriting. Raises FileExistsError, NotOffered, another OSError (EXDEV: another file system)."""
    _rename(folder, name, to_folder, to_name, _NOREPLACE)


def _rename(folder: int, name: str, to_folder: int, to_name: str, flags: int) -> None:
    if _renameat2 is None:
        raise NotOffered
    if _renameat2(folder, os.fsencode(name), to_folder, os.fsencode(to_name), flags) == 0:
        return
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        raise NotOffered
    raise OSError(number, os.strerror(number), name, None, to_name)


LOCK_WAIT_S = 5.0
_LOCK_PAUSE_S = 0.005


class OpenFolder(msgspec.Struct, frozen=True):
    """An open folder below `root`, at the path `parts`."""

    root: Path
    parts: tuple[str, ...]
    descriptor: int

    def leads_here(self) -> bool:
        """Whether the path still leads to this folder; otherwise what is done by the descriptor happens elsewhere."""
        try:
            now, missing = open_deepest(self.root, self.parts)
        except (ToolFailed, OSError):
            return False
        with closing(now):
            return not missing and identity(now) == identity(self.descriptor)

    def sync(self) -> str:
        """Make its names durable; return a sentence on what prevents that, or ""."""
        try:
            os.fsync(self.descriptor)
        except OSError as error:
            return f"The disk did not confirm that it is kept for good: {error.strerror}. Look at it after a restart."
        return ""


@contextmanager
def locked_folder(root: Path, path: str) -> Iterator[OpenFolder]:
    """Open and lock the folder of `path`. Raises FileBusy during another change in it, ToolFailed, OSError."""
    parts = tuple(path.split("/"))[:-1]
    descriptor, missing = open_deepest(root, parts)
    with closing(descriptor):
        if missing:
            raise FileChanged(f"The folder of {path} is gone; look at it again.")
        _lock(descriptor, path)
        yield OpenFolder(root, parts, descriptor)


@contextmanager
def folder_as_seen(root: Path, seen: Seen) -> Iterator[OpenFolder]:
    """As `locked_folder`, if it is the folder that was seen, with nothing missing. Raises FileChanged as well."""
    with locked_folder(root, seen.path) as folder:
        if seen.missing or identity(folder.descriptor) != seen.anchor or not folder.leads_here():
            raise FileChanged(f"The folder of {seen.path} is not the one that was looked at; look at it again.")
        yield folder


def _lock(descriptor: int, path: str) -> None:
    """Allow one change at a time in a folder, to tell leftovers from work in progress. It ends with the process."""
    until = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise FileBusy(f"Another change goes on in the folder of {path}; try again when it is done.") from None
            time.sleep(_LOCK_PAUSE_S)
        except OSError:  # a network file system
            raise NotOffered from None


_ANY_WRITE = 0o222


class OpenFile(msgspec.Struct, frozen=True):
    """An open file that matches what was seen."""

    seen: Seen
    descriptor: int
    lease: Lease

    def confirm(self) -> None:
        """Raises FileChanged if it no longer matches, FileBusy if somebody waits to write to it."""
        if self.lease.wanted:
            raise FileBusy(f"Another program is about to write to {self.seen.path}; look at it again.")
        try:
            file, _ = read_file(self.descriptor, self.seen.path)
        except ToolFailed as error:
            raise FileChanged(f"{self.seen.path} changed since it was looked at: {error}") from None
        if file != self.seen.file:
            raise FileChanged(f"{self.seen.path} changed since it was looked at; look at it again.")

    def writable(self, folder: OpenFolder) -> bool:
        """Whether anybody may write to it, and this process. The first check is for the superuser, who always may."""
        mode = os.fstat(self.descriptor).st_mode
        return bool(mode & _ANY_WRITE) and os.access(
            self.seen.name, os.W_OK, dir_fd=folder.descriptor, effective_ids=True
        )


@contextmanager
def opened_as_seen(folder: OpenFolder, seen: Seen) -> Iterator[OpenFile]:
    """Open a file if it matches. Raises FileChanged, FileBusy if a program has it open for writing, OSError."""
    try:
        descriptor = open_plain(folder.descriptor, seen.name, seen.path)
    except ToolFailed as error:
        raise FileChanged(f"{seen.path} changed since it was looked at: {error}") from None
    if descriptor is None:
        raise gone(seen.path)
    with closing(descriptor), Lease(descriptor, seen.path) as lease:
        match = OpenFile(seen, descriptor, lease)
        match.confirm()
        yield match


def make_folders(root: Path, seen: Seen) -> Seen:
    """Make `seen.missing` (0755 less the umask); return the same with nothing missing.

    Raises FileChanged if something is there by now, ToolFailed; then the folders made are removed.
    """
    made = 0
    try:
        with explain_os_errors(seen.path):
            descriptor, missing = open_deepest(root, seen.parts[:-1])
            try:
                if identity(descriptor) != seen.anchor or len(missing) != len(seen.missing):
                    raise FileChanged(f"The folders on the way to {seen.path} have changed; look at it again.")
                for path, name in zip(seen.missing, missing, strict=True):
                    deeper = _make(descriptor, name, path)
                    made += 1
                    os.close(descriptor)
                    descriptor = deeper
                anchor = identity(descriptor)
            finally:
                os.close(descriptor)
            _check(root, seen, anchor)
    except BaseException:
        remove_folders(root, seen.missing[:made])
        raise
    return replace(seen, anchor=anchor, missing=())


def remove_folders(root: Path, paths: tuple[str, ...]) -> None:
    """Remove folders made for a change that failed; those that are not empty stay."""
    for path in reversed(paths):
        *above, name = path.split("/")
        with suppress(OSError, ToolFailed):
            descriptor, missing = open_deepest(root, tuple(above))
            with closing(descriptor):
                if not missing:
                    os.rmdir(name, dir_fd=descriptor)


def _make(descriptor: int, name: str, path: str) -> int:
    try:
        os.mkdir(name, 0o755, dir_fd=descriptor)
    except FileExistsError:
        raise appeared(path) from None
    try:
        os.fsync(descriptor)
        return os.open(name, FOLDER, dir_fd=descriptor)
    except OSError as error:
        with suppress(OSError):
            os.rmdir(name, dir_fd=descriptor)
        raise FileChanged(f"{path} was made and could not be opened: {error.strerror}.") from None


def _check(root: Path, seen: Seen, anchor: tuple[int, int]) -> None:
    descriptor, missing = open_deepest(root, seen.parts[:-1])
    with closing(descriptor):
        if missing or identity(descriptor) != anchor:
            raise FileChanged(f"The folders on the way to {seen.path} were moved while they were made.")
