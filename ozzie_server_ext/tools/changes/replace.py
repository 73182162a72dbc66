"""Replacing a file's content, exactly on the version that was seen.

The new version is written beside the file. One atomic exchange swaps the two names, and what came out is compared with
what was seen; if it differs, they are swapped back. So every reader finds the whole old or the whole new version, and
nothing that somebody else saved meanwhile is overwritten.
"""

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec.structs import replace as with_changes

from ozzie_server_ext.tools.base import ToolFailed, Unsettled
from ozzie_server_ext.tools.changes.held import (
    Lease,
    OpenFile,
    OpenFolder,
    folder_as_seen,
    locked_folder,
    make_folders,
    move,
    opened_as_seen,
    remove_folders,
    require_renames,
    swap,
)
from ozzie_server_ext.tools.changes.seen import (
    MAX_BYTES,
    FileChanged,
    FileSeen,
    Seen,
    appeared,
    explain_os_errors,
    gone,
    identity,
    identity_at,
    read_file,
    replaced,
)
from ozzie_server_ext.tools.safe_open import MAX_NAME_BYTES, closing, open_plain, readable_parts

KEPT = ".kept"
_HASH_DIGITS = 16
_LONGEST_ENDING = len(".ozzie-12345678") + 2 * (1 + _HASH_DIGITS) + len(KEPT)
_ENDING = re.compile(
    r"\.ozzie-[0-9a-f]{8}(?:\.part|-(?P<new>[0-9a-f]{16})-(?P<old>[0-9a-f]{16}|none)(?P<kept>\.kept)?)\Z"
)


class Kind(Enum):
    """A leftover: an incomplete new version, a complete one, the version to be replaced, or something else."""

    PART = "part"
    NEW = "new"
    OLD = "old"
    FOREIGN = "foreign"


class Cleared(msgspec.Struct, frozen=True):
    """Names in the file's folder: removed leftovers, and those kept because they are somebody's."""

    removed: tuple[str, ...]
    kept: tuple[str, ...]


def new_part(name: str) -> str:
    """Return a name for the new version of `name` while it is written."""
    return f"{_stem(name)}.ozzie-{secrets.token_hex(4)}.part"


def complete_name(part: str, content: bytes, seen: Seen) -> str:
    """Return the name of the new version once it is complete."""
    old = seen.file.sha256[:_HASH_DIGITS] if seen.file else "none"
    return f"{part.removesuffix('.part')}-{sha256(content).hexdigest()[:_HASH_DIGITS]}-{old}"


def clear_leftovers(root: Path, path: str) -> Cleared:
    """Remove leftovers of changes of the file at `path`. Raises OutsideProject, ToolFailed, FileBusy."""
    path = "/".join(readable_parts(path))
    with explain_os_errors(path), locked_folder(root, path) as folder:
        return clear_in(folder, path.rpartition("/")[2])


def clear_in(folder: OpenFolder, name: str) -> Cleared:
    """As `clear_leftovers`, in a locked folder. Raises OSError."""
    removed: list[str] = []
    kept: list[str] = []
    for found in names_of(folder.descriptor, name):
        if kind_of(folder.descriptor, found) is Kind.FOREIGN:
            kept.append(found)
        else:
            os.unlink(found, dir_fd=folder.descriptor)
            removed.append(found)
    return Cleared(tuple(removed), tuple(kept))


def names_of(folder: int, name: str) -> tuple[str, ...]:
    """Return the names in an open folder that changes of `name` made."""
    stem = _stem(name)
    return tuple(
        found
        for found in sorted(os.listdir(folder))
        if found.startswith(stem) and _ENDING.fullmatch(found, len(stem)) is not None
    )


def belongs_to(found: str, sha256_of_new: str, seen: Seen) -> bool:
    """Whether the leftover `found` is from a change of what was seen to the content with that hash."""
    ending = _ENDING.fullmatch(found, len(_stem(seen.name)))
    old = seen.file.sha256[:_HASH_DIGITS] if seen.file else "none"
    return ending is not None and (ending["new"], ending["old"]) == (sha256_of_new[:_HASH_DIGITS], old)


def kind_of(folder: int, found: str) -> Kind:
    """Return what the leftover `found` holds."""
    ending = _ENDING.search(found)
    if ending is None or ending["kept"]:
        return Kind.FOREIGN
    try:
        descriptor = open_plain(folder, found, found)
        if descriptor is None:
            return Kind.FOREIGN
        with closing(descriptor), Lease(descriptor, found):
            file, _ = read_file(descriptor, found)
    except (ToolFailed, OSError):  # a link, a folder, too large, or open for writing
        return Kind.FOREIGN
    if ending["new"] is None:
        return Kind.PART if file.owner == os.geteuid() else Kind.FOREIGN
    digits = file.sha256[:_HASH_DIGITS]
    return Kind.NEW if digits == ending["new"] else Kind.OLD if digits == ending["old"] else Kind.FOREIGN


def _stem(name: str) -> str:
    """Return as much of the name as leaves room for the ending, cut between characters."""
    room = MAX_NAME_BYTES - 1 - _LONGEST_ENDING
    return "." + name.encode()[:room].decode("utf-8", "ignore")


_ACL = "system.posix_acl_access"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS = 0o777
_READ, _RUN = 0o444, 0o111


class Version(msgspec.Struct, frozen=True):
    """A new version, named `name` in `folder` and open for reading."""

    folder: OpenFolder
    name: str
    descriptor: int
    file: FileSeen

    def discard(self) -> bool:
        """Remove it if it still has its name and content; return whether it did. While it was in place of the file,
        somebody may have replaced or changed it: that is theirs."""
        try:
            with Lease(self.descriptor, self.name) as lease:
                there = identity_at(self.folder.descriptor, self.name)
                if there != identity(self.descriptor) or read_file(self.descriptor, self.name)[0] != self.file:
                    return False
                if lease.wanted:
                    return False
                os.unlink(self.name, dir_fd=self.folder.descriptor)
        except (ToolFailed, OSError):
            return False
        return True

    def keep(self) -> str:
        """Rename the current file so that cleanup skips it; return the new name."""
        kept = f"{self.name}{KEPT}"
        with suppress(ToolFailed, OSError):
            move(self.folder.descriptor, self.name, self.folder.descriptor, kept)
        return kept


@contextmanager
def new_version(
    folder: OpenFolder, seen: Seen, content: bytes, like: int | None, executable: bool | None = None
) -> Iterator[Version]:
    """Write a durable new version. It takes over the permissions of `like`, an open file; without one it is 0644 less
    the umask. `executable` True lets all readers run it, False nobody. It stays until it is discarded.

    Raises ToolFailed if owner or permissions can't be kept, NotOffered, OSError; then nothing of it is left.
    """
    part = name = new_part(seen.name)
    # Private until it has its final permissions, so that nobody reads it who must not.
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
            whole = complete_name(part, content, seen)
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
    """Copy owner, group, permissions, access list and user attributes, without set-user-id and the like."""
    info, own = os.fstat(like), os.fstat(descriptor)
    try:
        if (info.st_uid, info.st_gid) != (own.st_uid, own.st_gid):
            os.fchown(descriptor, info.st_uid, info.st_gid)
        kept = {name for name in _attributes(like) if name == _ACL or name.startswith("user.")}
        for name in kept:
            os.setxattr(descriptor, name, os.getxattr(like, name))
        if _ACL not in kept and _ACL in _attributes(descriptor):
            os.removexattr(descriptor, _ACL)  # inherited from the folder
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


_TRIES = 100
"""Attempts to find our version if somebody moved it during the change: about 1 ms in all."""


class Replaced(msgspec.Struct, frozen=True):
    """A completed replacement. `seen` is the new state; `notes` are sentences for the user, usually none: what could
    not be confirmed, and what is left beside the file."""

    seen: Seen
    notes: tuple[str, ...]


def replace(
    root: Path, seen: Seen, content: bytes, *, executable: bool | None = None, most: int = MAX_BYTES
) -> Replaced:
    """Give the file at `seen.path` the content, or create it with its missing folders. `executable`, if set, makes it
    so or not. The content may have `most` bytes.

    Raises FileChanged if the file differs from what was seen, FileBusy, NotOffered or another ToolFailed: then nothing
    was done. Raises Unsettled if that is uncertain.
    """
    require_renames()
    readable_parts(seen.path)
    if len(content) > most:
        raise ToolFailed(f"{seen.path} would be larger than {most:,} bytes; nothing was written.")
    placed = make_folders(root, seen) if seen.missing else seen
    try:
        with explain_os_errors(seen.path), folder_as_seen(root, placed) as folder:
            kept = clear_in(folder, seen.name).kept
            if placed.file is None:
                file, note = _create(folder, placed, content, executable)
            else:
                file, note = _swap_in(folder, placed, content, executable)
    except ToolFailed:
        remove_folders(root, seen.missing)
        raise
    found = tuple(f"What another program saved during a change that broke off is kept as {name}." for name in kept)
    return Replaced(with_changes(placed, file=file), (note, *found) if note else found)


def _create(folder: OpenFolder, seen: Seen, content: bytes, executable: bool | None) -> tuple[FileSeen, str]:
    if identity_at(folder.descriptor, seen.name) is not None:
        raise appeared(seen.path)
    with new_version(folder, seen, content, None, executable) as version:
        try:
            move(folder.descriptor, version.name, folder.descriptor, seen.name)
        except BaseException as error:
            version.discard()
            raise (appeared(seen.path) if isinstance(error, FileExistsError) else error) from None
        if not folder.leads_here():
            _move_back(folder, seen, version)
            raise _moved(seen)
        return version.file, folder.sync()


def _swap_in(folder: OpenFolder, seen: Seen, content: bytes, executable: bool | None) -> tuple[FileSeen, str]:
    with opened_as_seen(folder, seen) as old:
        if not old.writable(folder):
            raise ToolFailed(f"{seen.path} is read-only, so it was left alone.")
        with new_version(folder, seen, content, old.descriptor, executable) as version:
            try:
                # Writing took a while. Find changes since then before anybody sees the new version.
                old.confirm()
                _must_lead_to(folder, seen.name, old)
                swap(folder.descriptor, version.name, seen.name)
            except BaseException as error:
                version.discard()
                raise (gone(seen.path) if isinstance(error, FileNotFoundError) else error) from None
            try:
                note = _confirm(folder, seen, version.name, old)
            except BaseException as error:
                _swap_back(folder, seen, version, error)
                raise
            if note:
                return version.file, f"{note} The replaced version is kept as {version.name} until the next change."
            return version.file, _remove(folder, version.name)


def _confirm(folder: OpenFolder, seen: Seen, name: str, old: OpenFile) -> str:
    """Check that what came out, now called `name`, is what was seen, and make the swap durable; return a note.

    The first check is quick: a last-moment replacement goes back at once. After the disk has confirmed, nobody can be
    opening the old version by its name, so the last check is for waiting writers.
    """
    _must_lead_to(folder, name, old)
    if not folder.leads_here():
        raise _moved(seen)
    old.confirm()
    note = folder.sync()
    old.confirm()
    return note


def _must_lead_to(folder: OpenFolder, name: str, file: OpenFile) -> None:
    if identity_at(folder.descriptor, name) != identity(file.descriptor):
        raise replaced(file.seen.path)


def _swap_back(folder: OpenFolder, seen: Seen, version: Version, why: BaseException) -> None:
    """Put back what came out, as soon as our version has the name. Nothing else is removed.

    Raises Unsettled if somebody moved, replaced or changed our version.
    """
    for _ in range(_TRIES):
        with suppress(OSError):
            if identity_at(folder.descriptor, seen.name) == identity(version.descriptor):
                swap(folder.descriptor, version.name, seen.name)
            if identity_at(folder.descriptor, version.name) == identity(version.descriptor):
                if version.discard():
                    return
                break
    raise _unsettled(seen, version) from why


def _move_back(folder: OpenFolder, seen: Seen, version: Version) -> None:
    with suppress(OSError):
        move(folder.descriptor, seen.name, folder.descriptor, version.name)
        if version.discard():
            return
        move(folder.descriptor, version.name, folder.descriptor, seen.name)
    raise _unsettled(seen, version)


def _remove(folder: OpenFolder, name: str) -> str:
    """Remove the replaced version; return a note if that failed. The next change of the file removes it then."""
    try:
        os.unlink(name, dir_fd=folder.descriptor)
    except OSError as error:
        return f"The replaced version could not be removed and is called {name}: {error.strerror}."
    return ""


def _moved(seen: Seen) -> FileChanged:
    return FileChanged(f"The folder of {seen.path} was moved meanwhile; look at it again.")


def _unsettled(seen: Seen, version: Version) -> Unsettled:
    return Unsettled(
        f"Another program changed {seen.path} more than once in the moment of the change, so it is not clear which "
        "version is there.",
        hint=f"Look at it, and at {version.keep()} beside it, which may be another version.",
    )
