"""The servers that are attached to a home's owner, one of which takes over when it goes.

Each locks a file below `run/attached` while its process lives: an unlocked file was left by a dead one.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ozzie_server_ext.domain.disk import hint_for
from ozzie_server_ext.domain.errors import InputError, Unavailable
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.protocol.jsontext import dumps, loads_object
from ozzie_server_ext.protocol.owner import owner_alive

_MAX_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedServer:
    """`url`: the server's base, slash at its end. `headless`: it was started for Ozzie alone. `root`: the folder that
    its notebooks' paths are relative to."""

    pid: int
    url: str
    headless: bool
    root: str = ""


class Attachment:
    """This server's entry among the attached ones, held until `leave` or the end of the process."""

    def __init__(self, home: Path, server: AttachedServer) -> None:
        self._path = _folder(home) / f"{server.pid}.json"
        self._server = server
        self._descriptor: int | None = None

    def enter(self) -> None:
        """Be found by `attached_servers`. Called again, only restore a file that was removed. Raises Unavailable."""
        if self._descriptor is not None and os.path.lexists(self._path):
            return
        fresh = self._path.with_suffix(".new")
        descriptor: int | None = None
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_left(self._path.parent)
            fresh.unlink(missing_ok=True)
            descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            # Lock it before it gets its name, so that nobody finds it unlocked.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(descriptor, dumps(encode(self._server)).encode())
            fresh.replace(self._path)
        except OSError as error:
            if descriptor is not None:
                os.close(descriptor)
            raise Unavailable(
                f"{self._path} can't be written: {error.strerror}.",
                hint=hint_for(self._path, error=error),
                code="home.unusable",
            ) from error
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = descriptor

    def leave(self) -> None:
        """Remove the entry. Calling it again does nothing."""
        if self._descriptor is not None:
            # An unlocked file means nothing, so one that can't be removed may stay. A file that a process of the same
            # number, in another container, has put there is not ours to remove.
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(self._descriptor), os.lstat(self._path)):
                    self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = None


def attached_servers(home: Path) -> list[AttachedServer]:
    """Return the living servers that are attached to the owner of `home`."""
    return [server for _, server in _found(_folder(home)) if server is not None]


def owner_expected(home: Path) -> bool:
    """Whether `home` has an owner, or a server about to become it: waiting for that one is quicker than competing."""
    return owner_alive(home) or bool(attached_servers(home))


def _folder(home: Path) -> Path:
    return home / "run" / "attached"


def _remove_left(folder: Path) -> None:
    """Remove the files of servers that were killed."""
    for path, server in list(_found(folder)):
        if server is None:
            path.unlink(missing_ok=True)


def _found(folder: Path) -> Iterator[tuple[Path, AttachedServer | None]]:
    """Yield every file with its server; None if nobody holds it any more, or it can't be read."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # missing, or not readable for us: whoever needs it says so
        return
    for path in (folder / name for name in names if name.endswith(".json")):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                yield path, _read(file.read(_MAX_BYTES)) if _is_held(descriptor) else None


def _is_held(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _read(content: bytes) -> AttachedServer | None:
    try:
        return decode(AttachedServer, loads_object(content))
    except InputError:
        return None
