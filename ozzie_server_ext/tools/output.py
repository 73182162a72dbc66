"""Keeping large results out of the conversation: the whole goes to a blob, the head and a note to the model (TL-5)."""

from ozzie_server_ext.domain.ids import BlobRef
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.blobs import BlobStore


async def compact(data: Json, *, max_chars: int, blobs: BlobStore) -> tuple[Json, BlobRef | None]:
    """`data` as it may go into the log and the conversation, and where the whole lies if that was too much."""
    raw = canonical_bytes(data)
    if len(raw) <= max_chars:
        return data, None
    text = raw.decode()
    if len(text) <= max_chars:
        return data, None
    ref = await blobs.put(raw)
    return {"cut": True, "head": text[:max_chars], "total_chars": len(text)}, ref
