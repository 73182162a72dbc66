"""Reading an archive that a stranger made, in time that grows with its size and nothing else (GNU tar's format).

The standard library's reader knows every dialect, and some of them can be made to take for ever, holding up every
thread meanwhile. `tar --format=gnu` writes plain files, folders and long names; this reads these, and stops at what is
not as that program writes it.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

_BLOCK = 512
MAX_NAME = 4096
_LONG_NAME, _LONG_LINK = b"L", b"K"
_FILE, _FOLDER = (b"0", b"\0"), b"5"


class BrokenArchive(Exception):
    """It is cut off, or none that we had made. The message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Member:
    """A thing in an archive: a plain file's content lies at `offset`, `size` bytes of it; `mode` has its rights."""

    name: bytes
    is_file: bool
    is_folder: bool
    size: int
    offset: int
    mode: int


def members(descriptor: int, most: int) -> Iterator[Member]:
    """What is in the archive in an open file, in its order; no more than `most` members. Raises BrokenArchive."""
    at, name = 0, b""
    end = os.fstat(descriptor).st_size
    for _ in range(2 * most):
        header = os.pread(descriptor, _BLOCK, at)
        if len(header) < _BLOCK:
            raise BrokenArchive("it is cut off")
        if not any(header):
            return
        kind, size, offset = header[156:157], _number(header[124:136]), at + _BLOCK
        if _number(header[148:156]) != sum(header[:148]) + 8 * 32 + sum(header[156:]) or offset + size > end:
            raise BrokenArchive("it is damaged")
        at = offset + (size + _BLOCK - 1) // _BLOCK * _BLOCK
        if kind in (_LONG_NAME, _LONG_LINK):
            if size > MAX_NAME:
                raise BrokenArchive("a name in it is too long")
            if kind == _LONG_NAME:
                name = os.pread(descriptor, size, offset).rstrip(b"\0")
            continue
        found = name or header[:100].partition(b"\0")[0]
        name = b""
        is_file, mode = kind in _FILE, _number(header[100:108])
        yield Member(found, is_file, kind == _FOLDER, size if is_file else 0, offset, mode)
    raise BrokenArchive(f"it has more than {most:,} files")


def _number(field: bytes) -> int:
    """Octal digits, as the format has them. Larger numbers are written otherwise, and are beyond us."""
    digits = field.strip(b" \0")
    if not digits or len(digits) > 11 or any(digit not in b"01234567" for digit in digits):
        raise BrokenArchive("it is damaged")
    return int(digits, 8)
