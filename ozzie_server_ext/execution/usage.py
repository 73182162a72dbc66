"""What the processes of a job use together. The system's own limits are for one process each."""

import contextlib
import os
from dataclasses import dataclass

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MOST = 4096
"""Processes that are looked at: more than any job may have."""


@dataclass(frozen=True, slots=True)
class Usage:
    """`memory` in bytes; `files` is how many there are where the job may write."""

    memory: int
    files: int


def usage(first: int, limit: int, writable: tuple[str, ...]) -> Usage:
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
    return Usage(memory, files)


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
