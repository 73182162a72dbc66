"""Which process owns a home: what stands in the file of its lock.

Every kernel asks this before it loads anything else, so nothing is imported for it.
"""

import os
from pathlib import Path


def owner_lock_path(home: Path) -> Path:
    """The lock that elects the owner of `home`; while it is held, the file says by which process."""
    return home / "run" / "owner.lock"


def owner_pid(home: Path) -> int | None:
    """The process that last took the lock of `home`, and did not give it back; None where it is gone."""
    try:
        pid = owner_lock_path(home).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(pid) if pid.isdecimal() and process_alive(int(pid)) else None


def owner_alive(home: Path) -> bool:
    """Whether `home` has an owner, which need not be ready yet."""
    return owner_pid(home) is not None


def process_alive(pid: int) -> bool:
    """Whether there is such a process, and it does more than wait to be reaped."""
    if pid <= 0:  # 0 and below would ask about groups of processes
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return not _ended(pid)


def _ended(pid: int) -> bool:
    """Whether it only waits to be reaped, which in a container without an init may take for ever. Linux tells."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[:1] == [b"Z"]
