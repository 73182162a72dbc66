"""The first process of a sandbox, and the resources that all its processes use."""

import contextlib
import os
import select
import signal
from dataclasses import dataclass

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MOST = 4096
"""Processes examined: more than any job may have."""


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """`memory` in bytes; `files` counts those where the job may write."""

    memory: int
    files: int


def usage(first: int, limit: int, writable: tuple[str, ...]) -> ResourceUsage:
    """Return the usage of the process `first` and its descendants. If the plain sum exceeds `limit`, shared pages are
    counted once, which takes longer. Processes that have gone count as nothing."""
    pids = with_children(first)
    memory = sum(_resident(pid) for pid in pids)
    if memory > limit:
        memory = sum(_share(pid) for pid in pids)
    files = 0
    for path in writable:
        with contextlib.suppress(OSError):
            if os.path.samefile(f"/proc/{first}/root", "/"):
                break  # its own mounts are not there yet
            system = os.statvfs(f"/proc/{first}/root{path}")
            files += system.f_files - system.f_ffree
    return ResourceUsage(memory, files)


def with_children(first: int) -> list[int]:
    """Return the process and its descendants, parents first."""
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
    """Return the proportional set size, or the resident one if that is unknown."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return _resident(pid)


class FirstProcess:
    """The only child of bubblewrap, which appears some milliseconds after its start. It is found through the system:
    bubblewrap's own report goes where the command can write too, which could name another process to be killed. Killing
    bubblewrap would not do: its children may outlive it."""

    def __init__(self, bubblewrap: int) -> None:
        self._bubblewrap = bubblewrap
        self._pidfd = -1
        self._is_unwanted = False
        self._is_closed = False
        self.pid: int | None = None

    def look(self) -> bool:
        """Find the process; return whether it is known."""
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
        """Kill it and its descendants, now or once it is known."""
        self._is_unwanted = True
        if self.look() and not self._is_closed:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def signal_command(self, number: signal.Signals) -> None:
        """Signal the command: everything but this process and the script that is its only child."""
        if self.pid is None or self._is_closed:
            return
        with contextlib.suppress(OSError):
            own = os.readlink(f"/proc/{self.pid}/ns/pid")
            _, *script = with_children(self.pid)[:2]
            for pid in script:  # the command may have stopped it
                _send(pid, own, signal.SIGCONT)
            for pid in with_children(self.pid)[2:]:
                with contextlib.suppress(OSError):
                    _send(pid, own, number)

    @property
    def is_gone(self) -> bool:
        """Whether it and its descendants have ended; True if it was never found."""
        if not self.look() or self._is_closed:
            return True
        ended = select.poll()  # select() takes no descriptor above 1023
        ended.register(self._pidfd, select.POLLIN)
        return bool(ended.poll(0))

    def close(self) -> None:
        """Release it after its end; later calls do nothing."""
        self._is_closed = True
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def _send(pid: int, namespace: str, number: signal.Signals) -> None:
    """Send a signal if the number still is a process of the namespace. Raises OSError if it is gone."""
    held = os.pidfd_open(pid)
    try:
        if os.readlink(f"/proc/{pid}/ns/pid") == namespace:
            signal.pidfd_send_signal(held, number)
    finally:
        os.close(held)
