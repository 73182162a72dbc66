"""One owner per `OZZIE_PATH`, elected by a lock that the kernel of the operating system gives up at death (GW-1)."""

import fcntl
import os
from pathlib import Path

from ozzie_server_ext.domain.disk import hint_for
from ozzie_server_ext.domain.errors import Conflict, Unavailable
from ozzie_server_ext.protocol.owner import owner_lock_path

_TRIES = 10
"""How often to begin anew where the lock's file is replaced while it is being locked."""


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
            self._descriptor = self._locked()
        except OSError as error:  # such as a full disk
            raise self._unusable(str(error.strerror), hint_for(self._path, error=error)) from error

    def _locked(self) -> int:
        """A descriptor of the lock's file, locked. Raises NotOwner, Unavailable, OSError."""
        for _ in range(_TRIES):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                if self._take(descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
        raise self._unusable("something replaces it again and again", "Find out what does, and keep it from that.")

    def _take(self, descriptor: int) -> bool:
        """Lock the file and write down whose it is; False where it lost its name since it was opened. Whoever comes
        next locks the file that has the name then, and would be an owner beside this one."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not self._is_named(descriptor):
                return False
            owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise NotOwner(self._home, owner) from None
        if not self._is_named(descriptor):
            return False
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        return True

    def _is_named(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.lstat(self._path))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Give it back; nothing happens where it is not held."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None

    def _unusable(self, why: str, hint: str) -> Unavailable:
        return Unavailable(f"The lock {self._path} can't be used: {why}.", hint=hint, code="gateway.lock")
