"""What of a project is copied into a sandbox, and what of a sandbox is taken out of it again."""

import errno
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.execution.runner import MIB, Collected, JobFile
from ozzie_server_ext.execution.tar import BrokenArchive, Member, members
from ozzie_server_ext.render.text import visible_label

MAX_COPIED = 64 * MIB
MAX_COPIED_FILES = 10_000
MAX_TAKEN = 32 * MIB
"""In bytes, of what a job leaves: secrets are looked for in all of it."""
MAX_TAKEN_FILES = 2000
MAX_MEMBERS = 120_000
"""In an archive: more than a job may make files."""
_TOLD = 80
"""In characters, of the name of what is left out."""
MAX_DEPTH = 64
"""Folders in folders; what lies deeper is not copied."""
MAX_TOLD = 20
"""How many names of what can't be taken along are told; of more, their number."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class TooMuch(InputError):
    """More than can be copied. The message says how much may be."""

    code = "sandbox.too_large"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A folder's plain files as a tar archive, and what their contents were (SHA-256), by their paths in it."""

    archive: bytes
    contents: Mapping[str, str]


def open_folder(root: int, path: str) -> int:
    """An open descriptor of the folder `path` below the folder that is open as `root`, through no link; the caller
    closes it. Raises InputError."""
    descriptor = os.dup(root)
    for part in PurePosixPath(path).parts:
        try:
            if part == ".." or part == "/":
                raise OSError(errno.EACCES, "it leads out of the project")
            deeper = os.open(part, _FOLDER, dir_fd=descriptor)
        except OSError as error:
            raise InputError(f"The folder {path} of the project can't be opened: {error.strerror}.") from None
        finally:
            os.close(descriptor)
        descriptor = deeper
    return descriptor


def copy_of(folder: int) -> Copy:
    """The plain files of an open folder and of all below it. What is hidden is left out, as links are and what can't
    be read. Raises TooMuch."""
    contents: dict[str, str] = {}
    total = 0
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, info, content in _entries(folder):
            if content is None:
                member = tarfile.TarInfo(path)
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(member)
                continue
            total += len(content)
            if total > MAX_COPIED or len(contents) == MAX_COPIED_FILES:
                raise TooMuch(
                    f"The folder has more than {MAX_COPIED // MIB} MiB or {MAX_COPIED_FILES} files, which is more than "
                    "a command gets a copy of. Name a smaller folder."
                )
            contents[path] = hashlib.sha256(content).hexdigest()
            member = tarfile.TarInfo(path)
            member.size = len(content)
            member.mtime = int(info.st_mtime)
            member.mode = 0o755 if info.st_mode & stat.S_IXUSR else 0o644
            archive.addfile(member, io.BytesIO(content))
    return Copy(archive=buffer.getvalue(), contents=contents)


def _entries(folder: int) -> Iterator[tuple[str, os.stat_result, bytes | None]]:
    """Each folder, and each plain file with its content."""
    left = MAX_COPIED
    for at, folders, names, opened in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if at.count("/") < MAX_DEPTH else []
        if at != ".":
            yield str(PurePosixPath(at)), os.fstat(opened), None
        for name in sorted(names):
            if name.startswith("."):
                continue
            try:
                descriptor = os.open(name, _FILE, dir_fd=opened)
            except OSError:
                continue
            with open(descriptor, "rb") as file:
                info = os.fstat(descriptor)
                if not stat.S_ISREG(info.st_mode):
                    continue
                content = file.read(left + 1)
            left -= min(left, len(content))
            yield str(PurePosixPath(at) / name), info, content


def collected(out: int, copied: int | None, before: Mapping[str, str], *, whole: bool) -> Collected:
    """What a job left in two archives that were made in its sandbox, in open files: nothing of them is to be trusted.
    What is not in the copy any more was deleted, where the copy could be taken out `whole`."""
    taken = _Taken()
    made = _by_path(taken.files(out, "output"))
    changed: tuple[JobFile, ...] = ()
    deleted: tuple[str, ...] = ()
    if copied is not None:
        files = _by_path(taken.files(copied, "copy"))
        changed = tuple(file for file in files if before.get(file.path) != hashlib.sha256(file.content).hexdigest())
        if whole and not taken.is_cut:
            deleted = tuple(sorted(set(before) - taken.seen))
    return Collected(out=made, changed=changed, deleted=deleted, left_out=taken.left_out)


def _by_path(files: Iterable[JobFile]) -> tuple[JobFile, ...]:
    """Of two under one name, the later one, as unpacking would have it."""
    return tuple(sorted({file.path: file for file in files}.values(), key=lambda file: file.path))


class _Taken:
    """Reads archives up to a number of files and bytes in all. `seen` are the paths of everything in the last one;
    `is_cut` once one did not come to its end."""

    def __init__(self) -> None:
        self._left_out: list[str] = []
        self._bytes = MAX_TAKEN
        self._files = MAX_TAKEN_FILES
        self.seen: set[str] = set()
        self.is_cut = False

    @property
    def left_out(self) -> tuple[str, ...]:
        more = len(self._left_out) - MAX_TOLD
        return (*self._left_out[:MAX_TOLD], *([f"and {more} more"] if more > 0 else []))

    def files(self, archive: int, what: str) -> Iterator[JobFile]:
        self.seen = set()
        try:
            for member in members(archive, MAX_MEMBERS):
                path = _path(member.name)
                self.seen.add(path)
                if member.is_folder:
                    continue
                if why := self._refusal(member, path):
                    self._left_out.append(f"{_told(member.name)} ({why})")
                    continue
                self._bytes -= member.size
                self._files -= 1
                yield JobFile(path=path, content=os.pread(archive, member.size, member.offset))
        except BrokenArchive as error:
            self.is_cut = True
            self._left_out.append(f"the rest of the {what} ({error})")

    def _refusal(self, member: Member, path: str) -> str:
        if not member.is_file:
            return "no plain file"
        if not path:
            return "its name can't be used"
        if member.size > self._bytes:
            return f"more than {MAX_TAKEN // MIB} MiB in all"
        return f"more than {MAX_TAKEN_FILES} files" if self._files == 0 else ""


def _path(name: bytes) -> str:
    """The name as a path below the folder; empty where it is none, or can't be read by a person."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return ""
    parts = [part for part in text.split("/") if part not in ("", ".")]
    return "" if text.startswith("/") or ".." in parts or not text.isprintable() else "/".join(parts)


def _told(name: bytes) -> str:
    text = name[: 4 * _TOLD].decode(errors="replace").removeprefix("./")
    return visible_label(text if len(text) <= _TOLD else text[:_TOLD] + "…")
