"""Identities of processes: marks that outlive pid reuse, peers of sockets, and leftovers of a dead gateway."""

import asyncio
import contextlib
import os
import signal
import socket
import struct
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ozzie_server_ext.observability.logs import logger

_CREDENTIALS = struct.Struct("3i")


def peer_uid(end: socket.socket) -> int | None:
    """Return the uid of the process at the other end, as of its connect or listen; None if the system does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    _, uid, _ = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return uid


def is_trusted(uid: int | None) -> bool:
    """Return whether this user's processes may talk to us: only ourselves and root, who can read our memory anyway."""
    return uid in (os.getuid(), 0)


_GONE = frozenset("ZX")
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class ProcessMark(msgspec.Struct, frozen=True, kw_only=True):
    """A process's unique identity: pids are reused, but not with the same start in the same boot.

    `started` is in clock ticks since the boot, `boot` names the boot. Both are empty if the system does not tell; then
    the process is never recognised again.
    """

    pid: int
    started: str = ""
    boot: str = ""


def mark_of(pid: int) -> ProcessMark:
    """Return the mark of a running process."""
    return ProcessMark(pid=pid, started=_stat(pid)[1], boot=_boot())


def is_running(mark: ProcessMark) -> bool:
    """Return whether this process still runs; a zombie does not."""
    if not mark.started or mark.boot != _boot():
        return False
    state, started = _stat(mark.pid)
    return started == mark.started and state not in _GONE


def _stat(pid: int) -> tuple[str, str]:
    """Return a process's state and start, empty if it does not exist."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return "", ""
    # The fields before include a name in parentheses, which may itself contain spaces and parentheses.
    fields = line.rpartition(")")[2].split()
    return fields[0], fields[19]


def _boot() -> str:
    try:
        return _BOOT.read_text("ascii").strip()
    except OSError:
        return f"{os.uname().sysname} does not tell"


log = logger(__name__)

PATIENCE_S = 5.0
"""How long processes may take to end by themselves."""
KILLED_S = 5.0
"""How long a killed process may take to be gone."""
_POLL_S = 0.02


async def see_off(
    marks: Sequence[ProcessMark], *, patience_s: float = PATIENCE_S, killed_s: float = KILLED_S
) -> dict[ProcessMark, str]:
    """Wait until these processes are gone, and kill those that stay; return each one's outcome in words.

    Returns in bounded time. A process that can't be killed is left out and logged.
    """
    outcomes = {mark: "It was gone." for mark in marks if not is_running(mark)}
    if left := [mark for mark in marks if mark not in outcomes]:
        log.info("waiting for %d processes of a gateway that is gone", len(left))
    left = await _wait(left, patience_s, outcomes, "It ended after its gateway.")
    for mark in left:
        log.warning("process %d has outlived its gateway and is killed", mark.pid)
        _kill(mark)
    for mark in await _wait(left, killed_s, outcomes, "It had outlived its gateway and was killed."):
        log.error("process %d has outlived its gateway and can't be killed", mark.pid)
    return outcomes


async def _wait(
    marks: Sequence[ProcessMark], seconds: float, outcomes: dict[ProcessMark, str], outcome: str
) -> list[ProcessMark]:
    """Record `outcome` for those that end in time; return the others."""
    left = list(marks)
    for _ in range(max(1, int(seconds / _POLL_S))):
        outcomes.update((mark, outcome) for mark in left if not is_running(mark))
        left = [mark for mark in left if mark not in outcomes]
        if not left:
            break
        await asyncio.sleep(_POLL_S)
    return left


def _kill(mark: ProcessMark) -> None:
    with contextlib.suppress(OSError):
        # A pidfd stands for one process: what we check through it is what we kill.
        descriptor = os.pidfd_open(mark.pid)
        try:
            if is_running(mark):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
