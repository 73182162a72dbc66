"""The files of a plugin that is a program: all that its sandbox sees of them, and what a grant is for (docs/plugins.md,
Programs)."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec

from ozzie_server_ext.config.jsonc import ConfigError

MAX_FILES = 100
"""Each is given to each call by itself."""
MAX_SIZE = 32 << 20
MAX_DEPTH = 8
_BY_THE_WAY = "__pycache__"
"""Python makes it when an author tries a script."""
_SCRIPT, _BINARY = b"#!", b"\x7fELF"
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ProgramFile(msgspec.Struct, frozen=True):
    """A file; `executable` if its owner may run it."""

    content: bytes
    executable: bool


def program_files(folder: Path) -> dict[str, ProgramFile]:
    """Read the files of a program by their paths below its folder. Hidden ones are no part of it. Raises ConfigError
    for a link, for anything else that is no plain file, and for too much."""
    found: dict[str, ProgramFile] = {}
    room = MAX_SIZE
    for path in _paths(folder, "", 0):
        if len(found) == MAX_FILES:
            raise ConfigError(
                f"{folder}: has more than {MAX_FILES} files.", hint="Pack them into one, such as a zip of Python's."
            )
        found[path] = _file(folder / path, room)
        room -= len(found[path].content)
    return found


def digest_of_files(files: Mapping[str, ProgramFile]) -> str:
    """Return the SHA-256 of files, their paths, and whether they may be run."""
    whole = hashlib.sha256()
    for path, file in sorted(files.items()):
        whole.update(f"{path}\0{file.executable}\0".encode() + hashlib.sha256(file.content).digest())
    return whole.hexdigest()


def expect_program(files: Mapping[str, ProgramFile], name: str, folder: Path) -> None:
    """Raise ConfigError unless there is a file of this name that can be started."""
    if name not in files:
        raise ConfigError(f"{folder / name}: is not there.", hint='The manifest says its name: "program".')
    if not files[name].content.startswith((_SCRIPT, _BINARY)):
        raise ConfigError(
            f"{folder / name}: is no program.",
            hint='A script begins with "#!" and its interpreter, as in "#!/usr/bin/env python3".',
        )


def paths_to_watch(folder: Path) -> tuple[Path, ...]:
    """Return files and folders whose changes change a program, as far as its folder can be read."""
    found: dict[Path, None] = {}
    with suppress(ConfigError):
        for path in islice(_paths(folder, "", 0), MAX_FILES + 1):
            found |= dict.fromkeys((folder / path, (folder / path).parent))
    return tuple(found)


def _paths(folder: Path, below: str, depth: int) -> Iterator[str]:
    """Yield the paths of files below a folder, in order. Raises ConfigError."""
    try:
        with os.scandir(folder / below) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError as error:
        raise ConfigError(f"{folder / below}: can't be read: {error.strerror}.") from None
    for entry in entries:
        if entry.name.startswith(".") or entry.name == _BY_THE_WAY:
            continue
        if not entry.name.isprintable():
            raise ConfigError(f"{folder / below}: has a file whose name can't be read.")
        path = f"{below}/{entry.name}".lstrip("/")
        if entry.is_symlink():
            raise ConfigError(f"{folder / path}: is a link.", hint="A program has plain files alone.")
        if not entry.is_dir(follow_symlinks=False):
            yield path
        elif depth == MAX_DEPTH:
            raise ConfigError(f"{folder / path}: lies too deep.")
        else:
            yield from _paths(folder, path, depth + 1)


def _file(file: Path, room: int) -> ProgramFile:
    try:
        descriptor = os.open(file, _OPEN)
        with open(descriptor, "rb") as opened:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise ConfigError(f"{file}: is no plain file.")
            content = opened.read(room + 1)
    except OSError as error:
        why = "is a link" if error.errno == errno.ELOOP else f"can't be read: {error.strerror}"
        raise ConfigError(f"{file}: {why}.") from None
    if len(content) > room:
        raise ConfigError(f"{file.parent}: has more than {MAX_SIZE >> 20} MiB.")
    return ProgramFile(content, bool(mode & stat.S_IXUSR))
