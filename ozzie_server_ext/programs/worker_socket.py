"""The socket that a worker listens at: in a folder of its owner's alone, and never taken from a worker that lives."""

import contextlib
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ozzie_server_ext.domain.errors import Conflict, Unavailable

MAX_PATH_BYTES = 107
BACKLOG = 64
_ELSEWHERE = "Name another one: ozzie worker --socket ~/.ozzie/run/worker.sock"


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """A socket at `path` (0600) that accepts connections, removed at the end. Its folder is made (0700) where it is
    missing. A socket that a dead worker left is taken over.

    Raises Unavailable where the place can't be used, Conflict where somebody answers there.
    """
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise _unusable(f"The path of the socket is longer than {MAX_PATH_BYTES} bytes.")
    _prepare_folder(path.parent)
    with _only_one(path.parent):
        _clear(path)
        end = socket.socket(socket.AF_UNIX)
        mask = os.umask(0o177)
        try:
            end.bind(str(path))
        except OSError as error:
            end.close()
            raise _unusable(f"The socket {path} can't be made: {error.strerror}.") from error
        finally:
            os.umask(mask)
        end.listen(BACKLOG)
        end.setblocking(False)
    mine = path.lstat().st_ino
    try:
        yield end
    finally:
        end.close()
        with contextlib.suppress(OSError):
            # Somebody may have put another one into its place.
            if path.lstat().st_ino == mine:
                path.unlink()


def _prepare_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = folder.stat()
    except OSError as error:
        raise _unusable(f"The folder {folder} for the socket can't be made: {error.strerror}.") from error
    if info.st_uid != os.getuid() or stat.S_IMODE(info.st_mode) & 0o077:
        raise _unusable(f"Others may enter or change the folder {folder}, so a socket there would not be yours alone.")


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Two workers that start at once must not both find the same dead socket and remove each other's."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _clear(path: Path) -> None:
    """Remove what a dead worker left at `path`."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise _unusable(f"{path} is there already and is not a socket.")
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                path.unlink()
                return
        # Whoever is too busy to take a connection lives too.
        raise Conflict(f"A worker listens at {path} already.", hint=_ELSEWHERE, code="worker.taken")


def _unusable(sentence: str) -> Unavailable:
    return Unavailable(sentence, hint=_ELSEWHERE, code="worker.socket")
