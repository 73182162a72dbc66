"""What is taken out of a sandbox again: what a job left, and what it changed in the copy of a folder."""

import hashlib
import os
import stat
from collections.abc import Mapping

from ozzie_server_ext.execution.runner import MIB, Collected, JobFile, Was
from ozzie_server_ext.execution.tar import BrokenArchive, Member, members
from ozzie_server_ext.render.text import visible_label

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
