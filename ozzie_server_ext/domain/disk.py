"""Why a path can't be read or written and what to do about it, found out on the disk because error texts don't say."""

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from ozzie_server_ext.domain.errors import Conflict, InputError, Unavailable

LITTLE = 16 << 20
"""Bytes. With less free space, a disk counts as nearly full."""

NONE_LEFT = 256 << 10
_NEAR_LIMIT = 64 << 10
_FULL = {errno.ENOSPC, errno.EDQUOT}


def hint_for(*paths: Path, error: OSError | None = None) -> str:
    """Return how to make `paths`, files and folders, writable. `error` is what writing them raised."""
    number = error.errno if error is not None else None
    if number in _FULL:
        return _full(paths[0])
    if number == errno.EFBIG:
        return _too_large()
    if number in (errno.ENOTDIR, errno.EEXIST):
        return (
            f"There is a file where {paths[0]} has to be a folder: move it away, or set OZZIE_PATH to another folder."
        )
    for path in paths:
        if hint := _refused(path):
            return hint
    free = free_bytes(paths[0])
    if free is not None and free < NONE_LEFT:
        return _full(paths[0])
    if any(_is_at_limit(path) for path in paths):
        return _too_large()
    where = _existing(paths[0])
    return f"Check the disk of {where}, its free space and who may write there, or set OZZIE_PATH to another."


def write_new(path: Path, content: bytes) -> None:
    """Write a new file for a person, whole or not at all, and never over an existing one. Raises Conflict,
    Unavailable."""
    try:
        with path.open("xb") as file:
            try:
                file.write(content)
                file.flush()
            except OSError:
                path.unlink()
                raise
    except FileExistsError:
        raise Conflict(f"{path} exists already.", hint="Give another name.") from None
    except OSError as error:
        raise Unavailable(f"{path} can't be written: {error.strerror or error}.", hint="Give another name.") from None


def read_text(path: str) -> str:
    """Return the text of a file that a person named. Raises InputError."""
    try:
        return Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a null character in the path
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InputError(f"{path} can't be read: {why}.", hint="Name a file of text.", code="input.file") from None


def expect_new(path: Path) -> None:
    """Raise what `write_new` would, before anything is made that is only of use with the file."""
    try:
        path.lstat()
    except FileNotFoundError:
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise Unavailable(
                f"{path.parent} is no folder to write in.", hint="Make it first, or name another one."
            ) from None
    except (OSError, ValueError):  # a name that the system refuses
        name = str(path.name)[:40].encode(errors="replace").decode()
        raise Unavailable(f"No file can be called {name!r}.", hint="Give another name.") from None
    else:
        raise Conflict(f"{path} exists already.", hint="Give another name.")


def free_bytes(path: Path) -> int | None:
    """Return how many bytes this account can still write on the disk of `path`; None if unknown."""
    try:
        found = os.statvfs(_existing(path))
    except (OSError, AttributeError):  # Windows has no statvfs
        return None
    return found.f_bavail * found.f_frsize if found.f_blocks else None  # as /proc, which is no disk


def _refused(path: Path) -> str:
    """Return how to fix the permissions of `path` or its nearest existing folder; "" if it can be written."""
    for each in _with_folders(path):
        if not each.exists():
            continue
        if _is_mounted_read_only(each):
            return f"{each} is on a disk that is mounted read-only: mount it for writing, or set OZZIE_PATH to another."
        needed = os.W_OK | (os.X_OK if each.is_dir() else 0)
        if os.access(each, needed, effective_ids=os.access in os.supports_effective_ids):
            return ""
        if each.stat().st_uid != os.geteuid():
            return f"{each} belongs to another account: have it given to yours (chown), or set OZZIE_PATH to another."
        what = "folder" if each.is_dir() else "file"
        return f"The {what} {each} is read-only: make it writable with chmod u+{'wx' if each.is_dir() else 'w'}."
    return ""


def _with_folders(path: Path) -> Iterator[Path]:
    yield path
    yield from path.parents


def _existing(path: Path) -> Path:
    return next((each for each in _with_folders(path) if each.exists()), path)


def _is_mounted_read_only(path: Path) -> bool:
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except (OSError, AttributeError):
        return False


def _full(path: Path) -> str:
    return f"The disk of {_existing(path)}, or your share of it, is full: free some disk space, then try again."


def _too_large() -> str:
    return "This process may not make files any larger: raise the limit (ulimit -f) that it was started with."


def _is_at_limit(path: Path) -> bool:
    if sys.platform == "win32":
        return False
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        return limit != resource.RLIM_INFINITY and path.is_file() and path.stat().st_size > limit - _NEAR_LIMIT
    except OSError:
        return False
