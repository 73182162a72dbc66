"""Files without a name that are handed to a sandbox by their descriptors: what it reads, and what it tells."""

import fcntl
import os
from types import TracebackType

_F_ADD_SEALS, _F_SEAL_SEAL, _F_SEAL_SHRINK, _F_SEAL_GROW = 1033, 1, 2, 4


class Handed:
    """Descriptors that live for as long as one job. They are closed here when it has ended."""

    def __init__(self) -> None:
        self._open: list[int] = []

    def __enter__(self) -> "Handed":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def all(self) -> tuple[int, ...]:
        return tuple(self._open)

    def take(self, descriptor: int) -> int:
        """Have it closed here, too."""
        self._open.append(descriptor)
        return descriptor

    def text(self, content: bytes) -> int:
        """Something to read, from its beginning."""
        descriptor = self.take(os.memfd_create("ozzie-given", os.MFD_CLOEXEC))
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def page(self, size: int) -> int:
        """Something to write to, of `size` bytes that are zero; it can become no larger and no smaller."""
        descriptor = self.take(os.memfd_create("ozzie-told", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, _F_ADD_SEALS, _F_SEAL_SEAL | _F_SEAL_SHRINK | _F_SEAL_GROW)
        return descriptor

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())


def read_page(descriptor: int, most: int = 4096) -> bytes:
    """The beginning of a page, up to its first zero."""
    return os.pread(descriptor, most, 0).partition(b"\0")[0]
