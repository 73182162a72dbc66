"""The process that owns a home, as its lock file says.

Every kernel checks this before it loads anything else, so nothing is imported for it.
"""

import os
from pathlib import Path


def owner_lock_path(home: Path) -> Path:
    """Return the lock file that elects the owner of `home`; while it is locked, it contains the owner's pid."""
    return home / "run" / "owner.lock"


def owner_pid(home: Path) -> int | None:
    """Return the process that last took the lock of `home` and did not release it; None if it is gone."""
    try:
        pid = owner_lock_path(home).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(pid) if pid.isdecimal() and process_alive(int(pid)) else None


def owner_alive(home: Path) -> bool:
    """Whether `home` has an owner, ready or not."""
    return owner_pid(home) is not None


def process_alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    if pid <= 0:  # 0 and below address groups of processes
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return not _ended(pid)


def _ended(pid: int) -> bool:
    """Whether it is a zombie, which may last for ever in a container without an init. Only Linux tells."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[:1] == [b"Z"]
