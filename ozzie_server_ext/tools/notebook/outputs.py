"""Decide by content whether a file holds outputs of notebook cells, which may come from anywhere.

A name proves nothing: a notebook may be called `U.IPYNB`, `n.ipynb.bak` or `copy.json`. So the test is whether the
bytes hold an output as notebooks are saved: the key "output_type" with one of its kinds, also inside a JSON string.
Text that only uses the word is not taken for a notebook; code that spells out an output is: better a label too many.
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
"""How much of one file is searched. The rest of a larger one is taken for outputs."""
LIMIT_S = 1.0
"""How long a project is searched. The rest is taken for outputs."""
MARK = "ipynb"
"""In the name of a file that is taken for a notebook, or for a copy of one, whatever else its name says."""

_CHUNK = 1 << 20
_LONGEST = 256
"""More bytes than a match has, unless somebody pads it with spaces. Chunks overlap by as much."""
_BINARY = 8192
_QUOTE = rb"(?:\\{0,32}[\"']|&quot;|&#34;|&#x27;)"
_SPACE = rb"(?:\s|\\{1,32}[nrt]){0,16}"
# nbformat 4, and what nbformat 3 called two of them.
_KINDS = rb"(?:stream|display_data|update_display_data|execute_result|error|pyout|pyerr)"
_OUTPUT = re.compile(rb"output_type" + _QUOTE + _SPACE + rb":" + _SPACE + _QUOTE + _KINDS + _QUOTE)


def holds_outputs(content: bytes) -> bool:
    """Tell whether the content, all of a file, holds outputs of a notebook."""
    return file_holds_outputs(BytesIO(), content)


def file_holds_outputs(file: BinaryIO, begin: bytes = b"") -> bool:
    """Tell the same of an open file, of which `begin` was read already.

    The part that somebody was shown is not enough: an output may begin before its "output_type".
    """
    before, left = b"", MOST_BYTES
    while chunk := begin or file.read(_CHUNK):
        begin = b""
        left -= len(chunk)
        # UTF-16 and UTF-32 put zero bytes around each letter.
        found = before + chunk.replace(b"\0", b"")
        if b"output_type" in found and _OUTPUT.search(found):
            return True
        if left <= 0:
            return True
        before = found[-_LONGEST:]
    return False


def named_outputs_below(project: Path, since_ns: int) -> Content:
    """Return the outputs that a program can have read that sees all of the project, and began at `since_ns`: those of
    each file that is named like a notebook and holds some. An unknown place stands for what changed since, and for the
    rest of a search that takes too long."""
    found: set[str] = set()
    end = time.monotonic() + LIMIT_S
    for path, is_folder in _files(project):
        if time.monotonic() > end:
            found.add("")
            break
        if changed_since(path, since_ns):  # what it was or held then is not known
            found.add("")
        if not is_folder and _has_outputs(path):
            found.add(path_text(path.relative_to(project)))
    return Content.of(Label.OUTPUT, found) if found else CLEAN


def path_text(path: str | Path) -> str:
    """Return a path as a source names it, in which all is text."""
    return os.fsencode(path).decode("utf-8", "replace")


def _files(project: Path) -> Iterator[tuple[Path, bool]]:
    """The files that are named like a notebook, and each folder (True). The sandbox shows nothing that is hidden at the
    top; links lead to files that are seen by themselves, or to nothing that it shows."""
    for at, folders, names in os.walk(project):
        folder = Path(at)
        if folder == project:
            folders[:] = [name for name in folders if not name.startswith(".")]
            names = [name for name in names if not name.startswith(".")]
        yield folder, True
        yield from ((folder / name, False) for name in names if MARK in name.casefold())


def _has_outputs(path: Path) -> bool:
    """Tell whether a file named like a notebook holds outputs. A packed one can't be looked into, and counts."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            begin = file.read(_BINARY)
            return b"\0" in begin or file_holds_outputs(file, begin)
    except OSError:
        return False  # it is gone, a link, or unreadable for commands as well


def changed_since(path: Path, since_ns: int) -> bool:
    """Tell whether a file or a folder changed at that time or later, or has gone."""
    try:
        return os.stat(path, follow_symlinks=False).st_ctime_ns >= since_ns
    except OSError:
        return True
