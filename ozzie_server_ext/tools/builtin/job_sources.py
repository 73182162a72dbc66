"""Label what a command in the sandbox says by the files that it opened: their marks, and outputs of notebooks in them.

Where it can't be watched what it opens, it counts as having read everything that it could: the marks of all files, and
the outputs in all files that are named like a notebook. Where it was watched and something was missed, which a command
may have brought about, it counts as having read outputs whatever the project holds.
"""

import asyncio
import os
import stat
import time
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.execution.runner import Opened
from ozzie_server_ext.tools.base import ToolContext
from ozzie_server_ext.tools.notebook.outputs import LIMIT_S, file_holds_outputs, named_outputs_below, path_text
from ozzie_server_ext.tools.rooted import FILE

_FILE_CLOCK = 5
"""CLOCK_REALTIME_COARSE, by which Linux stamps files: some milliseconds behind the finer one."""


class JobSources:
    """What one job may have read. It is made before the job begins."""

    def __init__(self, context: ToolContext, copied: str | None, everything: Content) -> None:
        self._context = context
        self._copied = copied
        self._everything = everything
        self._since_ns = time.clock_gettime_ns(_FILE_CLOCK)

    @classmethod
    async def of(cls, context: ToolContext, copied: str | None) -> "JobSources":
        """`copied` is the folder of which the job gets a copy."""
        return cls(context, copied, await context.marks.below())

    async def note(self, job_id: str) -> Content:
        """Add what the job read to what the call has read, and return it. The job has ended, however it did; if that
        is cut off as well, the worst is added."""
        found = self._everything | Content.of(Label.OUTPUT)
        try:
            found = await self._read(await self._context.jobs.opened(job_id))
        except OzzieError:
            pass  # it still ends, or nobody remembers it
        finally:
            self._context.provenance.add(found)
        return found

    async def _read(self, opened: Opened | None) -> Content:
        context = self._context
        if opened is None:
            named = await asyncio.to_thread(named_outputs_below, context.project, self._since_ns)
            return await context.marks.below() | named
        marked = await context.marks.all()
        found = await asyncio.to_thread(_of_opened, context.project, marked, opened, self._since_ns)
        if found is None:
            return await context.marks.below() | Content.of(Label.OUTPUT)
        if self._copied is not None:
            found |= await context.marks.below(self._copied)
            found |= await asyncio.to_thread(_of_folder, context.project, self._copied, self._since_ns)
        return found


def _of_opened(project: Path, marked: Mapping[str, Content], opened: Opened, since_ns: int) -> Content | None:
    """Return what those files and names come from; None where that isn't known of all of them."""
    if not opened.is_whole:
        return None
    found = Content.of_all(content for path, content in marked.items() if _is_opened(path, opened))
    linked: set[tuple[int, int]] = set()
    outputs = _outputs_in(project, opened.files, since_ns, linked)
    if outputs is None:
        return None
    if linked:  # by another name, it is the same file
        found |= Content.of_all(content for path, content in marked.items() if _identity(project / path) in linked)
    return found | outputs


def _is_opened(path: str, opened: Opened) -> bool:
    if path in opened.files or "" in opened.folders:
        return True
    return any(str(folder) in opened.folders for folder in PurePosixPath(path).parents)


def _of_folder(project: Path, folder: str, since_ns: int) -> Content:
    """Return the outputs in all files of a folder, which was copied as a whole."""
    paths = (
        os.path.relpath(os.path.join(at, name), project)
        for at, _, names in os.walk(project / folder)
        for name in names
        if os.path.isfile(os.path.join(at, name)) and not os.path.islink(os.path.join(at, name))
    )
    found = _outputs_in(project, paths, since_ns, set())
    return Content.of(Label.OUTPUT) if found is None else found


def _outputs_in(project: Path, paths: Iterable[str], since_ns: int, linked: set[tuple[int, int]]) -> Content | None:
    """Return the outputs in these files, and add those to `linked` that have a second name.

    Return None where one has gone, or is no plain file. One that changed since the job began may have held outputs when
    it was read.
    """
    end = time.monotonic() + LIMIT_S
    found: set[str] = set()
    for path in paths:
        try:
            with open(os.open(project / path, FILE), "rb") as file:
                info = os.fstat(file.fileno())
                if not stat.S_ISREG(info.st_mode):
                    return None  # a pipe, by which another program may have passed on anything
                if info.st_nlink > 1:
                    linked.add((info.st_dev, info.st_ino))
                if info.st_ctime_ns >= since_ns or file_holds_outputs(file):
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
