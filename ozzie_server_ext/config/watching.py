"""Tells whether files may have changed, without looking at them each time.

On Linux the kernel queues a notice (inotify(7)) before a change in a watched folder returns to whoever made it, so what
a person saves is known at once. Changes without such a notice are found within `POLL_S`: on another machine's disk, by
way of another name of the file, of a folder further up, or of a link on the way. Elsewhere the files are looked at each
time.
"""

import ctypes
import os
import struct
import threading
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from weakref import WeakSet

POLL_S = 2.0
"""How long no notice is believed."""

_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_OVERFLOW, _IGNORED, _ONLYDIR = 0x4000, 0x8000, 0x1000000
_CONTENT = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_HEADER = struct.Struct("iIII")
_READ = 1 << 16


class FileWatch:
    """Watches some files and folders of one reader, who calls `begin`, `add` and `settle` around each look at them, one
    look at a time. `begin` and `add` are not for the event loop's thread, as a disk may be slow.

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

    def is_quiet(self) -> bool:
        """Return whether there is no notice since `begin` of what was added. False until `settle`, and after
        `POLL_S`."""
        notices = _notices()
        if notices is None or not self._is_settled:
            return False
        notices.take()
        return not self._may_have_changed and time.monotonic() - self._began < POLL_S

    def begin(self) -> None:
        """Forget what was added. A change from now on counts, for what is added before it is looked at."""
        if (notices := _notices()) is not None:
            notices.forget(self, self._names)
        self._names = {}
        self._may_have_changed = self._is_settled = False
        self._began = time.monotonic()

    def add(self, paths: Iterable[Path]) -> None:
        """Watch files, whether they exist or not, and what is in folders. Of a link, its target is watched too."""
        if _notices() is None:
            return
        for path in paths:
            self._add(path)
            real = Path(os.path.realpath(path))
            if real != path:
                self._add(real)

    def settle(self) -> None:
        """All that was added has been looked at with success."""
        self._is_settled = True

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
        for name in names:  # from the top: what is made meanwhile is noticed in the folder above it
            self._watch(folder, name)
            folder /= name
            if not os.path.isdir(folder):
                return
        self._watch(path, None)

    def _watch(self, folder: Path, name: str | None) -> None:
        notices = _notices()
        number = None if notices is None else notices.follow(folder, self)
        if number is None:
            self._may_have_changed = True
        elif name is None:
            self._names[number] = None
        elif (names := self._names.setdefault(number, set())) is not None:
            names.add(name)


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
        self._changing = threading.Lock()
        """Held while folders are added and removed, which may take as long as a disk. `take` never waits for that."""

    def follow(self, folder: Path, watch: FileWatch) -> int | None:
        """Let a watch hear of what changes in a folder; return the folder's number, None if it can't be watched."""
        with self._changing:
            number = int(self._add_watch(self._descriptor, os.fsencode(folder), _CONTENT | _ONLYDIR))
            if number < 0:
                return None
            with self._lock:
                self._followers.setdefault(number, WeakSet()).add(watch)
            return number

    def forget(self, watch: FileWatch, numbers: Iterable[int]) -> None:
        with self._changing:
            for number in numbers:
                if self._leave(watch, number):
                    self._rm_watch(self._descriptor, number)

    def _leave(self, watch: FileWatch, number: int) -> bool:
        """Remove a watch from a folder's; return whether it was the last one."""
        with self._lock:
            followers = self._followers.get(number)
            if followers is None:  # the folder is gone
                return False
            followers.discard(watch)
            if not followers:
                del self._followers[number]
            return not followers

    def take(self) -> None:
        """Pass on the notices that have come."""
        with self._lock:
            while True:
                try:
                    found = os.read(self._descriptor, _READ)
                except BlockingIOError:
                    return
                at = 0
                while at < len(found):
                    number, mask, _, length = _HEADER.unpack_from(found, at)
                    at += _HEADER.size + length
                    self._pass_on(number, mask, os.fsdecode(found[at - length : at].rstrip(b"\0")))

    def _pass_on(self, number: int, mask: int, name: str) -> None:
        if mask & _OVERFLOW:
            for watch in {watch for followers in self._followers.values() for watch in followers}:
                watch.hear_all()
        for watch in self._followers.get(number, ()):
            watch.hear(number, name)
        if mask & _IGNORED:  # the folder is gone
            self._followers.pop(number, None)


@cache
def _notices() -> _Notices | None:
    """Return the process's notices; None where there are none."""
    try:
        return _Notices()
    except (OSError, AttributeError, TypeError):  # another system, or too many are in use
        return None


os.register_at_fork(after_in_child=_notices.cache_clear)  # else a child would take its parent's notices
