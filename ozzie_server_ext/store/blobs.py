"""Content by its address: what is too large for an event, kept once and checked whenever it is read.

One goes only where no fact needs it, and its file only behind the fact that says so.
"""

import asyncio
import hashlib
import os
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Protocol

from ozzie_server_ext.config.files import replace_file, sync_folder
from ozzie_server_ext.domain.disk import hint_for
from ozzie_server_ext.domain.errors import InputError, NotFound, Unavailable
from ozzie_server_ext.domain.ids import BlobRef
from ozzie_server_ext.store.log import DamagedStore
from ozzie_server_ext.store.shielded import uncut
from ozzie_server_ext.store.troubles import Troubles


class Promises:
    """Of one blob store, on one event loop.

    A put that no fact followed counts until the process ends: its blob then stays for longer than it has to, never
    for less.
    """

    def __init__(self) -> None:
        self._unnamed: Counter[BlobRef] = Counter()
        self._leaving: dict[BlobRef, asyncio.Event] = {}

    async def put(self, ref: BlobRef) -> None:
        """The blob is put, and a fact will name it. Whoever comes while it is on its way out waits for the end of
        that."""
        self._unnamed[ref] += 1
        while (leaving := self._leaving.get(ref)) is not None:
            await leaving.wait()

    def named(self, ref: BlobRef) -> None:
        """One of those who put it has it in a fact."""
        if self._unnamed[ref] <= 1:
            del self._unnamed[ref]
        else:
            self._unnamed[ref] -= 1

    @asynccontextmanager
    async def leaving(self, ref: BlobRef) -> AsyncGenerator[bool]:
        """While this is open, nobody else puts the blob or takes it away. It is false where a fact is still to name
        it, or where somebody takes it away already: then it stays."""
        if self._unnamed[ref] or ref in self._leaving:
            yield False
            return
        over = self._leaving[ref] = asyncio.Event()
        try:
            yield True
        finally:
            del self._leaving[ref]
            over.set()


_REF = re.compile(r"sha256:([0-9a-f]{64})")

_LONG = 64 * 1024
"""In bytes, of a content whose hash is taken beside the loop."""


IsNeeded = Callable[[], Awaitable[bool]]
"""Whether a blob is needed by a fact of the log."""


class BlobStore(Protocol):
    """Bytes by the hash of what they are. The same bytes are the same blob, however often they are put."""

    async def put(self, content: bytes) -> BlobRef:
        """Keep `content`; once this returns, it is durable, and stays until a fact names it, and then for as long as
        one does. Raises Unavailable where it can't be written."""
        ...

    async def there(self, refs: Sequence[BlobRef]) -> list[BlobRef]:
        """Those of them that are there."""
        ...

    def named(self, ref: BlobRef) -> None:
        """A fact that names the blob is durable: one for each put."""
        ...

    async def remove(self, ref: BlobRef, is_needed: IsNeeded) -> bool:
        """Take the blob away unless it was put for a fact that is still to come, or `is_needed` says that there is one;
        whoever puts the same content meanwhile waits. False where it stays. Raises Unavailable where it can't be taken
        away; InputError for no reference."""
        ...

    async def get(self, ref: BlobRef) -> bytes:
        """What was put. Raises NotFound; DamagedStore where it is not that any more; InputError for no reference."""
        ...


def ref_of(content: bytes) -> BlobRef:
    """The reference that `content` has in every store."""
    return BlobRef(f"sha256:{hashlib.sha256(content).hexdigest()}")


class InMemoryBlobs:
    """A BlobStore that is gone with the process."""

    def __init__(self) -> None:
        self._content: dict[BlobRef, bytes] = {}
        self._promises = Promises()

    async def put(self, content: bytes) -> BlobRef:
        ref = ref_of(content)
        await self._promises.put(ref)
        self._content[ref] = bytes(content)
        return ref

    async def there(self, refs: Sequence[BlobRef]) -> list[BlobRef]:
        return [ref for ref in refs if ref in self._content]

    def named(self, ref: BlobRef) -> None:
        self._promises.named(ref)

    async def remove(self, ref: BlobRef, is_needed: IsNeeded) -> bool:
        _digest(ref)
        async with self._promises.leaving(ref) as may_leave:
            if not may_leave or await is_needed():
                return False
            self._content.pop(ref, None)
            return True

    async def get(self, ref: BlobRef) -> bytes:
        _digest(ref)
        try:
            return self._content[ref]
        except KeyError:
            raise _missing(ref) from None


class FileBlobs:
    """A BlobStore in a folder: `ab/cdef…`, files 0600 in folders 0700, never changed once they have their name."""

    def __init__(self, folder: Path, troubles: Troubles | None = None) -> None:
        self._folder = folder
        self._promises = Promises()
        self._troubles = troubles or Troubles()

    async def put(self, content: bytes) -> BlobRef:
        kept = bytes(content)
        ref = ref_of(kept) if len(kept) < _LONG else await asyncio.to_thread(ref_of, kept)
        await self._promises.put(ref)
        try:
            await asyncio.to_thread(self._put, ref, kept)
        except Unavailable as error:
            self._troubles.failed("blobs", error, self._probe)
            raise
        self._troubles.worked("blobs")
        return ref

    async def there(self, refs: Sequence[BlobRef]) -> list[BlobRef]:
        return await asyncio.to_thread(
            lambda: [ref for ref in refs if _REF.fullmatch(ref) and self._path(ref).exists()]
        )

    def named(self, ref: BlobRef) -> None:
        self._promises.named(ref)

    async def remove(self, ref: BlobRef, is_needed: IsNeeded) -> bool:
        path = self._path(ref)
        async with self._promises.leaving(ref) as may_leave:
            if not may_leave or await is_needed():
                return False
            # To its end, also where nobody waits for it any more: a thread does not stop in the middle.
            await uncut(asyncio.to_thread(self._remove, path))
            return True

    async def get(self, ref: BlobRef) -> bytes:
        return await asyncio.to_thread(self._get, ref)

    async def _probe(self) -> None:
        """Raise Unavailable if no blob can be written now."""

        def write() -> None:
            try:
                with TemporaryFile(dir=self._folder) as file:
                    file.write(bytes(_LONG))
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise self._unwritten(self._folder, error) from error

        await asyncio.to_thread(write)

    def _unwritten(self, folder: Path, error: OSError) -> Unavailable:
        return Unavailable(
            f"Can't write to {self._folder}: {error.strerror or error}.", hint=hint_for(folder, error=error)
        )

    def _put(self, ref: BlobRef, content: bytes) -> None:
        path = self._path(ref)
        with suppress(NotFound, DamagedStore):
            self._get(ref)
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(path, content)
            sync_folder(self._folder)  # the shard's own name
        except OSError as error:
            raise self._unwritten(path.parent, error) from error

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
            if path.parent.is_dir():
                sync_folder(path.parent)
        except OSError as error:
            raise Unavailable(
                f"{path} can't be removed: {error.strerror or error}.", hint=hint_for(path.parent, error=error)
            ) from error

    def _get(self, ref: BlobRef) -> bytes:
        path = self._path(ref)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise _missing(ref) from None
        except OSError as error:
            raise DamagedStore(f"The blob {ref} can't be read: {error}.") from error
        with open(descriptor, "rb") as file:
            content = file.read()
        if ref_of(content) != ref:
            raise DamagedStore(f"The blob {ref} is not what was put there.")
        return content

    def _path(self, ref: BlobRef) -> Path:
        return path_of(self._folder, ref)


def path_of(folder: Path, ref: BlobRef) -> Path:
    """Return the file of a blob. Raises InputError for no reference."""
    digest = _digest(ref)
    return folder / digest[:2] / digest[2:]


def _digest(ref: BlobRef) -> str:
    found = _REF.fullmatch(ref)
    if found is None:
        raise InputError(f"{ref[:80]!r} is no reference to a blob.")
    return found[1]


def _missing(ref: BlobRef) -> NotFound:
    return NotFound(f"There is no blob {ref}.")
