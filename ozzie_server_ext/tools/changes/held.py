"""The folder of a file that is being changed: held open, locked against other changes of Ozzie's, and watched."""

import ctypes
import errno
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes.seen import FileBusy, FileChanged, Seen, identity, read_file, told_in_words
from ozzie_server_ext.tools.safe_open import FOLDER, closing, open_deepest, open_plain


class Lease:
    """Held on an open file within `with`. Where none is to be had (a file of another owner, a file system without
    them), it does nothing and `wanted` stays false: then a program that has the file open keeps the old version."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path
        self._held = False

    def __enter__(self) -> Self:
        """Raises FileBusy where a program has the file open for writing."""
        try:
            # The kernel tells of who waits by a signal, SIGIO if none is chosen, which would end the process; SIGURG is
            # ignored unless somebody handles it.
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
        """Whether somebody waits to write into the file, or did since the lease was taken from us."""
        return self._held and fcntl.fcntl(self._descriptor, fcntl.F_GETLEASE) != fcntl.F_RDLCK


_NOREPLACE, _EXCHANGE = 1, 2

# Missing in the C library of systems other than Linux.
_renameat2: Callable[[int, bytes, int, bytes, int], int] | None = getattr(
    ctypes.CDLL(None, use_errno=True), "renameat2", None
)


class NotOffered(ToolFailed):
    """The system or the file system has no step that is safe against others; nothing was done."""

    code = "tool.no_safe_rename"

    def __init__(self) -> None:
        super().__init__(
            "Nothing was changed: this file system can't swap or move a file in one step without the risk of losing "
            "what somebody else saves in that moment. Keep the project on a local disk of Linux, or make the change "
            "by hand."
        )


def require_renames() -> None:
    """Raises NotOffered where the system has none of this, before anything is begun."""
    if _renameat2 is None:
        raise NotOffered


def swap(folder: int, one: str, other: str) -> None:
    """Each name leads to what the other led to; both have to be there.

    Raises NotOffered, FileNotFoundError, another OSError.
    """
    _rename(folder, one, folder, other, _EXCHANGE)


def move(folder: int, name: str, to_folder: int, to_name: str) -> None:
    """Raises FileExistsError where something is there, NotOffered, another OSError (EXDEV: another file system)."""
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


@dataclass(frozen=True, slots=True)
class Held:
    """An open folder below `root`, by the names in `parts`."""

    root: Path
    parts: tuple[str, ...]
    descriptor: int

    def leads_here(self) -> bool:
        """Whether the path still leads to this folder: it may have been moved, or have got a stand-in, since it was
        opened. What is done by the descriptor then happens elsewhere."""
        try:
            now, missing = open_deepest(self.root, self.parts)
        except (ToolFailed, OSError):
            return False
        with closing(now):
            return not missing and identity(now) == identity(self.descriptor)

    def sync(self) -> str:
        """Makes the names in it durable; in words what hinders that, empty if nothing does."""
        try:
            os.fsync(self.descriptor)
        except OSError as error:
            return f"The disk did not confirm that it is kept for good: {error.strerror}. Look at it after a restart."
        return ""


@contextmanager
def held_folder(root: Path, path: str) -> Iterator[Held]:
    """The folder of the file at `path`.

    Raises FileBusy where another change goes on in it, ToolFailed, OSError.
    """
    parts = tuple(path.split("/"))[:-1]
    descriptor, missing = open_deepest(root, parts)
    with closing(descriptor):
        if missing:
            raise FileChanged(f"The folder of {path} is gone; look at it again.")
        _lock(descriptor, path)
        yield Held(root, parts, descriptor)


@contextmanager
def folder_as_seen(root: Path, seen: Seen) -> Iterator[Held]:
    """The same, and it has to be the folder that was seen, with nothing missing.

    Raises FileChanged as well.
    """
    with held_folder(root, seen.path) as folder:
        if seen.missing or identity(folder.descriptor) != seen.anchor or not folder.leads_here():
            raise FileChanged(f"The folder of {seen.path} is not the one that was looked at; look at it again.")
        yield folder


def _lock(descriptor: int, path: str) -> None:
    """One change at a time in a folder: what another one left over can be told from what it is at work on. The lock is
    a process's own and ends with it."""
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


@dataclass(frozen=True, slots=True)
class Match:
    """An open file that is what was seen."""

    seen: Seen
    descriptor: int
    lease: Lease

    def confirm(self) -> None:
        """Raises FileChanged where it is not what was seen any more, FileBusy where somebody waits to write to it."""
        if self.lease.wanted:
            raise FileBusy(f"Another program is about to write to {self.seen.path}; look at it again.")
        try:
            file, _ = read_file(self.descriptor, self.seen.path)
        except ToolFailed as error:
            raise FileChanged(f"{self.seen.path} changed since it was looked at: {error}") from None
        if file != self.seen.file:
            raise FileChanged(f"{self.seen.path} changed since it was looked at; look at it again.")

    def writable(self, folder: Held) -> bool:
        """Whether somebody may write to it, and this process is among them. The superuser may always, which is why the
        first counts too."""
        mode = os.fstat(self.descriptor).st_mode
        return bool(mode & _ANY_WRITE) and os.access(
            self.seen.name, os.W_OK, dir_fd=folder.descriptor, effective_ids=True
        )


@contextmanager
def opened_as_seen(folder: Held, seen: Seen) -> Iterator[Match]:
    """Raises FileChanged where it is not what was seen, FileBusy where a program has it open for writing, OSError."""
    try:
        descriptor = open_plain(folder.descriptor, seen.name, seen.path)
    except ToolFailed as error:
        raise FileChanged(f"{seen.path} changed since it was looked at: {error}") from None
    if descriptor is None:
        raise FileChanged(f"{seen.path} is gone since it was looked at; look at it again.")
    with closing(descriptor), Lease(descriptor, seen.path) as lease:
        match = Match(seen, descriptor, lease)
        match.confirm()
        yield match


def make_folders(root: Path, seen: Seen) -> Seen:
    """Makes `seen.missing`, 0755 less the umask; what is seen then: the same, with nothing missing.

    Raises FileChanged where something else is there by now, ToolFailed; then those that it made are gone again.
    """
    made = 0
    try:
        with told_in_words(seen.path):
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
    """Removes folders that were made for a change which did not come about; one that is not empty stays."""
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
        raise FileChanged(f"{path} was not there when it was looked at, and now it is; look at it again.") from None
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
