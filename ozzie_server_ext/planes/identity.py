"""Which process a number stands for, who is at the other end of a socket, and what a dead gateway left running."""

import asyncio
import contextlib
import os
import signal
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ozzie_server_ext.observability.logs import logger

_CREDENTIALS = struct.Struct("3i")


def peer_uid(end: socket.socket) -> int | None:
    """The user of the process at the other end, as it was when it connected or listened; None where the system does
    not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    _, uid, _ = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return uid


def is_trusted(uid: int | None) -> bool:
    """Whether a process of this user may talk with us: ourselves and root may, who can read our memory anyway."""
    return uid in (os.getuid(), 0)


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


log = logger(__name__)

PATIENCE_S = 5.0
"""How long children may take to end by themselves."""
KILLED_S = 5.0
"""How long one may take to be gone once it was killed."""
_POLL_S = 0.02


async def see_off(
    marks: Sequence[ProcessMark], *, patience_s: float = PATIENCE_S, killed_s: float = KILLED_S
) -> dict[ProcessMark, str]:
    """Wait until these processes are gone, and kill those that stay; what became of each, in words.

    Returns in bounded time. One that can't be killed is left out of the answer, and the log says so.
    """
    fates = {mark: "It was gone." for mark in marks if not is_running(mark)}
    if left := [mark for mark in marks if mark not in fates]:
        log.info("waiting for %d processes of a gateway that is gone", len(left))
    left = await _wait(left, patience_s, fates, "It ended after its gateway.")
    for mark in left:
        log.warning("process %d has outlived its gateway and is killed", mark.pid)
        _kill(mark)
    for mark in await _wait(left, killed_s, fates, "It had outlived its gateway and was killed."):
        log.error("process %d has outlived its gateway and can't be killed", mark.pid)
    return fates


async def _wait(
    marks: Sequence[ProcessMark], seconds: float, fates: dict[ProcessMark, str], fate: str
) -> list[ProcessMark]:
    """Note the fate of those that end in time; those that do not."""
    left = list(marks)
    for _ in range(max(1, int(seconds / _POLL_S))):
        fates.update((mark, fate) for mark in left if not is_running(mark))
        left = [mark for mark in left if mark not in fates]
        if not left:
            break
        await asyncio.sleep(_POLL_S)
    return left


def _kill(mark: ProcessMark) -> None:
    with contextlib.suppress(OSError):
        # A descriptor stands for one process: what is looked at through it is what is killed.
        descriptor = os.pidfd_open(mark.pid)
        try:
            if is_running(mark):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
