"""Whether a file holds outputs of notebook cells, which may come from anywhere, judged by its content.

Names prove nothing: a notebook may be called `U.IPYNB`, `n.ipynb.bak` or `copy.json`. So the test is whether the bytes
hold a saved output: the key "output_type" with one of its values, also inside a JSON string. Text that only uses the
word does not count; code that spells out an output does: better one label too many.
"""

import os
import re
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from ozzie_server_ext.domain.content import CLEAN, Content, Label

MOST_BYTES = 64 << 20
"""Bytes searched in one file. A larger file counts as holding outputs."""
LIMIT_S = 1.0
"""Seconds to search a project. The rest counts as holding outputs."""
MARK = "ipynb"
"""A file with this in its name counts as a notebook or a copy of one."""

_CHUNK = 1 << 20
_LONGEST = 256
"""More bytes than a match has, unless it is padded with spaces. Chunks overlap by this much."""
_BINARY = 8192
_QUOTE = rb"(?:\\{0,32}[\"']|&quot;|&#34;|&#x27;)"
_SPACE = rb"(?:\s|\\{1,32}[nrt]){0,16}"
# nbformat 4, and two older names from nbformat 3.
_KINDS = rb"(?:stream|display_data|update_display_data|execute_result|error|pyout|pyerr)"
_OUTPUT = re.compile(rb"output_type" + _QUOTE + _SPACE + rb":" + _SPACE + _QUOTE + _KINDS + _QUOTE)


def holds_outputs(content: bytes) -> bool:
    """Whether a file's whole content holds notebook outputs."""
    return file_holds_outputs(BytesIO(), content)


def file_holds_outputs(file: BinaryIO, begin: bytes = b"") -> bool:
    """As `holds_outputs`, for an open file of which `begin` was read already. The part shown to somebody is not enough:
    an output may begin before its "output_type"."""
    before, left = b"", MOST_BYTES
    while chunk := begin or file.read(_CHUNK):
        begin = b""
        left -= len(chunk)
        # UTF-16 and UTF-32 have zero bytes around each letter.
        found = before + chunk.replace(b"\0", b"")
        if b"output_type" in found and _OUTPUT.search(found):
            return True
        if left <= 0:
            return True
        before = found[-_LONGEST:]
    return False


def named_outputs_below(project: Path, since_ns: int) -> Content:
    """Return the labels of outputs that a program with access to the project, started at `since_ns`, may have read: of
    all files named like a notebook. What changed since or was not searched in time counts as an unknown place."""
    found: set[str] = set()
    end = time.monotonic() + LIMIT_S
    for path, is_folder in _files(project):
        if time.monotonic() > end:
            found.add("")
            break
        if changed_since(path, since_ns):  # its earlier name and content are unknown
            found.add("")
        if not is_folder and _has_outputs(path):
            found.add(path_text(path.relative_to(project)))
    return Content.of(Label.OUTPUT, found) if found else CLEAN


def path_text(path: str | Path) -> str:
    """Return a path as text, as sources name it."""
    return os.fsencode(path).decode("utf-8", "replace")


def _files(project: Path) -> Iterator[tuple[Path, bool]]:
    """Yield each folder (True) and each file named like a notebook (False). The sandbox hides hidden names at the top;
    links lead to files that are found anyway or that it does not show."""
    for at, folders, names in os.walk(project):
        folder = Path(at)
        if folder == project:
            folders[:] = [name for name in folders if not name.startswith(".")]
            names = [name for name in names if not name.startswith(".")]
        yield folder, True
        yield from ((folder / name, False) for name in names if MARK in name.casefold())


def _has_outputs(path: Path) -> bool:
    """Whether a file named like a notebook holds outputs. Compressed files can't be searched and count."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            begin = file.read(_BINARY)
            return b"\0" in begin or file_holds_outputs(file, begin)
    except OSError:
        return False  # gone, a link, or unreadable for commands too


def changed_since(path: Path, since_ns: int) -> bool:
    """Whether a file or folder changed at that time or later, or is gone."""
    try:
        return os.stat(path, follow_symlinks=False).st_ctime_ns >= since_ns
    except OSError:
        return True
