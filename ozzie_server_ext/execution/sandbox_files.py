"""What of a project is copied into a sandbox, and what is collected from it at the end."""

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
from ozzie_server_ext.execution.runner import MIB, Collected, JobFile, Was
from ozzie_server_ext.render.text import visible_label

_BLOCK = 512
MAX_NAME = 4096
_LONG_NAME, _LONG_LINK = b"L", b"K"
_FILE_TYPES, _FOLDER_TYPE = (b"0", b"\0"), b"5"


class BrokenArchive(Exception):
    """It is cut off, or none that we had made. The message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Member:
    """A thing in an archive: a plain file's content lies at `offset`, `size` bytes of it; `mode` has its rights."""

    name: bytes
    is_file: bool
    is_folder: bool
    size: int
    offset: int
    mode: int


def members(descriptor: int, most: int) -> Iterator[Member]:
    """What is in the archive in an open file, in its order; no more than `most` members. Raises BrokenArchive."""
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
    """Octal digits, as the format has them. Larger numbers are written otherwise, and are beyond us."""
    digits = field.strip(b" \0")
    if not digits or len(digits) > 11 or any(digit not in b"01234567" for digit in digits):
        raise BrokenArchive("it is damaged")
    return int(digits, 8)


MAX_COPIED = 64 * MIB
MAX_COPIED_FILES = 10_000
MAX_DEPTH = 64
"""Folders in folders; what lies deeper is not copied."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class TooMuch(InputError):
    """More than can be copied. The message says how much may be."""

    code = "sandbox.too_large"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A folder's plain files as a tar archive, and what they were, by their paths in it. A name that is no UTF-8 has
    surrogates in the place of its bytes, as the system's names have in Python."""

    archive: bytes
    contents: Mapping[str, Was]


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
    contents: dict[str, Was] = {}
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
            was = Was(sha256=hashlib.sha256(content).hexdigest(), executable=bool(info.st_mode & stat.S_IXUSR))
            contents[path] = was
            member = tarfile.TarInfo(path)
            member.size = len(content)
            member.mtime = int(info.st_mtime)
            member.mode = 0o755 if was.executable else 0o644
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


MAX_TAKEN = 32 * MIB
"""In bytes, of what a job leaves: secrets are looked for in all of it."""
MAX_TAKEN_FILES = 2000
MAX_CHANGED = 8 * MIB
"""In bytes, of the files of a copy that are new or different: a person is to look at them."""
MAX_CHANGED_FILES = 200
"""Also counted are those that are gone."""
MAX_MEMBERS = 120_000
"""In an archive: more than a job may make files."""
MAX_TOLD = 20
"""How many names of what can't be taken along are told; of more, their number."""
_TOLD = 80
"""In characters, of the name of what is left out."""
_PIECE = 1 * MIB
_UNUSABLE = "its name can't be used"


class _TooMuch(Exception):
    """More was changed than is taken out. The message is a sentence about it."""


def collected(out: int, copied: int | None, before: Mapping[str, Was], *, whole: bool) -> Collected:
    """What a job left in two archives that were made in its sandbox, in open files: nothing of them is to be trusted.
    What is not in the copy any more was deleted. Where the copy could not be taken out `whole`, or too much of it was
    changed, nothing of that is told: half of a change is another one."""
    left_out = _LeftOut()
    made = _left(out, left_out)
    if copied is None:
        return Collected(out=made, left_out=left_out.told)
    changes = _Changes(copied, before, left_out)
    try:
        if not whole:
            raise _TooMuch(
                "The changed folder could not be taken out whole: it has too much in it, or files that can't be read."
            )
        changes.read()
    except _TooMuch as error:
        return Collected(out=made, incomplete=str(error), left_out=left_out.told)
    except BrokenArchive as error:
        said = f"The changed folder could not be read whole: {error}."
        return Collected(out=made, incomplete=said, left_out=left_out.told)
    changed, deleted = tuple(changes.files[path] for path in sorted(changes.files)), changes.deleted
    were = {path: before[path] for path in (*changes.files, *deleted) if path in before}
    return Collected(out=made, changed=changed, deleted=deleted, before=were, left_out=left_out.told)


def _left(archive: int, left_out: "_LeftOut") -> tuple[JobFile, ...]:
    """The plain files of an archive, up to a number of files and bytes. Of two under one name the later one counts, as
    unpacking would have it."""
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
        left_out.say(f"the rest of the output ({error})")
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
    """Holds the archive of a copy against what was copied."""

    def __init__(self, archive: int, before: Mapping[str, Was], left_out: "_LeftOut") -> None:
        self._archive = archive
        self._before = before
        self._left_out = left_out
        self._there: set[str] = set()
        self.files: dict[str, JobFile] = {}
        self.deleted: tuple[str, ...] = ()

    def read(self) -> None:
        """Raises BrokenArchive, _TooMuch."""
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
        """As copies leave out what is hidden, so does this; and what is as it was needs no name that can be used."""
        self._there.add(path)
        self.files.pop(path, None)
        was = self._before.get(path)
        if was is not None and member.is_file and was == self._is(member):
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
            raise _TooMuch(f"More than {most} were changed, which is more than can be kept.")

    def _is(self, member: Member) -> Was:
        digest = hashlib.sha256()
        for at in range(0, member.size, _PIECE):
            digest.update(os.pread(self._archive, min(_PIECE, member.size - at), member.offset + at))
        return Was(sha256=digest.hexdigest(), executable=_is_executable(member))


class _LeftOut:
    """The names of what can't be taken along, each once, each with the reason."""

    def __init__(self) -> None:
        self._said: dict[str, None] = {}
        self._more = 0

    @property
    def told(self) -> tuple[str, ...]:
        return (*self._said, *([f"and {self._more} more"] if self._more else []))

    def add(self, name: bytes, why: str) -> None:
        self.say(f"{_told(name)} ({why})")

    def say(self, said: str) -> None:
        if said in self._said:
            return
        if len(self._said) < MAX_TOLD:
            self._said[said] = None
        else:
            self._more += 1


def _file(archive: int, member: Member, path: str) -> JobFile:
    content = os.pread(archive, member.size, member.offset)
    return JobFile(path=path, content=content, executable=_is_executable(member))


def _is_executable(member: Member) -> bool:
    return bool(member.mode & stat.S_IXUSR)


def _path(name: bytes) -> str:
    """The name as a path below the folder; empty where it is none."""
    text = os.fsdecode(name)
    parts = [part for part in text.split("/") if part not in ("", ".")]
    return "" if text.startswith("/") or ".." in parts else "/".join(parts)


def _readable(path: str) -> str:
    """The path; empty for one that a person can't read."""
    return path if path.isprintable() else ""


def _hidden(path: str) -> str:
    """The path up to the first name in it that is hidden; empty where none is."""
    parts = path.split("/")
    first = next((at for at, part in enumerate(parts) if part.startswith(".")), None)
    return "" if first is None else "/".join(parts[: first + 1])


def _told(name: bytes) -> str:
    text = name[: 4 * _TOLD].decode(errors="replace").removeprefix("./")
    return visible_label(text if len(text) <= _TOLD else text[:_TOLD] + "…")
