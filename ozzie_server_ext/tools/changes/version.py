"""A file's new version: written whole under a name of its own, with the rights of the one that it is to replace."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes.held import Held
from ozzie_server_ext.tools.changes.lease import Lease
from ozzie_server_ext.tools.changes.leftovers import KEPT, new_part, when_whole
from ozzie_server_ext.tools.changes.outcome import FileChanged
from ozzie_server_ext.tools.changes.renames import move
from ozzie_server_ext.tools.changes.seen import FileSeen, Seen, identity, named, read_file
from ozzie_server_ext.tools.rooted import closing, open_plain

_ACL = "system.posix_acl_access"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS = 0o777
_READ, _RUN = 0o444, 0o111


@dataclass(frozen=True, slots=True)
class Version:
    """A new version called `name` in `folder`, open for reading."""

    folder: Held
    name: str
    descriptor: int
    file: FileSeen

    def discard(self) -> bool:
        """Removes it, if it has its name and is as it was written. While it stood in the place of the other one,
        somebody may have replaced it, or written to it: that is theirs."""
        try:
            with Lease(self.descriptor, self.name) as lease:
                there = named(self.folder.descriptor, self.name)
                if there != identity(self.descriptor) or read_file(self.descriptor, self.name)[0] != self.file:
                    return False
                if lease.wanted:
                    return False
                os.unlink(self.name, dir_fd=self.folder.descriptor)
        except (ToolFailed, OSError):
            return False
        return True

    def keep(self) -> str:
        """Gives what has its name now, whosever it is, one under which nobody removes it; that name."""
        kept = f"{self.name}{KEPT}"
        with suppress(ToolFailed, OSError):
            move(self.folder.descriptor, self.name, self.folder.descriptor, kept)
        return kept


@contextmanager
def new_version(
    folder: Held, seen: Seen, content: bytes, like: int | None, executable: bool | None = None
) -> Iterator[Version]:
    """Writes it and makes it durable. `like` is open on the file whose rights it takes over; without one it is made
    0644 less the umask. Where `executable` is set, who may read it may run it, or nobody may. It stays until somebody
    discards it.

    Raises ToolFailed where owner or rights can't be kept, NotOffered, OSError; then nothing of it is left.
    """
    part = name = new_part(seen.name)
    # Private until it has the rights of the other one, so that nobody reads it who may not read that.
    writing = os.open(part, _NEW, 0o644 if like is None else 0o600, dir_fd=folder.descriptor)
    with ExitStack() as stack:
        try:
            with closing(writing):
                _write_all(writing, content)
                if like is not None:
                    _take_rights(writing, like, seen.path)
                if executable is not None:
                    _set_executable(writing, executable)
                os.fsync(writing)
                reading = open_plain(folder.descriptor, part, part)
                if reading is None:
                    raise _taken_away(part)
                stack.enter_context(closing(reading))
                if not os.path.sameopenfile(reading, writing):
                    raise _taken_away(part)
            whole = when_whole(part, content, seen)
            move(folder.descriptor, part, folder.descriptor, whole)
            name = whole
            version = Version(folder, name, reading, read_file(reading, name)[0])
        except BaseException:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder.descriptor)
            raise
        yield version


def _taken_away(part: str) -> FileChanged:
    return FileChanged(f"Another program took {part} away while it was written; nothing was done.")


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _take_rights(descriptor: int, like: int, path: str) -> None:
    """Owner, group, permissions, access list and the attributes of users. Set-user-id and the like are dropped, as they
    are when a file is written to."""
    info, own = os.fstat(like), os.fstat(descriptor)
    try:
        if (info.st_uid, info.st_gid) != (own.st_uid, own.st_gid):
            os.fchown(descriptor, info.st_uid, info.st_gid)
        kept = {name for name in _attributes(like) if name == _ACL or name.startswith("user.")}
        for name in kept:
            os.setxattr(descriptor, name, os.getxattr(like, name))
        if _ACL not in kept and _ACL in _attributes(descriptor):
            os.removexattr(descriptor, _ACL)  # a folder may hand one down to what is made in it
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EACCES):
            raise
        raise ToolFailed(
            f"{path} belongs to another user or group, or has attributes that can't be kept, so it was left alone; "
            "change it by hand."
        ) from None
    os.fchmod(descriptor, stat.S_IMODE(info.st_mode) & _PERMISSIONS)


def _set_executable(descriptor: int, executable: bool) -> None:
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode) & ~_RUN
    os.fchmod(descriptor, mode | (mode & _READ) >> 2 if executable else mode)


def _attributes(descriptor: int) -> list[str]:
    try:
        return os.listxattr(descriptor)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return []
