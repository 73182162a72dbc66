"""Lets the kernel itself refuse a system call of this process, as a broken disk or another file system would."""

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Callable
from typing import Any

NUMBERS = {
    "x86_64": {"fsync": 74, "fcntl": 72, "unlinkat": 263, "renameat2": 316},
    "aarch64": {"fsync": 82, "fcntl": 25, "unlinkat": 35, "renameat2": 276},
}
"""The numbers of the calls, for each machine on which the tests that use this can run."""

SUPPORTED = sys.platform == "linux" and platform.machine() in NUMBERS

_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _SECOND_ARGUMENT = 0, 24
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse(call: str, errno: int, *, second_argument: int | None = None) -> None:
    """From now on, this process gets `errno` from every such call, or from those with that second argument. It can't be
    undone: for a child process only."""
    number = NUMBERS[platform.machine()][call]
    steps = [(_LOAD, 0, 0, _NUMBER), (_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | errno), (_RETURN, 0, 0, _ALLOW)]
    if second_argument is not None:
        steps[1:2] = [(_EQUAL, 0, 3, number), (_LOAD, 0, 0, _SECOND_ARGUMENT), (_EQUAL, 0, 1, second_argument)]
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    program = _Program(len(steps), code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def at_call(function: Callable[..., object], nth: int, then: Callable[[], None]) -> None:
    """Does `then` just before this process calls the built-in `function` for the `nth` time."""
    count = 0

    def watch(_frame: object, event: str, called: Any) -> None:
        nonlocal count
        if event == "c_call" and called is function:
            count += 1
            if count == nth:
                sys.setprofile(None)
                then()

    sys.setprofile(watch)
