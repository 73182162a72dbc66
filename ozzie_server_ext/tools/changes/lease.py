"""Keeping other programs from writing into an open file in place, for the moment of a change.

A read lease of Linux (fcntl(2), F_SETLEASE) is only given while nobody has the file open for writing; whoever opens it
for writing then waits until the lease is given back, and the holder can see that somebody waits. Without one, a program
that opened the file before it was replaced would write into the old version, and lose what it wrote.
"""

import errno
import fcntl
import signal
from contextlib import suppress
from types import TracebackType
from typing import Self

from ozzie_server_ext.tools.changes.outcome import FileBusy


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
