"""Labelling the output of a sandboxed command by the files that it opened: their marks, and notebook outputs in them.

If openings can't be watched, it counts as having read everything it could: the marks of all files, and the outputs in
all files named like a notebook. If some openings were missed, which a command may have caused, it counts as having read
outputs in any case.

Its output is searched too: some of what it can read is in no project file that it opens.
"""

import asyncio
import os
import re
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.execution.box import PROJECT
from ozzie_server_ext.execution.runner import Opened
from ozzie_server_ext.tools.base import ToolContext
from ozzie_server_ext.tools.notebook.outputs import (
    LIMIT_S,
    changed_since,
    file_holds_outputs,
    holds_outputs,
    named_outputs_below,
    path_text,
)
from ozzie_server_ext.tools.safe_open import FILE

_FILE_CLOCK = 5
"""CLOCK_REALTIME_COARSE, by which Linux stamps files: some milliseconds behind the precise clock."""


class JobSources:
    """The sources that one job may have read. Create it before the job begins."""

    def __init__(self, context: ToolContext, copied: str | None, everything: Content) -> None:
        self._context = context
        self._copied = copied
        self._everything = everything
        self._since_ns = time.clock_gettime_ns(_FILE_CLOCK)

    @classmethod
    async def of(cls, context: ToolContext, copied: str | None) -> "JobSources":
        """Prepare for a job that gets a copy of the folder `copied`."""
        return cls(context, copied, await context.marks.below())

    async def note(self, job_id: str) -> None:
        """Add what an ended job read to the call's provenance; if this is cancelled, add the maximum."""
        found = self._everything | Content.of(Label.OUTPUT)
        try:
            found = await self._read(await self._context.jobs.opened(job_id))
        except OzzieError:
            pass  # the job still ends, or is forgotten
        finally:
            self._context.provenance.add(found)

    async def note_output(self, texts: Sequence[bytes]) -> None:
        """Add what the job reveals to have read in its output and the files that it left."""
        provenance = self._context.provenance
        names = await asyncio.to_thread(_of_names, texts, await self._context.marks.all())
        provenance.add(names)
        # From files that could not be searched, such as compressed ones.
        if Label.OUTPUT not in provenance.content.labels and await asyncio.to_thread(any, map(holds_outputs, texts)):
            provenance.add(Content.of(Label.OUTPUT))

    async def _read(self, opened: Opened | None) -> Content:
        project, marks = self._context.project, self._context.marks
        marked = await marks.all()
        everything = Content.of_all(marked.values())
        found: Content | None
        if opened is None:
            found = everything | await asyncio.to_thread(named_outputs_below, project, self._since_ns)
        else:
            found = await asyncio.to_thread(_of_opened, project, marked, opened, self._since_ns)
        if found is not None and self._copied is not None:
            copied = await asyncio.to_thread(_outputs_of_folder, project, self._copied, self._since_ns)
            found = None if copied is None else found | copied | await marks.below(self._copied)
        return everything | Content.of(Label.OUTPUT) if found is None else found


def _of_opened(project: Path, marked: Mapping[str, Content], opened: Opened, since_ns: int) -> Content | None:
    """Return the labels of the opened files and listed names; None if some are unknown."""
    if not opened.is_whole:
        return None
    found = Content.of_all(content for path, content in marked.items() if _is_opened(path, opened))
    same: set[tuple[int, int]] = set()
    outputs = _outputs_in(project, opened.files, since_ns, same)
    if outputs is None:
        return None
    # The same file may have other names, such as hard links.
    found |= Content.of_all(content for path, content in marked.items() if _identity(project / path) in same)
    return found | outputs


def _is_opened(path: str, opened: Opened) -> bool:
    if path in opened.files or "" in opened.folders:
        return True
    return any(str(folder) in opened.folders for folder in PurePosixPath(path).parents)


def _outputs_of_folder(project: Path, folder: str, since_ns: int) -> Content | None:
    """Return the outputs in all files of the folder that was copied; None if some may have gone since."""
    if changed_since(project / folder, since_ns):
        return None
    paths: list[str] = []
    for at, _, names in os.walk(project / folder):
        if changed_since(Path(at), since_ns):
            return None
        whole = (os.path.join(at, name) for name in names)
        paths += (os.path.relpath(path, project) for path in whole if os.path.isfile(path) and not os.path.islink(path))
    return _outputs_in(project, paths, since_ns, set())


def _of_names(texts: Iterable[bytes], marked: Mapping[str, Content]) -> Content:
    """Return the marks of top-level names of the project that the job revealed. Each is a mount, so the system's tables
    of mounts and processes (`mount`, `df`, `ps`) name it even to a job that lists no folder."""
    tops: dict[bytes, Content] = {}
    for path, content in marked.items():
        top = os.fsencode(path.partition("/")[0])
        tops[top] = tops.get(top, CLEAN) | content
    if not tops:
        return CLEAN
    longest_first = b"|".join(map(re.escape, sorted(tops, reverse=True)))
    pattern = re.compile(re.escape(f"{PROJECT}/".encode()) + b"(" + longest_first + b")")
    found: set[bytes] = set()
    for text in texts:  # the mount table escapes spaces and backslashes
        found.update(pattern.findall(text.replace(rb"\040", b" ").replace(rb"\134", b"\\")))
    return Content.of_all(tops[top] for top in found)


def _outputs_in(project: Path, paths: Iterable[str], since_ns: int, same: set[tuple[int, int]]) -> Content | None:
    """Return the outputs in these files, and add the files' identities to `same`.

    Return None if one is gone, is no plain file, or changed since the job began: its earlier content or name is then
    unknown.
    """
    end = time.monotonic() + LIMIT_S
    found: set[str] = set()
    for path in paths:
        try:
            with open(os.open(project / path, FILE), "rb") as file:
                info = os.fstat(file.fileno())
                # Another program may have passed anything through a pipe.
                if not stat.S_ISREG(info.st_mode) or info.st_ctime_ns >= since_ns:
                    return None
                same.add((info.st_dev, info.st_ino))
                if file_holds_outputs(file):
                    found.add(path_text(path))
        except OSError:
            return None
        if time.monotonic() > end:
            return None
    return Content.of(Label.OUTPUT, found) if found else CLEAN


def _identity(path: Path) -> tuple[int, int]:
    try:
        info = os.stat(path, follow_symlinks=False)
    except OSError:
        return (0, 0)
    return info.st_dev, info.st_ino
