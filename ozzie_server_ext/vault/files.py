"""The vault's files: private, replaced atomically, and changed by one process at a time."""

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ozzie_server_ext.config.files import replace_file, sync_folder
from ozzie_server_ext.domain.disk import hint_for
from ozzie_server_ext.vault.errors import UnsafeFile, VaultBusy, VaultUnusable

LOCK_S = 20.0
_POLL_S = 0.02
_OTHERS = 0o077


def make_folder(folder: Path) -> None:
    """Create `folder` if needed, and make it private. Raises UnsafeFile, VaultUnusable."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = folder.lstat()
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
            raise UnsafeFile(
                f"{folder} is not a folder of yours, so no secret is stored there.",
                hint="Move it away; Ozzie makes a new one.",
            )
        if info.st_mode & _OTHERS:
            folder.chmod(0o700)
    except OSError as error:
        raise _unusable(folder, error) from None


def read_private(path: Path, *, max_bytes: int) -> bytes | None:
    """Read `path`; return None if it does not exist.

    Raises UnsafeFile if others could read or replace it, or it is not a regular file; VaultUnusable.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if path.is_symlink():
            raise UnsafeFile(f"{path} is a link, so it is not used.", hint="Put the file itself there.") from None
        raise _unusable(path, error) from None
    with open(descriptor, "rb") as file:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid():
            raise UnsafeFile(f"{path} is not a file of yours, so it is not used.", hint="Put your own file there.")
        if info.st_mode & _OTHERS:
            raise UnsafeFile(
                f"{path} can be read or changed by others, so it is not used.",
                hint=f"Close it with chmod 600 {path}. If others may have read it, replace what it protects.",
            )
        try:
            return file.read(max_bytes + 1)
        except OSError as error:
            raise _unusable(path, error) from None


def write_private(path: Path, content: bytes) -> None:
    """Replace the content of `path` durably (0600). Raises VaultUnusable, which leaves the old content."""
    try:
        # Remove temporary files of a crash. The lock is held, so nobody is writing now.
        for left in path.parent.glob(".new-*"):
            left.unlink(missing_ok=True)
        replace_file(path, content)
    except OSError as error:
        raise _unusable(path, error) from None


def create_private(path: Path, content: bytes) -> None:
    """Create a file durably (0600). Raises VaultUnusable, also if it exists."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(path, error) from None
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise _unusable(path, error) from None


@contextmanager
def locked(path: Path, *, wait_s: float = LOCK_S) -> Iterator[None]:
    """Lock out other processes until the block, or this process, ends. Raises VaultBusy, VaultUnusable."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(path, error) from None
    try:
        end = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise VaultBusy() from None
                time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """Return a stamp that changes whenever the file is replaced; None without a file."""
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_ino, info.st_mtime_ns, info.st_size


def _unusable(path: Path, error: OSError) -> VaultUnusable:
    return VaultUnusable(f"{path} can't be used: {error.strerror or error}.", hint=hint_for(path, error=error))
