"""The folder of a file that is being changed: held open, locked against other changes of Ozzie's, and watched."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes.outcome import FileBusy, FileChanged
from ozzie_server_ext.tools.changes.renames import NotOffered
from ozzie_server_ext.tools.changes.seen import Seen, identity
from ozzie_server_ext.tools.rooted import closing, open_deepest

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
