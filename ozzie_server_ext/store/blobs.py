"""Content by its address: what is too large for an event, kept once and checked whenever it is read."""

import asyncio
import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from ozzie_server_ext.config.files import replace_file, sync_folder
from ozzie_server_ext.domain.errors import InputError, NotFound, Unavailable
from ozzie_server_ext.domain.ids import BlobRef
from ozzie_server_ext.store.log import DamagedStore

_REF = re.compile(r"sha256:([0-9a-f]{64})")


class BlobStore(Protocol):
    """Bytes by the hash of what they are. The same bytes are the same blob, however often they are put."""

    async def put(self, content: bytes) -> BlobRef:
        """Keep `content`; once this returns, it is durable. Raises Unavailable where it can't be written."""
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

    async def put(self, content: bytes) -> BlobRef:
        ref = ref_of(content)
        self._content[ref] = bytes(content)
        return ref

    async def get(self, ref: BlobRef) -> bytes:
        _digest(ref)
        try:
            return self._content[ref]
        except KeyError:
            raise _missing(ref) from None


class FileBlobs:
    """A BlobStore in a folder: `ab/cdef…`, files 0600 in folders 0700, never changed once they have their name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, content: bytes) -> BlobRef:
        return await asyncio.to_thread(self._put, bytes(content))

    async def get(self, ref: BlobRef) -> bytes:
        return await asyncio.to_thread(self._get, ref)

    def _put(self, content: bytes) -> BlobRef:
        ref = ref_of(content)
        path = self._path(ref)
        with suppress(NotFound, DamagedStore):
            self._get(ref)
            return ref
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(path, content)
            sync_folder(self._folder)  # the shard's own name
        except OSError as error:
            raise Unavailable(
                f"Can't write to {self._folder}: {error}.", hint="Check the disk and the folder's permissions."
            ) from error
        return ref

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
        digest = _digest(ref)
        return self._folder / digest[:2] / digest[2:]


def _digest(ref: BlobRef) -> str:
    found = _REF.fullmatch(ref)
    if found is None:
        raise InputError(f"{ref[:80]!r} is no reference to a blob.")
    return found[1]


def _missing(ref: BlobRef) -> NotFound:
    return NotFound(f"There is no blob {ref}.")
