"""Which process a number stood for: so that one is known again later, and never taken for another."""

import os
from dataclasses import dataclass
from pathlib import Path

_GONE = frozenset("ZX")
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMark:
    """A process for ever: numbers are used again, but not with the same start in the same boot of the machine.

    `started` is in the system's clock ticks since the boot, `boot` the name of that boot. Both are empty where the
    system does not tell; such a process is never known again.
    """

    pid: int
    started: str = ""
    boot: str = ""


def mark_of(pid: int) -> ProcessMark:
    """The mark of a process that runs."""
    return ProcessMark(pid=pid, started=_stat(pid)[1], boot=_boot())


def is_running(mark: ProcessMark) -> bool:
    """Whether this very process still runs; one that has ended and was not reaped yet does not."""
    if not mark.started or mark.boot != _boot():
        return False
    state, started = _stat(mark.pid)
    return started == mark.started and state not in _GONE


def _stat(pid: int) -> tuple[str, str]:
    """State and start of a process; empty where there is none."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return "", ""
    # A name in parentheses stands before, and may itself hold spaces and parentheses.
    fields = line.rpartition(")")[2].split()
    return fields[0], fields[19]


def _boot() -> str:
    try:
        return _BOOT.read_text("ascii").strip()
    except OSError:
        return f"{os.uname().sysname} does not tell"
