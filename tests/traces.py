"""Where a secret has left a trace: in files, in texts, in what other processes may read of a process.

It is looked for as it is, in the spellings in which programs hand such values on, and by any piece of these that is as
long as PIECE characters of it.
"""

import base64
import html
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, quote_plus

import psutil

PIECE = 12
"""How many characters of a secret in a row are a trace of it."""


def spellings(value: str) -> Iterator[tuple[bytes, int]]:
    """How `value` may stand somewhere, each with the length that PIECE characters of it have there."""
    raw = value.encode()
    yield raw, PIECE
    escaped = json.dumps(value)[1:-1]
    for text in (quote(value, safe=""), quote_plus(value), escaped, json.dumps(escaped)[1:-1], html.escape(value)):
        yield text.encode(), PIECE
    yield raw.hex().encode(), 2 * PIECE
    # Of base64, what stands around a value decides how it is cut: at one of three places. Its first and last characters
    # depend on its neighbours.
    for shift in range(3):
        coded = base64.b64encode(b"\0" * shift + raw)[4:-4]
        yield coded, PIECE * 4 // 3
        yield coded.translate(bytes.maketrans(b"+/", b"-_")), PIECE * 4 // 3


def pieces(value: str) -> frozenset[bytes]:
    """Whatever would be a trace of `value`."""
    return frozenset(
        text[start : start + length]
        for text, length in spellings(value)
        for start in range(max(1, len(text) - length + 1))
    )


class Search:
    """Looks for several secrets at once; what it says names them by their keys here, and does not repeat them."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._pieces = {name: pieces(value) for name, value in values.items()}

    def content(self, content: bytes, place: object) -> list[str]:
        return [f"{name} in {place}" for name, parts in self._pieces.items() if any(part in content for part in parts)]

    def texts(self, texts: Iterable[str], place: str) -> list[str]:
        return [found for text in texts for found in self.content(text.encode("utf-8", "surrogateescape"), place)]

    def files(self, folder: Path, *, but: Iterable[Path] = ()) -> list[str]:
        """In all files below `folder` but those."""
        left_out = set(but)
        return [
            found
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.is_symlink() and path not in left_out
            for found in self.content(path.read_bytes(), path.relative_to(folder))
        ]

    def processes(self, processes: Iterable[psutil.Process]) -> list[str]:
        """In what every process of their user may read of them while they run."""
        found: list[str] = []
        for process in processes:
            name = program(process)
            for what in ("environ", "cmdline"):
                with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                    found += self.content(Path(f"/proc/{process.pid}/{what}").read_bytes(), f"{what} of {name}")
        return found


def program(process: psutil.Process) -> str:
    """What a process runs: the name of Ozzie's program where it is one, else that of its file."""
    try:
        words = process.cmdline()
    except psutil.NoSuchProcess:
        return ""
    modules = [word for word in words if word.startswith(("ozzie_", "jupyter_"))]
    return [*modules, Path(words[0]).name][0] if words else ""


def running(home: Path) -> list[psutil.Process]:
    """The processes that this one has started, and those of an Ozzie home, whoever their parent is by now."""
    mark = f"OZZIE_PATH={home}\0".encode()
    found = {process.pid: process for process in psutil.Process().children(recursive=True)}
    for process in psutil.process_iter():
        with suppress(OSError, psutil.NoSuchProcess):  # it has ended, or is somebody else's
            if mark in Path(f"/proc/{process.pid}/environ").read_bytes():
                found |= {one.pid: one for one in (process, *process.children(recursive=True))}
    found.pop(os.getpid(), None)
    return list(found.values())
