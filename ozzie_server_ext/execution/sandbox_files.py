"""The files that go into a sandbox as a copy, and those that are collected from it at the end."""

import errno
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.execution.runner import MIB, Collected, FileState, JobFile
from ozzie_server_ext.render.text import visible_label

_BLOCK = 512
MAX_NAME = 4096
_LONG_NAME, _LONG_LINK = b"L", b"K"
_FILE_TYPES, _FOLDER_TYPE = (b"0", b"\0"), b"5"


class BrokenArchive(Exception):
    """The archive is cut off, or not one that the sandbox would make. The message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an archive: a plain file's content is `size` bytes at `offset`; `mode` has its permissions."""

    name: bytes
    is_file: bool
    is_folder: bool
    size: int
    offset: int
    mode: int


def members(descriptor: int, most: int) -> Iterator[Member]:
    """Yield the members of the archive in an open file, at most `most`. Raises BrokenArchive."""
    at, name = 0, b""
    end = os.fstat(descriptor).st_size
    for _ in range(2 * most):
        header = os.pread(descriptor, _BLOCK, at)
        if len(header) < _BLOCK:
            raise BrokenArchive("it is cut off")
        if not any(header):
            return
        kind, size, offset = header[156:157], _number(header[124:136]), at + _BLOCK
        if _number(header[148:156]) != sum(header[:148]) + 8 * 32 + sum(header[156:]) or offset + size > end:
            raise BrokenArchive("it is damaged")
        at = offset + (size + _BLOCK - 1) // _BLOCK * _BLOCK
        if kind in (_LONG_NAME, _LONG_LINK):
            if size > MAX_NAME:
                raise BrokenArchive("a name in it is too long")
            if kind == _LONG_NAME:
                name = os.pread(descriptor, size, offset).rstrip(b"\0")
            continue
        found = name or header[:100].partition(b"\0")[0]
        name = b""
        is_file, mode = kind in _FILE_TYPES, _number(header[100:108])
        yield Member(found, is_file, kind == _FOLDER_TYPE, size if is_file else 0, offset, mode)
    raise BrokenArchive(f"it has more than {most:,} files")


def _number(field: bytes) -> int:
    """Parse octal digits, as the format has them. Larger numbers have another encoding, which is refused."""
    digits = field.strip(b" \0")
    if not digits or len(digits) > 11 or any(digit not in b"01234567" for digit in digits):
        raise BrokenArchive("it is damaged")
    return int(digits, 8)


MAX_COPIED = 64 * MIB
MAX_COPIED_FILES = 10_000
MAX_DEPTH = 64
"""Nested folders that are copied."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class TooMuch(InputError):
    """The folder is too large to be copied. The message names the limit."""

    code = "sandbox.too_large"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A folder's plain files as a tar archive, and their states by path. Names that are not UTF-8 have surrogate
    escapes, as in Python's file functions."""

    archive: bytes
    contents: Mapping[str, FileState]


def open_folder(root: int, path: str) -> int:
    """Open the folder `path` below the open `root` without following links, for the caller. Raises InputError."""
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
    """Copy the readable plain files of an open folder and below, except hidden ones. Raises TooMuch."""
    contents: dict[str, FileState] = {}
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
                    f"The folder has more than {MAX_COPIED // MIB} MiB or {MAX_COPIED_FILES} files, which is too much "
                    "to copy for a command. Name a smaller folder."
                )
            was = FileState(sha256=hashlib.sha256(content).hexdigest(), executable=bool(info.st_mode & stat.S_IXUSR))
            contents[path] = was
            member = tarfile.TarInfo(path)
            member.size = len(content)
            member.mtime = int(info.st_mtime)
            member.mode = 0o755 if was.executable else 0o644
            archive.addfile(member, io.BytesIO(content))
    return Copy(archive=buffer.getvalue(), contents=contents)


def _entries(folder: int) -> Iterator[tuple[str, os.stat_result, bytes | None]]:
    """Yield each folder, and each plain file with its content."""
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


MAX_TAKEN = 32 * MIB
"""Bytes that a job may leave: all of them are searched for secrets."""
MAX_TAKEN_FILES = 2000
MAX_CHANGED = 8 * MIB
"""Bytes of the new or different files of a copy: a person has to look at them."""
MAX_CHANGED_FILES = 200
"""Deleted files count too."""
MAX_MEMBERS = 120_000
"""Members of an archive: more than a job may make files."""
MAX_TOLD = 20
"""Names of left-out files that are listed; of the rest only the number."""
_LONGEST_NAME = 80
"""Characters shown of a left-out file's name."""
_PIECE = 1 * MIB
_UNUSABLE = "its name can't be used"


class _Incomplete(Exception):
    """The changes can't be taken out. The message is a sentence about why."""


def collected(out: int, copied: int | None, before: Mapping[str, FileState], *, whole: bool) -> Collected:
    """Collect a job's files from two open archives made in its sandbox, which are not to be trusted. Files missing from
    the copy were deleted. Report no changes if the copy is not `whole` or too large: a partial set misleads."""
    left_out = _LeftOut()
    made = _left(out, left_out)
    if copied is None:
        return Collected(out=made, left_out=left_out.lines)
    changes = _Changes(copied, before, left_out)
    try:
        if not whole:
            raise _Incomplete(
                "The changed folder could not be taken out whole: it has too much in it, or files that can't be read."
            )
        changes.read()
    except _Incomplete as error:
        return Collected(out=made, incomplete=str(error), left_out=left_out.lines)
    except BrokenArchive as error:
        reason = f"The changed folder could not be read whole: {error}."
        return Collected(out=made, incomplete=reason, left_out=left_out.lines)
    changed, deleted = tuple(changes.files[path] for path in sorted(changes.files)), changes.deleted
    were = {path: before[path] for path in (*changes.files, *deleted) if path in before}
    return Collected(out=made, changed=changed, deleted=deleted, before=were, left_out=left_out.lines)


def _left(archive: int, left_out: "_LeftOut") -> tuple[JobFile, ...]:
    """Return the plain files of an archive, within the limits. The later of two with one name counts."""
    room, files = MAX_TAKEN, MAX_TAKEN_FILES
    found: dict[str, JobFile] = {}
    try:
        for member in members(archive, MAX_MEMBERS):
            if member.is_folder:
                continue
            path = _readable(_path(member.name))
            if why := _refusal(member, path, room, files):
                left_out.add(member.name, why)
                continue
            room -= member.size
            files -= 1
            found[path] = _file(archive, member, path)
    except BrokenArchive as error:
        left_out.add_line(f"the rest of the output ({error})")
    return tuple(found[path] for path in sorted(found))


def _refusal(member: Member, path: str, room: int, files: int) -> str:
    if not member.is_file:
        return "no plain file"
    if not path:
        return _UNUSABLE
    if member.size > room:
        return f"more than {MAX_TAKEN // MIB} MiB in all"
    return f"more than {MAX_TAKEN_FILES} files" if files == 0 else ""


class _Changes:
    """Compares the archive of a copy with what was copied."""

    def __init__(self, archive: int, before: Mapping[str, FileState], left_out: "_LeftOut") -> None:
        self._archive = archive
        self._before = before
        self._left_out = left_out
        self._there: set[str] = set()
        self.files: dict[str, JobFile] = {}
        self.deleted: tuple[str, ...] = ()

    def read(self) -> None:
        """Raises BrokenArchive, _Incomplete."""
        for member in members(self._archive, MAX_MEMBERS):
            if not member.is_folder:
                self._look(member, _path(member.name))
        gone = sorted(path for path in self._before if path not in self._there)
        for path in gone:
            if not _readable(path):
                self._left_out.add(os.fsencode(path), _UNUSABLE)
        self.deleted = tuple(filter(_readable, gone))
        self._expect_few(len(self.files) + len(self.deleted), 0)

    def _look(self, member: Member, path: str) -> None:
        """Compare one member. Hidden files are ignored, as in copying; unchanged files may have any name."""
        self._there.add(path)
        self.files.pop(path, None)
        was = self._before.get(path)
        if was is not None and member.is_file and was == self._state(member):
            return
        hidden = _hidden(path)
        if hidden or not member.is_file or not _readable(path):
            why = "hidden" if hidden else _UNUSABLE if member.is_file else "no plain file"
            self._left_out.add(os.fsencode(hidden) or member.name, why)
            return
        size = member.size + sum(len(file.content) for file in self.files.values())
        self._expect_few(len(self.files) + 1, size)
        self.files[path] = _file(self._archive, member, path)

    def _expect_few(self, files: int, size: int) -> None:
        if files > MAX_CHANGED_FILES or size > MAX_CHANGED:
            most = f"{MAX_CHANGED_FILES} files or {MAX_CHANGED // MIB} MiB"
            raise _Incomplete(f"More than {most} were changed, which is more than can be kept.")

    def _state(self, member: Member) -> FileState:
        digest = hashlib.sha256()
        for at in range(0, member.size, _PIECE):
            digest.update(os.pread(self._archive, min(_PIECE, member.size - at), member.offset + at))
        return FileState(sha256=digest.hexdigest(), executable=_is_executable(member))


class _LeftOut:
    """The names of files that can't be collected, each once with the reason."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}
        self._more = 0

    @property
    def lines(self) -> tuple[str, ...]:
        return (*self._lines, *([f"and {self._more} more"] if self._more else []))

    def add(self, name: bytes, why: str) -> None:
        text = name[: 4 * _LONGEST_NAME].decode(errors="replace").removeprefix("./")
        shown = visible_label(text if len(text) <= _LONGEST_NAME else text[:_LONGEST_NAME] + "…")
        self.add_line(f"{shown} ({why})")

    def add_line(self, line: str) -> None:
        if line in self._lines:
            return
        if len(self._lines) < MAX_TOLD:
            self._lines[line] = None
        else:
            self._more += 1


def _file(archive: int, member: Member, path: str) -> JobFile:
    content = os.pread(archive, member.size, member.offset)
    return JobFile(path=path, content=content, executable=_is_executable(member))


def _is_executable(member: Member) -> bool:
    return bool(member.mode & stat.S_IXUSR)


def _path(name: bytes) -> str:
    """Return the name as a path below the folder, or ""."""
    text = os.fsdecode(name)
    parts = [part for part in text.split("/") if part not in ("", ".")]
    return "" if text.startswith("/") or ".." in parts else "/".join(parts)


def _readable(path: str) -> str:
    """Return the path, or "" if a person can't read it."""
    return path if path.isprintable() else ""


def _hidden(path: str) -> str:
    """Return the path up to its first hidden name, or ""."""
    parts = path.split("/")
    first = next((at for at, part in enumerate(parts) if part.startswith(".")), None)
    return "" if first is None else "/".join(parts[: first + 1])
