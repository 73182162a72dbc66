"""The contents of a replay: those of the record can be read, and new ones are kept in memory."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.ids import BlobRef, SessionId
from ozzie_server_ext.replay.record import Record
from ozzie_server_ext.store.blobs import InMemoryBlobs, ref_of

_MOST_SENT = 64
"""Requests that are kept: each is compared soon, and a session sends thousands."""


class ReplayBlobs(InMemoryBlobs):
    """See the module."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self._record = record
        self._sent: OrderedDict[BlobRef, bytes] = OrderedDict()

    def know(self, contents: Iterable[bytes]) -> None:
        """Keep contents that the record does not have."""
        self._content |= {ref_of(content): content for content in contents}

    async def put_parts(self, parts: Sequence[bytes], session_id: SessionId, kind: str = "") -> BlobRef:
        content = b"".join(parts)
        ref = ref_of(content)
        self._sent[ref] = content
        if len(self._sent) > _MOST_SENT:
            self._sent.popitem(last=False)
        return ref

    def find(self, ref: BlobRef) -> bytes | None:
        """Return a content of the record, or one that was put lately; None if there is none."""
        return self._sent.get(ref) or self._content.get(ref) or self._record.find(ref)

    async def there(self, refs: Sequence[BlobRef]) -> list[BlobRef]:
        return [ref for ref in refs if self.find(ref) is not None]

    async def get(self, ref: BlobRef) -> bytes:
        found = self.find(ref)
        if found is None:
            raise NotFound(f"There is no blob {ref}.")
        return found
