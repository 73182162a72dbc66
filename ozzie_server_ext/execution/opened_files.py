"""Watching which files and folders of a project a job opens (inotify).

A program has to open a file to read it, and a folder to list it. The sandbox mounts the project's own files, so the
kernel reports each opening to watchers outside. Openings by other programs are reported too: they add files but never
hide one.

Whatever could hide an opening makes the answer unknown: too many folders, a file system that may not report openings,
mounts within the project, folders created, moved or removed meanwhile, and too many events.
"""

import asyncio
import ctypes
import functools
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ozzie_server_ext.execution.runner import Opened

MAX_FOLDERS = 100
"""Watched folders: each adds some 9 µs to a job's start, which takes 8 ms."""
MAX_EVENTS = 200_000
"""Events of one job; then watching stops."""
_CHUNK = 64 * 1024

_OPEN, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x20, 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _UNMOUNT, _OVERFLOW, _IGNORED = 0x400, 0x800, 0x2000, 0x4000, 0x8000
_ONLYDIR, _DONT_FOLLOW, _ISDIR = 0x0100_0000, 0x0200_0000, 0x4000_0000
_WATCHED = _OPEN | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR | _DONT_FOLLOW
_LOST = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _OVERFLOW | _IGNORED
_EVENT = struct.Struct("iIII")

# ext2 to 4, XFS, Btrfs, F2FS, tmpfs, overlayfs: files there are opened through this machine's own cache.
_FILE_SYSTEMS = frozenset({0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994, 0x794C7630})


class OpenedFiles:
    """The files that one job opens. Call `watch` before the job begins and `close` at the end."""

    def __init__(self) -> None:
        self._descriptor = -1
        self._root = Path()
        self._folders: dict[int, str] = {}
        self._top = -1
        self._events = 0
        self._is_watched = False
        self._is_whole = True
        self._loop: asyncio.AbstractEventLoop | None = None
        self._files: set[str] = set()
        self._listed: set[str] = set()
        self.top: Path | None = None
        """An empty folder with the project's entries as mounts, to see whether they are listed; None if not watched."""

    def watch(self, project: Path, shown: Sequence[Path]) -> None:
        """Begin to watch, if it can be complete; to be called in a thread. `shown` are folders that a job sees besides
        the project: if the project lay in one, the job would see its hidden files."""
        with suppress(OSError):
            self._descriptor = _checked(_libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
            self._root = root = project.resolve()
            is_shown = any(root.is_relative_to(folder.resolve()) for folder in shown)
            if not is_shown and not _has_mounts(root) and self._watch_all(root):
                top = Path(tempfile.mkdtemp(prefix="ozzie-top-"))
                self.top = top
                top.chmod(0o755)  # as root, a job is another user
                _expect_watchable(top)
                self._top = self._add(str(top))
                self._is_watched = True
                self._take_all()
                # Drop the openings by this search. Folders that came meanwhile have made the answer unknown.
                self._files.clear()
                self._listed.clear()

    def _watch_all(self, root: Path) -> bool:
        """Watch all folders that the sandbox shows, so none hidden at the top. Return False for too many."""
        _expect_watchable(root)
        left = [""]
        while left:
            path = left.pop()
            if len(self._folders) == MAX_FOLDERS:
                return False
            # Watch before listing: later changes are reported.
            at = f"{root}/{path}"
            self._folders[self._add(at)] = path
            with os.scandir(at) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False) and (path or not entry.name.startswith(".")):
                        left.append(f"{path}/{entry.name}" if path else entry.name)
        return True

    def _add(self, folder: str) -> int:
        return _checked(_libc().inotify_add_watch(self._descriptor, os.fsencode(folder), _WATCHED))

    def follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take events as they come from now on: the kernel's queue is limited."""
        if self._is_watched and self._is_whole:
            self._loop = loop
            loop.add_reader(self._descriptor, self._read)

    def unfollow(self) -> None:
        """Stop taking events. Call it from the event loop's thread."""
        if self._loop is not None:
            self._loop.remove_reader(self._descriptor)
            self._loop = None

    def end(self) -> Opened | None:
        """Return what was opened, None if that was not watched. Call it once the job has ended."""
        self.unfollow()
        self._take_all()
        if not self._is_watched:
            return None
        # A new mount shows up in the sandbox too.
        is_whole = self._is_whole and not _has_mounts(self._root)
        return Opened(files=frozenset(self._files), folders=frozenset(self._listed), is_whole=is_whole)

    def close(self) -> None:
        """Close everything, in a thread, after `unfollow`."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self.top is not None:
            shutil.rmtree(self.top, ignore_errors=True)
            self.top = None

    def _take_all(self) -> None:
        for _ in range(MAX_EVENTS):
            if not (self._is_watched and self._is_whole and self._read()):
                return

    def _read(self) -> bool:
        """Take some of the waiting events; return False if there are none."""
        try:
            data = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return False
        try:
            for watch, mask, name in _events(data):
                self._events += 1
                self._take(watch, mask, name)
        except Exception:
            self._is_whole = False  # these events are lost
            raise
        if self._events > MAX_EVENTS:
            self._is_whole = False
        if not self._is_whole:
            self.unfollow()
        return True

    def _take(self, watch: int, mask: int, name: str) -> None:
        is_folder = bool(mask & _ISDIR)
        if watch == self._top:
            if mask & _OPEN and is_folder and not name:
                self._listed.add("")
            elif mask & _LOST:
                self._is_whole = False
            return  # otherwise it is the sandbox creating mount points
        folder = self._folders.get(watch)
        if folder is None or mask & _LOST or (is_folder and mask & ~(_OPEN | _ISDIR)):
            self._is_whole = False
        elif not mask & _OPEN:
            return  # a file is created or removed
        elif not is_folder:
            self._files.add(f"{folder}/{name}" if folder else name)
        elif folder and not name:  # for the top, the sandbox has a folder of its own
            self._listed.add(folder)


def _events(data: bytes) -> Iterator[tuple[int, int, str]]:
    at = 0
    while at < len(data):
        watch, mask, _, length = _EVENT.unpack_from(data, at)
        at += _EVENT.size
        yield watch, mask, os.fsdecode(data[at : at + length].rstrip(b"\0"))
        at += length


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    """Raises OSError, for example if no watches are left."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


class _StatFs(ctypes.Structure):
    """Only the first field is read; the rest reserves space for every architecture."""

    _fields_ = (("kind", ctypes.c_long), ("rest", ctypes.c_char * 504))


def _expect_watchable(folder: Path) -> None:
    """Raises OSError."""
    found = _StatFs()
    _checked(_libc().statfs(os.fsencode(folder), ctypes.byref(found)))
    if found.kind not in _FILE_SYSTEMS:
        raise OSError(f"a file system of the kind {found.kind:#x} does not tell what is opened")


def _has_mounts(root: Path) -> bool:
    """Whether anything is mounted below `root`: openings there are not reported to watchers of its folder."""
    below = f"{root}/".replace("//", "/")
    lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    return any(_unescaped(line.split(" ")[4]).startswith(below) for line in lines)


def _unescaped(path: str) -> str:
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, letter)
    return path
