"""What of a project is copied into a sandbox."""

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
from ozzie_server_ext.execution.runner import MIB, Was

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
