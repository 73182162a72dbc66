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


async def nobody() -> bool:
    return False


async def somebody() -> bool:
    return True


async def put_and_named(blobs: BlobStore, content: bytes) -> BlobRef:
    """As where a fact that names it is durable."""
    ref = await blobs.put(content)
    blobs.named(ref)
    return ref


async def test_what_nobody_needs_can_be_removed_and_put_again(blobs: BlobStore) -> None:
    ref = await put_and_named(blobs, b"gone")
    other = await put_and_named(blobs, b"other")

    assert await blobs.remove(ref, nobody)
    assert await blobs.remove(ref, nobody), "a second time, there is nothing to do"

    assert await blobs.there([ref, other]) == [other]
    with pytest.raises(NotFound):
        await blobs.get(ref)
    assert await blobs.get(await blobs.put(b"gone")) == b"gone"


async def test_what_a_fact_needs_stays(blobs: BlobStore) -> None:
    ref = await put_and_named(blobs, b"needed")

    assert not await blobs.remove(ref, somebody)
    assert await blobs.get(ref) == b"needed"


async def test_what_was_put_for_a_fact_that_is_still_to_come_stays_until_it_has_come_for_each_put(
    blobs: BlobStore,
) -> None:
    ref = await put_and_named(blobs, b"wanted")
    await asyncio.gather(blobs.put(b"wanted"), blobs.put(b"wanted"))

    assert not await blobs.remove(ref, nobody)
    blobs.named(ref)
    assert not await blobs.remove(ref, nobody)
    assert await blobs.get(ref) == b"wanted"
    blobs.named(ref)
    assert await blobs.remove(ref, nobody)


async def test_who_puts_what_is_on_its_way_out_has_it_back(blobs: BlobStore) -> None:
    ref = await put_and_named(blobs, b"both")
    asked, answer = asyncio.Event(), asyncio.Event()

    async def in_doubt() -> bool:
        asked.set()
        await answer.wait()
        return False

    removing = asyncio.ensure_future(blobs.remove(ref, in_doubt))
    await asked.wait()
    putting = asyncio.ensure_future(blobs.put(b"both"))
    other = await blobs.put(b"other")  # nobody else waits
    assert not await blobs.remove(ref, nobody), "it is being removed already"
    assert not putting.done()
    answer.set()

    assert await removing
    assert await putting == ref
    assert await blobs.get(ref) == b"both"
    assert await blobs.get(other) == b"other"


@pytest.mark.parametrize("ref", ["", "sha256:../../etc/passwd", "sha256:" + "A" * 64])
async def test_only_a_reference_is_removed(blobs: BlobStore, ref: str) -> None:
    with pytest.raises(InputError):
        await blobs.remove(BlobRef(ref), nobody)
    assert await blobs.there([BlobRef(ref)]) == []
