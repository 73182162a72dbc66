"""The first process of a sandbox, and what all its processes use together."""

import contextlib
import os
import select
import signal
from dataclasses import dataclass

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MOST = 4096
"""Processes that are looked at: more than any job may have."""


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """`memory` in bytes; `files` is how many there are where the job may write."""

    memory: int
    files: int


def usage(first: int, limit: int, writable: tuple[str, ...]) -> ResourceUsage:
    """Of the process `first` and all below it. Where the plain sum is over `limit`, each page that several share
    counts once (which takes longer to find out). What has gone meanwhile counts as nothing."""
    pids = with_children(first)
    memory = sum(_resident(pid) for pid in pids)
    if memory > limit:
        memory = sum(_share(pid) for pid in pids)
    files = 0
    for path in writable:
        with contextlib.suppress(OSError):
            if os.path.samefile(f"/proc/{first}/root", "/"):
                break  # its own places are not there yet
            system = os.statvfs(f"/proc/{first}/root{path}")
            files += system.f_files - system.f_ffree
    return ResourceUsage(memory, files)


def with_children(first: int) -> list[int]:
    """The process and all below it, each behind the one that started it."""
    found = [first]
    for pid in found:
        with contextlib.suppress(OSError, ValueError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                    found += [int(child) for child in file.read().split()]
        if len(found) > _MOST:
            break
    return found


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE
    return 0


def _share(pid: int) -> int:
    """The proportional set size, or the resident one where it is not told."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return _resident(pid)


class FirstProcess:
    """The one child of bubblewrap, some milliseconds behind its own start. It is asked of the system, for what
    bubblewrap itself tells is written where the command can write, too: a number of its own choosing would be ended in
    the place of this one. Ending bubblewrap itself would not do: what it started may outlive it."""

    def __init__(self, bubblewrap: int) -> None:
        self._bubblewrap = bubblewrap
        self._pidfd = -1
        self._is_unwanted = False
        self._is_closed = False
        self.pid: int | None = None

    def look(self) -> bool:
        """Whether it is known by now."""
        if self.pid is not None:
            return True
        if self._is_closed:
            return False
        for pid in with_children(self._bubblewrap)[1:2]:
            try:
                self._pidfd = os.pidfd_open(pid)
            except ProcessLookupError:
                return False
            self.pid = pid
        if self.pid is None:
            return False
        if self._is_unwanted:
            self.end()
        return True

    def end(self) -> None:
        """End it and all behind it, now or once it is known."""
        self._is_unwanted = True
        if self.look() and not self._is_closed:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def signal_command(self, number: signal.Signals) -> None:
        """Send a signal to all but this process and the script that is its one child: to the command."""
        if self.pid is None or self._is_closed:
            return
        with contextlib.suppress(OSError):
            own = os.readlink(f"/proc/{self.pid}/ns/pid")
            _, *script = with_children(self.pid)[:2]
            for pid in script:  # the command may have put it to sleep
                _send(pid, own, signal.SIGCONT)
            for pid in with_children(self.pid)[2:]:
                with contextlib.suppress(OSError):
                    _send(pid, own, number)

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, and so has all behind it. One that never was known counts as gone."""
        if not self.look() or self._is_closed:
            return True
        ended = select.poll()  # not select(), which takes no number above 1023
        ended.register(self._pidfd, select.POLLIN)
        return bool(ended.poll(0))

    def close(self) -> None:
        """It has ended: nothing is looked at or signalled any more."""
        self._is_closed = True
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def _send(pid: int, namespace: str, number: signal.Signals) -> None:
    """Raises OSError where it is gone. A number that is another process by now is held against the namespace."""
    held = os.pidfd_open(pid)
    try:
        if os.readlink(f"/proc/{pid}/ns/pid") == namespace:
            signal.pidfd_send_signal(held, number)
    finally:
        os.close(held)
