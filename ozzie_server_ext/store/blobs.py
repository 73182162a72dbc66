"""Content-addressed storage for what is too large for an event, verified on every read.

Most blobs are files. A file is removed only if no fact needs it, after the fact that says so. What models were sent and
answered is in the log's database (`store.contents`) and stays.
"""

import asyncio
import hashlib
import os
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence, Set
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryFile
from typing import Protocol

from ozzie_server_ext.config.files import TEMPORARY, replace_file, sync_folder
from ozzie_server_ext.domain.disk import hint_for
from ozzie_server_ext.domain.errors import InputError, NotFound, Unavailable
from ozzie_server_ext.domain.ids import BlobRef, SessionId
from ozzie_server_ext.store.log import DamagedStore
from ozzie_server_ext.store.shielded import shielded
from ozzie_server_ext.store.troubles import Troubles


class PendingPuts:
    """The puts of one blob store that no fact names yet, on one event loop. A put that no fact follows counts until the
    process ends: its blob is kept longer than needed, never shorter."""

    def __init__(self) -> None:
        self._unnamed: Counter[BlobRef] = Counter()
        self._leaving: dict[BlobRef, asyncio.Event] = {}

    async def put(self, ref: BlobRef) -> None:
        """Count a put whose fact is still to come. Waits while the blob is being removed."""
        self._unnamed[ref] += 1
        while (leaving := self._leaving.get(ref)) is not None:
            await leaving.wait()

    def named(self, ref: BlobRef) -> bool:
        """Uncount one put: a fact names the blob now. Return whether it was the last one."""
        if self._unnamed[ref] <= 1:
            del self._unnamed[ref]
            return True
        self._unnamed[ref] -= 1
        return False

    @asynccontextmanager
    async def removing(self, ref: BlobRef) -> AsyncGenerator[bool]:
        """While open, nobody else puts or removes the blob. Yields False if it has to stay: a fact is still to name it,
        or it is being removed already."""
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
"""Content of so many bytes or more is hashed in a thread."""

IsNeeded = Callable[[], Awaitable[bool]]
"""Whether a fact of the log needs a blob."""


class BlobStore(Protocol):
    """Bytes by their hash. Equal bytes are one blob, however often they are put."""

    async def put(self, content: bytes) -> BlobRef:
        """Store `content` durably. It stays until a fact names it, then as long as one does. Raises Unavailable."""
        ...

    async def put_parts(self, parts: Sequence[bytes], session_id: SessionId, kind: str = "") -> BlobRef:
        """Keep what a model of this session was sent or answered, as one blob: it becomes durable together with the
        first fact that names it. Equal blobs must have equal parts. Of a request, `kind` says which others of the
        session have most parts in common with it. Raises Unavailable."""
        ...

    async def there(self, refs: Sequence[BlobRef]) -> list[BlobRef]:
        """Return those of `refs` that exist."""
        ...

    def named(self, ref: BlobRef) -> None:
        """Note that a durable fact names the blob: once for each put."""
        ...

    async def remove(self, ref: BlobRef, is_needed: IsNeeded) -> bool:
        """Remove the blob unless a put's fact is still to come or `is_needed` returns True; puts of the same content
        wait meanwhile. Return whether it was removed. Raises Unavailable; InputError for a bad reference."""
        ...

    async def get(self, ref: BlobRef) -> bytes:
        """Return the content. Raises NotFound; DamagedStore if it was changed; InputError for a bad reference."""
        ...


def ref_of(content: bytes) -> BlobRef:
    """Return the reference of `content`, the same in every store."""
    return BlobRef(f"sha256:{hashlib.sha256(content).hexdigest()}")


class InMemoryBlobs:
    """A BlobStore in memory."""

    def __init__(self) -> None:
        self._content: dict[BlobRef, bytes] = {}
        self._pending = PendingPuts()

    async def put(self, content: bytes) -> BlobRef:
        ref = ref_of(content)
        await self._pending.put(ref)
        self._content[ref] = bytes(content)
        return ref

    async def put_parts(self, parts: Sequence[bytes], session_id: SessionId, kind: str = "") -> BlobRef:
        return await self.put(b"".join(parts))

    async def there(self, refs: Sequence[BlobRef]) -> list[BlobRef]:
        return [ref for ref in refs if ref in self._content]

    def named(self, ref: BlobRef) -> None:
        self._pending.named(ref)

    async def remove(self, ref: BlobRef, is_needed: IsNeeded) -> bool:
        _digest(ref)
        async with self._pending.removing(ref) as may_remove:
            if not may_remove or await is_needed():
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
    """A BlobStore in a folder: immutable files `ab/cdef…`, mode 0600, in folders of mode 0700."""

    def __init__(self, folder: Path, troubles: Troubles | None = None) -> None:
        self._folder = folder
        self._pending = PendingPuts()
        self._troubles = troubles or Troubles()
        self._temporary = f"{TEMPORARY}{token_hex(8)}-"
        """How the files begin that this process writes; others that begin with `TEMPORARY` were left by a crash."""

    async def put(self, content: bytes) -> BlobRef:
        kept = bytes(content)
        ref = ref_of(kept) if len(kept) < _LONG else await asyncio.to_thread(ref_of, kept)
        await self._pending.put(ref)
        try:
            await asyncio.to_thread(self._put, ref, kept)
        except Unavailable as error:
            self._troubles.failed("blobs", error, self._probe)
            raise
        self._troubles.worked("blobs")
        return ref

    async def put_parts(self, parts: Sequence[bytes], session_id: SessionId, kind: str = "") -> BlobRef:
        return await self.put(b"".join(parts))

    async def there(self, refs: Sequence[BlobRef]) -> list[BlobRef]:
        return await asyncio.to_thread(
            lambda: [ref for ref in refs if is_ref(ref) and path_of(self._folder, ref).exists()]
        )

    def named(self, ref: BlobRef) -> None:
        self._pending.named(ref)

    async def remove(self, ref: BlobRef, is_needed: IsNeeded) -> bool:
        path = path_of(self._folder, ref)
        async with self._pending.removing(ref) as may_remove:
            if not may_remove or await is_needed():
                return False
            # A thread can't be stopped midway, so wait for it even if nobody waits for us.
            await shielded(asyncio.to_thread(self._remove, path))
            return True

    async def remove_unneeded(self, needed: Callable[[Sequence[BlobRef]], Awaitable[Set[BlobRef]]]) -> set[BlobRef]:
        """Remove all blobs that no fact needs, and what a crash left of puts; `needed` returns those that one needs.
        Return those that stay although none needs them, as a put's fact is still to come. Raises Unavailable."""
        held: set[BlobRef] = set()

        async def is_needed(ref: BlobRef) -> bool:
            return ref in await needed([ref])

        for folder in await asyncio.to_thread(lambda: sorted(self._folder.glob("[0-9a-f][0-9a-f]"))):
            refs, left = await asyncio.to_thread(self._entries, folder)
            for ref in set(refs) - await needed(refs):
                if not await self.remove(ref, partial(is_needed, ref)):
                    held.add(ref)
            for path in left:
                await asyncio.to_thread(self._remove, path)
        return held

    async def get(self, ref: BlobRef) -> bytes:
        return await asyncio.to_thread(read_file, self._folder, ref)

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
        path = path_of(self._folder, ref)
        with suppress(NotFound, DamagedStore):
            read_file(self._folder, ref)
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(path, content, prefix=self._temporary)
            sync_folder(self._folder)  # for the entry of the subfolder
        except OSError as error:
            raise self._unwritten(path.parent, error) from error

    def _entries(self, folder: Path) -> tuple[list[BlobRef], list[Path]]:
        """Return the blobs in a subfolder, and what a crash left there of puts. Raises Unavailable."""
        refs: list[BlobRef] = []
        left: list[Path] = []
        try:
            for path in folder.iterdir():
                if is_ref(ref := f"sha256:{folder.name}{path.name}"):
                    refs.append(BlobRef(ref))
                elif path.name.startswith(TEMPORARY) and not path.name.startswith(self._temporary):
                    left.append(path)
        except OSError as error:
            raise Unavailable(f"{folder} can't be read: {error.strerror or error}.", hint=hint_for(folder)) from error
        return refs, left

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
            if path.parent.is_dir():
                sync_folder(path.parent)
        except OSError as error:
            raise Unavailable(
                f"{path} can't be removed: {error.strerror or error}.", hint=hint_for(path.parent, error=error)
            ) from error


def read_file(folder: Path, ref: BlobRef) -> bytes:
    """Return a blob that is a file. Raises like `BlobStore.get`."""
    path = path_of(folder, ref)
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


def path_of(folder: Path, ref: BlobRef) -> Path:
    """Return the file of a blob. Raises InputError for a bad reference."""
    digest = _digest(ref)
    return folder / digest[:2] / digest[2:]


def is_ref(text: str) -> bool:
    return _REF.fullmatch(text) is not None


def digest_of(ref: BlobRef) -> bytes:
    """Return the hash in a reference. Raises InputError for a bad one."""
    return bytes.fromhex(_digest(ref))


def _digest(ref: BlobRef) -> str:
    found = _REF.fullmatch(ref)
    if found is None:
        raise InputError(f"{ref[:80]!r} is not a reference to a blob.")
    return found[1]


def _missing(ref: BlobRef) -> NotFound:
    return NotFound(f"There is no blob {ref}.")
