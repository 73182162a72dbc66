"""One owner per `OZZIE_PATH`, elected by a lock that the kernel of the operating system gives up at death (GW-1)."""

import fcntl
import os
from pathlib import Path

from ozzie_server_ext.domain.errors import Conflict, Unavailable
from ozzie_server_ext.protocol.handshake import owner_lock_path


class NotOwner(Conflict):
    """Another server owns this `OZZIE_PATH`."""

    code = "gateway.not_owner"

    def __init__(self, home: Path, pid: str) -> None:
        super().__init__(
            f"Ozzie's folder {home} belongs to another server already (process {pid}).",
            hint="Use that server, stop it, or start this one with another OZZIE_PATH.",
        )
        self.pid = pid


class OwnerLock:
    """The lock of one home. Held until `release` or the end of the process."""

    def __init__(self, home: Path) -> None:
        self._path = owner_lock_path(home)
        self._home = home
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Become the owner.

        Raises NotOwner, with the owner's process; Unavailable where the lock can't be used.
        """
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        except BlockingIOError:
            owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise NotOwner(self._home, owner) from None
        except OSError as error:  # such as a full disk
            os.close(descriptor)
            raise self._unusable(error) from error
        self._descriptor = descriptor

    def release(self) -> None:
        """Give it back; nothing happens where it is not held."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None

    def _unusable(self, error: OSError) -> Unavailable:
        return Unavailable(
            f"The lock {self._path} can't be used: {error.strerror}.",
            hint="Move it away; it is made anew.",
            code="gateway.lock",
        )
