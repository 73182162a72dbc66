"""Moves what models were sent and answered, which an earlier Ozzie kept as files, into the log's database (`ozzie store
compact`).

Each step is one transaction, and its files are removed once the rows are known to give them back. So after a crash at
any point each blob is a row, a file, or both, and the next try goes on. A gateway may run meanwhile: it looks for a row
first, then for a file.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound
from ozzie_server_ext.domain.events import Event, ModelCallCompleted, ModelCallFailed, ModelCallStarted
from ozzie_server_ext.domain.ids import BlobRef, SessionId
from ozzie_server_ext.protocol.jsontext import canonical_parts, loads_object, parts_around
from ozzie_server_ext.store import contents, erasing, sqlite_events
from ozzie_server_ext.store.blobs import digest_of, path_of, read_file
from ozzie_server_ext.store.contents import MOST_OF_A_PART, ContentWriter, LastRequests, Parts
from ozzie_server_ext.store.database import FAILURES, open_readable, open_writable, unusable
from ozzie_server_ext.store.log import DamagedStore

_PAGE = 200
_STEP_BYTES = 8 << 20
"""The most bytes of files in one transaction, exceeded by one at most. A running gateway waits for it."""
_TYPES = frozenset({ModelCallStarted.type, ModelCallCompleted.type, ModelCallFailed.type})


class Compacted(msgspec.Struct, frozen=True):
    """How many files became rows, their bytes, and the bytes that the rows have. `damaged`: files that are not what
    was put there, and stay."""

    files: int
    before: int
    after: int
    damaged: tuple[BlobRef, ...]


def compact(database: Path, blobs: Path) -> Compacted:
    """Compact a home. Raises like `open_readable` and `open_writable`; Conflict if no present version has opened it."""
    with closing(open_readable(database)) as connection:
        if not contents.is_there(connection):  # an older gateway that runs would miss its files
            raise Conflict("An older Ozzie made this folder.", hint="Start Ozzie once, then try again.")
    try:
        with closing(open_writable(database)) as connection:
            return _Compaction(connection, blobs).run()
    except FAILURES as error:
        raise unusable(error, database) from error


class _Compaction:
    def __init__(self, connection: sqlite3.Connection, blobs: Path) -> None:
        self._connection = connection
        self._blobs = blobs
        self._writer = ContentWriter(connection)
        self._last = LastRequests()
        self._files = self._bytes = 0
        self._damaged: dict[BlobRef, None] = {}
        self._checked = sqlite_events.head(connection).position
        self._repeating = erasing.repeating_blobs(connection)

    def run(self) -> Compacted:
        before = self._stored()
        step: dict[BlobRef, Parts] = {}
        size = 0
        for ref, session_id, kind in self._named():
            if ref in step:
                continue
            found = self._in_parts(ref, session_id, kind)
            if found is not None:
                step[ref] = found
                size += sum(map(len, found.parts))
            if size > _STEP_BYTES:
                self._move(step)
                step, size = {}, 0
        self._move(step)
        return Compacted(self._files, self._bytes, self._stored() - before, tuple(self._damaged))

    def _stored(self) -> int:
        """Return about how many bytes the rows have."""
        of_contents = "SELECT coalesce(sum(2 * length(hash) + length(parts)), 0) FROM contents"
        of_parts = "SELECT coalesce(sum(2 * length(key) + length(content)), 0) FROM parts"
        return sum(self._connection.execute(sql).fetchone()[0] for sql in (of_contents, of_parts))

    def _named(self) -> Iterator[tuple[BlobRef, SessionId, str]]:
        """Yield the blobs of all calls in order, so that each request may extend the one before it: reference, session,
        and the purpose of a request, or "" for an answer."""
        after = 0
        while page := sqlite_events.read(self._connection, after=after, limit=_PAGE, types=_TYPES):
            after = page[-1].position
            for event in page:
                ref, kind = _blob_of(event)
                if ref and event.session_id is not None:
                    yield ref, event.session_id, kind

    def _in_parts(self, ref: BlobRef, session_id: SessionId, kind: str) -> Parts | None:
        """Return the parts of a blob that is a file; None if it is none, or too large, or not what was put there."""
        try:
            document = read_file(self._blobs, ref)
        except NotFound:
            return None
        except DamagedStore:
            self._damaged[ref] = None
            return None
        parts = _parts_of(document)
        if max(map(len, parts)) > MOST_OF_A_PART:
            return None
        return self._last.extended(digest_of(ref), parts, session_id, kind) if kind else Parts(session_id, parts)

    def _move(self, step: dict[BlobRef, Parts]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._follow_erasures()
            step = {
                ref: found for ref, found in step.items() if erasing.is_needed(self._connection, ref, self._repeating)
            }
            self._writer.write((digest_of(ref), content) for ref, content in step.items())
            for ref, content in step.items():  # a row that was there already may be damaged
                self._writer.expect_whole(digest_of(ref), content.session_id)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        for ref, content in step.items():
            path_of(self._blobs, ref).unlink(missing_ok=True)
            self._files += 1
            self._bytes += sum(map(len, content.parts))

    def _follow_erasures(self) -> None:
        """Look what a gateway has erased since the last step, in the open transaction. It may be what was read from
        files since then, and the scopes of sessions."""
        if sqlite_events.has_erasure_after(self._connection, self._checked):
            self._repeating = erasing.repeating_blobs(self._connection)
            self._writer.forget()
        self._checked = sqlite_events.head(self._connection).position


def _blob_of(event: Event) -> tuple[BlobRef | None, str]:
    match event.body:
        case ModelCallStarted(request_blob=ref, purpose=purpose):
            return ref, purpose
        case ModelCallCompleted(response_blob=ref):
            return ref, ""
        case ModelCallFailed(partial_blob=ref):
            return ref, ""
        case _:
            return None, ""


def _parts_of(document: bytes) -> tuple[bytes, ...]:
    """Return the parts of a request or an answer: as they are put now, if it is canonical JSON."""
    try:
        value = loads_object(document, max_bytes=len(document))
        if "messages" in value:
            parts = canonical_parts(value, "messages", text="content")
        else:
            parts = parts_around(document, value.get("text"))
    except (InputError, ValueError):
        return (document,)
    return tuple(parts) if b"".join(parts) == document else (document,)
