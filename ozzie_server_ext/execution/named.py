"""What the words of a command name on this machine, as it is now: the program, and the files that it is told of. A yes
to the command is a yes to those, and to no others that have their names later (THREATS 10)."""

import hashlib
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.protocol.jsontext import repair_text
from ozzie_server_ext.render.text import spelled

MOST_FILES = 32
"""Of those that the words name; a list that is longer is not read to its end."""
MAX_HASHED = 32 << 20
"""In bytes. Of a larger file, its size and the moments of its last changes have to do."""
_LONGEST_PATH = 4096
_MADE_UP = ("/proc/", "/sys/", "/dev/")
"""What the system makes up while it is read is never the same twice."""
_BINARY = b"\x7fELF"


class NoProgram(InputError):
    """What is to be run is not there, or is nothing that can be run."""

    code = "host.no_program"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFile:
    """A file by all that makes it another one when it changes. `path` is as it was found, `real` without links on the
    way; `sha256` is empty for one that can't be read, or is larger than MAX_HASHED."""

    path: str
    real: str
    device: int
    inode: int
    mode: int
    owner: int
    size: int
    mtime_ns: int
    ctime_ns: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """`file.path` is what the system is given to run, absolute or relative to the command's folder. A binary is run by
    the descriptor of what was looked at; a script by its path, since its interpreter opens it once more."""

    file: NamedFile
    is_binary: bool


def open_program(word: str, folder: int, searched: str) -> tuple[int, Program]:
    """An open descriptor of the program that `word` names, and what it is; the caller closes it. A word without a slash
    is looked for in the folders of `searched`, those of them that are absolute: a folder of the project is to offer no
    program by a common name. Any other word is a path, relative to the open `folder`.

    Raises NoProgram.
    """
    if "/" in word:
        return _open(word, folder)
    for place in repair_text(searched).split(":"):
        path = f"{place.rstrip('/')}/{word}"
        if place.startswith("/") and word and os.path.isfile(path) and os.access(path, os.X_OK):
            return _open(path, folder)
    raise NoProgram(f"There is no program {spelled(word)} in the folders of PATH on this machine.")


def files_named(words: Sequence[str], folder: int) -> tuple[NamedFile, ...]:
    """The plain files that words name, as they are or relative to the open `folder`: a script, a list, a picture."""
    found: list[NamedFile] = []
    for word in words:
        if len(found) == MOST_FILES:
            break
        if not word or len(word) > _LONGEST_PATH:
            continue
        with suppress(OSError, ValueError):  # ValueError: a zero byte
            descriptor = os.open(word, os.O_PATH | os.O_CLOEXEC, dir_fd=folder)
            try:
                if stat.S_ISREG(os.fstat(descriptor).st_mode) and not _real(descriptor).startswith(_MADE_UP):
                    found.append(_look(descriptor, word)[0])
            finally:
                os.close(descriptor)
    return tuple(found)


def _open(path: str, folder: int) -> tuple[int, Program]:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC, dir_fd=folder)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it has a zero byte"
        raise NoProgram(f"The program {spelled(path)} can't be run: {why}.") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NoProgram(f"{spelled(path)} is no program: it is no plain file.")
        if not os.access(f"/proc/self/fd/{descriptor}", os.X_OK):
            raise NoProgram(f"{spelled(path)} is no program: you may not run it.")
        file, begin = _look(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    # One that can't be read can be no script: its interpreter could not read it either.
    return descriptor, Program(file=file, is_binary=begin is None or begin.startswith(_BINARY))


def _look(descriptor: int, path: str) -> tuple[NamedFile, bytes | None]:
    """What an open plain file is, and its first bytes; None where it can't be read."""
    digest, begin = "", None
    with suppress(PermissionError):
        reading = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(reading, "rb") as file:
            begin = file.read(len(_BINARY))
            if os.fstat(reading).st_size <= MAX_HASHED:
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256").hexdigest()
    info = os.fstat(descriptor)
    return NamedFile(
        path=path,
        real=_real(descriptor),
        device=info.st_dev,
        inode=info.st_ino,
        mode=info.st_mode,
        owner=info.st_uid,
        size=info.st_size,
        mtime_ns=info.st_mtime_ns,
        ctime_ns=info.st_ctime_ns,
        sha256=digest,
    ), begin


def _real(descriptor: int) -> str:
    return repair_text(os.readlink(f"/proc/self/fd/{descriptor}"))
