"""Files of the project as somebody sees them who types a message: names below the root, and what a file is."""

import asyncio
import heapq
import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.pictures import media_type_of
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.rooted import open_below, parts_below

MOST_LOOKED_AT = 10_000
"""Names of one folder that are looked at; more would take longer than a person waits for a completion."""
MOST_FOUND = 200
HEAD_BYTES = 4096
HEAD_LINES = 10

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """`path` is relative to the project; a folder's ends with a slash."""

    path: str
    kind: Literal["folder", "file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What is at a path. `head` holds a text file's first lines; `entries` counts what lies in a folder; `picture` is
    the media type of one that can be shown to a model."""

    path: str
    kind: Literal["folder", "file"]
    size: int = 0
    modified_s: float = 0.0
    is_text: bool = False
    head: tuple[str, ...] = ()
    is_whole: bool = True
    entries: int = 0
    picture: str = ""


class ProjectFiles:
    """Looks below one folder, in a thread, one look at a time: a disk that hangs costs one thread and no more."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._looking: asyncio.Future[Any] | None = None

    async def completions(self, typed: str) -> list[Entry]:
        """What `typed` may become: entries of its folder whose names begin with its last component, by name. Hidden
        ones only where that begins with a dot; symbolic links, which no tool follows, never.

        Raises Unavailable where an earlier look has not come back yet.
        """
        return await self._look(lambda: _completions(self._project, typed))

    async def facts(self, path: str) -> FileFacts:
        """What is at `path`. Raises ToolFailed where it is not there or not offered, and Unavailable."""
        return await self._look(lambda: _facts(self._project, path))

    async def _look(self, look: Callable[[], T]) -> T:
        if self._looking is not None and not self._looking.done():
            raise Unavailable("The project's disk has not answered yet.", hint="Try again in a moment.")
        looking = asyncio.ensure_future(asyncio.to_thread(look))
        # Asked for here, because who waits for it may have given up by then; that does not end the thread.
        looking.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._looking = looking
        return await asyncio.shield(looking)


def _completions(project: Path, typed: str) -> list[Entry]:
    folder, slash, start = typed.rpartition("/")
    # "@/" and "@//" would be read as the project's own folder: nothing is completed to what no tool then takes.
    if slash and not folder:
        return []
    try:
        descriptor = open_below(project, folder or ".", folder=True, hidden=True)
    except (ToolFailed, OSError):
        return []
    try:
        with os.scandir(descriptor) as entries:
            names = (_entry(entry, folder + slash) for entry in itertools.islice(entries, MOST_LOOKED_AT))
            fitting = (found for found in names if found is not None and _fits(found, folder + slash, start))
            return heapq.nsmallest(MOST_FOUND, fitting, key=lambda found: (found.path.casefold(), found.path))
    except OSError:
        return []
    finally:
        os.close(descriptor)


def _entry(entry: "os.DirEntry[str]", before: str) -> Entry | None:
    try:
        if entry.is_dir(follow_symlinks=False):
            return Entry(path=f"{before}{entry.name}/", kind="folder")
        return Entry(path=f"{before}{entry.name}", kind="file") if entry.is_file(follow_symlinks=False) else None
    except OSError:
        return None  # removed in this moment


def _fits(entry: Entry, before: str, start: str) -> bool:
    name = entry.path[len(before) :]
    return name.casefold().startswith(start.casefold()) and (start.startswith(".") or not name.startswith("."))


def _facts(project: Path, path: str) -> FileFacts:
    parts_below(path)  # what is hidden is not looked into
    try:
        return _file(project, path)
    except ToolFailed as error:
        try:
            return _folder(project, path)
        except ToolFailed:
            raise error from None
        except OSError as failed:
            raise _unreadable(path, failed) from None
    except OSError as failed:  # the project itself is gone, or its disk fails
        raise _unreadable(path, failed) from None


def _unreadable(path: str, error: OSError) -> ToolFailed:
    return ToolFailed(f"{path} can't be read: {error.strerror}.")


def _file(project: Path, path: str) -> FileFacts:
    with os.fdopen(open_below(project, path, folder=False), "rb") as file:
        info = os.fstat(file.fileno())
        raw = file.read(HEAD_BYTES)
    text = raw.decode("utf-8", "replace")
    is_text = b"\0" not in raw and text.count("\ufffd") <= 1  # one may be a character that was cut in two
    lines = text.replace("\r\n", "\n").split("\n") if is_text and raw else []
    is_whole = len(raw) == info.st_size and len(lines) <= HEAD_LINES + (lines[-1:] == [""])
    return FileFacts(
        path=path,
        kind="file",
        size=info.st_size,
        modified_s=info.st_mtime,
        is_text=is_text,
        head=tuple(lines[:HEAD_LINES]),
        is_whole=is_whole,
        picture=media_type_of(raw) or "",
    )


def _folder(project: Path, path: str) -> FileFacts:
    descriptor = open_below(project, path, folder=True)
    try:
        info = os.fstat(descriptor)
        with os.scandir(descriptor) as entries:
            shown = (entry for entry in entries if not entry.name.startswith("."))
            count = sum(1 for _ in itertools.islice(shown, MOST_LOOKED_AT))
    finally:
        os.close(descriptor)
    return FileFacts(
        path=path,
        kind="folder",
        modified_s=info.st_mtime,
        entries=count,
        is_whole=count < MOST_LOOKED_AT,
    )
