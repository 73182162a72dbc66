"""Tells whether files may have changed, without looking at them each time.

Linux queues a notice (inotify(7)) before a change in a watched folder returns to whoever made it, so what a person
saves is known at once. Changes without such a notice are found within `POLL_S`: on another machine's disk, by way of
another name of the file, of a folder further up, or of a link on the way. Elsewhere the files are looked at each time.
"""

import asyncio
import ctypes
import os
import struct
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")

POLL_S = 2.0
"""Look anyway after so many seconds without a notice."""

_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_OVERFLOW, _IGNORED, _ONLYDIR = 0x4000, 0x8000, 0x1000000
_CONTENT = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_HEADER = struct.Struct("iIII")
_READ = 1 << 16
_READS = 16
"""How often the queue is read at a time: whoever changes files all the time must not hold up the event loop."""


class FileWatch:
    """Watches some files and folders of one reader, who calls `begin`, `add` and `settle` around each look at them, one
    look at a time. `begin` and `add` are not for the event loop's thread, as a disk may be slow: see `in_thread`.

        if not watch.is_quiet():
            watch.begin()
            watch.add(files)
            ...look at them...
            watch.settle()
    """

    def __init__(self) -> None:
        self._names: dict[int, set[str] | None] = {}
        """By the number of a watched folder: the names in it that count, None for all."""
        self._may_have_changed = True
        self._is_settled = False
        self._began = 0.0
        self._notices: _Notices | None = None
        """The source that reports changes of what was added. A forked process has another one."""
        self._look: asyncio.Future[Any] | None = None

    def is_quiet(self) -> bool:
        """Return whether there is no notice since `begin` of what was added. False until `settle`, and after
        `POLL_S`."""
        notices = _notices()
        if notices is None or notices is not self._notices or not self._is_settled:
            return False
        notices.take()
        return not self._may_have_changed and time.monotonic() - self._began < POLL_S

    def begin(self) -> None:
        """Forget what was added. A change from now on counts, for what is added before it is looked at."""
        notices = _notices()
        if notices is not None and notices is self._notices:
            notices.forget(self, self._names)
        self._notices = notices
        self._names = {}
        self._may_have_changed = self._is_settled = False
        self._began = time.monotonic()

    def add(self, paths: Iterable[Path]) -> None:
        """Watch files, whether they exist or not, and what is in folders. Of a link, its target is watched too."""
        if self._notices is None:
            return
        for path in paths:
            self._add(path)
            real = Path(os.path.realpath(path))
            if real != path:
                self._add(real)

    def settle(self) -> None:
        """Call this after a look that succeeded."""
        self._is_settled = True

    async def in_thread(self, look: Callable[[], T]) -> T:
        """Look in a thread. A caller who is cancelled need not wait for the disk; the next one waits for that look
        before its own. Raises what `look` raises."""
        if self._look is not None and not self._look.done():
            await asyncio.wait([self._look])
        running = asyncio.ensure_future(asyncio.to_thread(look))
        running.add_done_callback(_ignore_failure)
        self._look = running
        return await asyncio.shield(running)

    def hear(self, folder: int, name: str) -> None:
        """Take a notice of a folder; of the folder itself, `name` is empty."""
        names = self._names.get(folder)
        if not name or names is None or name in names:
            self._may_have_changed = True

    def hear_all(self) -> None:
        """Take it that anything may have changed: notices were lost."""
        self._may_have_changed = True

    def _add(self, path: Path) -> None:
        folder, names = path.parent, [path.name]
        while not os.path.isdir(folder) and folder != folder.parent:  # it may be made later
            folder, names = folder.parent, [folder.name, *names]
        if folder != folder.parent:  # a folder that somebody holds open is not reported when it is removed
            self._watch(folder.parent, folder.name)
        for name in names:  # from the top: what is made meanwhile is noticed in the folder above it
            self._watch(folder, name)
            folder /= name
            if not os.path.isdir(folder):
                return
        self._watch(path, None)

    def _watch(self, folder: Path, name: str | None) -> None:
        number = None if self._notices is None else self._notices.follow(folder, self)
        if number is None:
            self._may_have_changed = True
        elif name is None:
            self._names[number] = None
        elif (names := self._names.setdefault(number, set())) is not None:
            names.add(name)


def _ignore_failure(look: asyncio.Future[T]) -> None:
    """Of a look that nobody waits for any more; it is made again."""
    if not look.cancelled():
        look.exception()


class _Notices:
    """The notices of this process, which all watches share: a user may have few sources of them. Raises OSError."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._add_watch, self._rm_watch = libc.inotify_add_watch, libc.inotify_rm_watch
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify")
        self._followers: dict[int, WeakSet[FileWatch]] = {}
        self._lock = threading.Lock()

    def follow(self, folder: Path, watch: FileWatch) -> int | None:
        """Let a watch hear of what changes in a folder; return the folder's number, None if it can't be watched. It may
        take as long as the folder's disk, and holds up nobody else."""
        number, before = self._add_folder(folder), None
        while number >= 0 and number != before:  # else another watch has removed it before we followed it
            with self._lock:
                self._followers.setdefault(number, WeakSet()).add(watch)
            number, before = self._add_folder(folder), number
        return None if number < 0 else number

    def _add_folder(self, folder: Path) -> int:
        return int(self._add_watch(self._descriptor, os.fsencode(folder), _CONTENT | _ONLYDIR))

    def forget(self, watch: FileWatch, numbers: Iterable[int]) -> None:
        with self._lock:
            for number in numbers:
                followers = self._followers.get(number)
                if followers is None:  # the folder is gone
                    continue
                followers.discard(watch)
                if not followers:
                    del self._followers[number]
                    self._rm_watch(self._descriptor, number)

    def take(self) -> None:
        """Pass on the notices that have come."""
        with self._lock:
            for _ in range(_READS):
                try:
                    found = os.read(self._descriptor, _READ)
                except BlockingIOError:
                    return
                at = 0
                while at < len(found):
                    number, mask, _, length = _HEADER.unpack_from(found, at)
                    at += _HEADER.size + length
                    self._pass_on(number, mask, os.fsdecode(found[at - length : at].rstrip(b"\0")))
            self._pass_on(-1, _OVERFLOW, "")  # more come than are read: anything may have changed

    def _pass_on(self, number: int, mask: int, name: str) -> None:
        if mask & _OVERFLOW:
            for watch in {watch for followers in self._followers.values() for watch in followers}:
                watch.hear_all()
        followers = self._followers.get(number)
        for watch in followers or ():
            watch.hear(number, name)
        if mask & _IGNORED:  # the folder is gone
            self._followers.pop(number, None)
        elif followers is not None and not followers:  # its readers are gone
            del self._followers[number]
            self._rm_watch(self._descriptor, number)

    def close(self) -> None:
        os.close(self._descriptor)


_of_process: list[_Notices | None] = []
"""The notices of this process once they were asked for, None where there are none."""
_opening = threading.Lock()


def _notices() -> _Notices | None:
    if not _of_process:
        with _opening:
            if not _of_process:
                _of_process.append(_opened())
    return _of_process[0]


def _opened() -> _Notices | None:
    try:
        return _Notices()
    except (OSError, AttributeError, TypeError):  # another system, or too many are in use
        return None


def _leave_to_parent() -> None:
    """Forget the parent's notices in a forked child, which would take them from it."""
    global _opening
    _opening = threading.Lock()
    for notices in filter(None, _of_process):
        notices.close()
    _of_process.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
