"""The file that is about to be changed, opened, held against what was seen, and kept from being written to."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes.held import Held
from ozzie_server_ext.tools.changes.lease import Lease
from ozzie_server_ext.tools.changes.outcome import FileBusy, FileChanged
from ozzie_server_ext.tools.changes.seen import Seen, read_file
from ozzie_server_ext.tools.rooted import closing, open_plain

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
