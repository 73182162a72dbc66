"""What every blob store promises (`store.blobs.BlobStore`), over each adapter."""

import asyncio
import hashlib

import pytest

from ozzie_server_ext.domain.errors import InputError, NotFound
from ozzie_server_ext.domain.ids import BlobRef
from ozzie_server_ext.store.blobs import BlobStore


@pytest.mark.parametrize("content", [b"", b"hello", bytes(range(256)) * 5000], ids=["empty", "text", "large"])
async def test_what_was_put_is_got_back_under_its_hash(blobs: BlobStore, content: bytes) -> None:
    ref = await blobs.put(content)
    assert ref == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert await blobs.get(ref) == content


async def test_putting_the_same_again_gives_the_same_reference(blobs: BlobStore) -> None:
    refs = await asyncio.gather(*[blobs.put(b"same") for _ in range(8)])
    assert len(set(refs)) == 1
    assert await blobs.get(refs[0]) == b"same"


async def test_what_was_never_put_is_not_found(blobs: BlobStore) -> None:
    with pytest.raises(NotFound):
        await blobs.get(BlobRef("sha256:" + "0" * 64))


@pytest.mark.parametrize("ref", ["", "sha256:../../etc/passwd", "sha256:" + "A" * 64, "md5:" + "0" * 64, "0" * 64])
async def test_only_a_reference_is_taken_for_one(blobs: BlobStore, ref: str) -> None:
    with pytest.raises(InputError):
        await blobs.get(BlobRef(ref))
