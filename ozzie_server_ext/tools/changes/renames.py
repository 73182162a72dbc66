"""The two steps of the kernel that a change rests on: swapping two names, and a move that replaces nothing.

Linux has both in renameat2(2). Python offers neither, and a plain rename would replace whatever is there.
"""

import ctypes
import errno
import os
from collections.abc import Callable

from ozzie_server_ext.tools.base import ToolFailed

_NOREPLACE, _EXCHANGE = 1, 2

# Missing in the C library of systems other than Linux.
_renameat2: Callable[[int, bytes, int, bytes, int], int] | None = getattr(
    ctypes.CDLL(None, use_errno=True), "renameat2", None
)


class NotOffered(ToolFailed):
    """The system or the file system has no step that is safe against others; nothing was done."""

    code = "tool.no_safe_rename"

    def __init__(self) -> None:
        super().__init__(
            "Nothing was changed: this file system can't swap or move a file in one step without the risk of losing "
            "what somebody else saves in that moment. Keep the project on a local disk of Linux, or make the change "
            "by hand."
        )


def require_renames() -> None:
    """Raises NotOffered where the system has none of this, before anything is begun."""
    if _renameat2 is None:
        raise NotOffered


def swap(folder: int, one: str, other: str) -> None:
    """Each name leads to what the other led to; both have to be there.

    Raises NotOffered, FileNotFoundError, another OSError.
    """
    _rename(folder, one, folder, other, _EXCHANGE)


def move(folder: int, name: str, to_folder: int, to_name: str) -> None:
    """Raises FileExistsError where something is there, NotOffered, another OSError (EXDEV: another file system)."""
    _rename(folder, name, to_folder, to_name, _NOREPLACE)


def _rename(folder: int, name: str, to_folder: int, to_name: str, flags: int) -> None:
    if _renameat2 is None:
        raise NotOffered
    if _renameat2(folder, os.fsencode(name), to_folder, os.fsencode(to_name), flags) == 0:
        return
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        raise NotOffered
    raise OSError(number, os.strerror(number), name, None, to_name)
