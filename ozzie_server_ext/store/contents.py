"""What models were sent and answered, in the log's database (docs/log-format.md): in parts, each kept once.

A request repeats the one before it, with a message or two more. Each of its parts (what comes before the messages, each
message, the rest) is stored once for its session; the request lists them, or says how it differs from an earlier one.
Keys of parts are salted by session: a text that was erased can't be guessed from them, and nobody sees that two
sessions have a text in common.
"""

import hashlib
import hmac
import os
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import chain, takewhile
from typing import NamedTuple, Protocol

import msgspec

from ozzie_server_ext.domain.errors import InputError, NotFound
from ozzie_server_ext.domain.ids import BlobRef, SessionId
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.store.blobs import FileBlobs, IsNeeded, PendingPuts, digest_of, is_ref
from ozzie_server_ext.store.log import DamagedStore
from ozzie_server_ext.store.sqlite_rows import ManyRows, insert_many

log = logger(__name__)

MOST_OF_A_PART = 1 << 20
"""The largest part; what has a larger one is a file. SQLite writes what is large twice."""
_MOST_HELD = 64 << 20
"""The most bytes that wait for their facts. More of them become files, as where many facts were refused."""
_MOST_LAST = 16 << 20
"""The most bytes of last requests, which the next ones may extend, exceeded by one request at most."""
_DEEPEST = 32
"""The most requests of which each extends the one before: all have to be looked up to read the last one."""
_SALT_BYTES = 32
_MOST_SCOPES = 10_000
_MOST_ASKED = 100
"""Contents in one question."""


class Parts(NamedTuple):
    """A content of a session. The first `keep` parts and the last `end` are those of `base`, if that is stored."""

    session_id: SessionId
    parts: tuple[bytes, ...]
    base: bytes | None = None
    keep: int = 0
    end: int = 0


class HeldContents(PendingPuts):
    """The contents that are written with the facts that name them."""

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[BlobRef, Parts] = {}
        self.bytes = 0

    def hold(self, ref: BlobRef, content: Parts) -> None:
        """Hold a content whose put was counted until a fact names it."""
        if ref not in self._held:
            self._held[ref] = content
            self.bytes += _size(content)

    def held(self, ref: BlobRef) -> Parts | None:
        """Return what to write with a fact that names it; None if it is stored already."""
        return self._held.get(ref)

    def of(self, refs: Iterable[BlobRef]) -> Mapping[bytes, Parts]:
        """Return what to write with facts that name these contents, by hash."""
        if not self._held:
            return {}
        return {digest_of(ref): held for ref in refs if (held := self._held.get(ref)) is not None}

    def named(self, ref: BlobRef) -> bool:
        is_last = super().named(ref)
        if is_last and (held := self._held.pop(ref, None)) is not None:
            self.bytes -= _size(held)
        return is_last


def _size(content: Parts) -> int:
    return sum(map(len, content.parts))


# --- in the database ------------------------------------------------------------------------------------------------


class _Listed(msgspec.Struct, omit_defaults=True):
    """The column `parts`: the ids of a content's parts, of which `keep` and `end` come from the one that it extends."""

    new: list[int]
    keep: int = 0
    end: int = 0


_CHAIN = """
WITH RECURSIVE chain (parts, extends, depth) AS (
    SELECT parts, extends, 1 FROM contents WHERE hash = :hash AND scope = :scope
    UNION ALL
    SELECT base.parts, base.extends, depth + 1
    FROM chain JOIN contents AS base ON base.hash = chain.extends AND base.scope = :scope
    WHERE depth <= :deepest
)"""
"""A content and those that it extends, in one statement: sqlite3 gives up the interpreter's lock in each, and waits to
get it back (`sqlite_rows`)."""


def is_there(connection: sqlite3.Connection) -> bool:
    """Whether the file has these tables: one that was written before them is migrated by the next start."""
    return connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'contents'").fetchone() is not None


def stored(connection: sqlite3.Connection, digests: Iterable[bytes]) -> set[bytes]:
    """Return those of the hashes under which a content is stored."""
    sql = "SELECT 1 FROM contents WHERE hash = ?"
    return {digest for digest in digests if connection.execute(sql, (digest,)).fetchone()}


def read(connection: sqlite3.Connection, digest: bytes) -> bytes | None:
    """Return a content of any session, None if there is none. Raises DamagedStore if none is what was written."""
    damage: DamagedStore | None = None
    for (scope,) in connection.execute("SELECT scope FROM contents WHERE hash = ?", (digest,)).fetchall():
        try:
            return read_of(connection, digest, scope)
        except DamagedStore as error:
            damage = error
    if damage is not None:
        raise damage
    return None


def read_of(connection: sqlite3.Connection, digest: bytes, scope: int) -> bytes:
    """Return a session's content that is there. Raises DamagedStore if it is not what was written."""
    try:
        ids = _ids(connection, digest, scope)
        sql = "SELECT id, content FROM parts WHERE id IN (SELECT value FROM json_each(?))"
        found = dict(connection.execute(sql, (dumps(ids),)))
        content = b"".join(found[each] for each in ids)
    except (LookupError, TypeError, InputError, msgspec.MsgspecError) as error:
        raise DamagedStore(f"Parts of the blob sha256:{digest.hex()} are missing.") from error
    if hashlib.sha256(content).digest() != digest:
        raise DamagedStore(f"The blob sha256:{digest.hex()} is not what was put there.")
    return content


def _ids(connection: sqlite3.Connection, digest: bytes, scope: int) -> list[int]:
    """Return the ids of the parts of a content. Raises LookupError, MsgspecError."""
    of = {"hash": digest, "scope": scope, "deepest": _DEEPEST}
    found = connection.execute(f"{_CHAIN} SELECT parts, extends FROM chain ORDER BY depth DESC", of).fetchall()
    if not found or found[0][1] is not None:
        raise LookupError(digest.hex())
    ids: list[int] = []
    for parts, _ in found:
        listed = msgspec.json.decode(parts, type=_Listed)
        if min(listed.keep, listed.end) < 0 or listed.keep + listed.end > len(ids):
            raise LookupError(digest.hex())
        ids = [*ids[: listed.keep], *listed.new, *ids[len(ids) - listed.end :]]
    return ids


def erase(connection: sqlite3.Connection, digests: Iterable[bytes]) -> None:
    """Erase contents in the open transaction, whichever sessions have them, and the parts that only they list. Raise
    DamagedStore if a list of parts can't be read."""
    gone: dict[int, set[bytes]] = {}
    for digest in digests:
        for (scope,) in connection.execute("SELECT scope FROM contents WHERE hash = ?", (digest,)):
            gone.setdefault(scope, set()).add(digest)
    for scope, of_scope in gone.items():
        _list_whole(connection, scope, of_scope)
        rows = [(digest, scope) for digest in of_scope]
        connection.executemany("DELETE FROM contents WHERE hash = ? AND scope = ?", rows)
        _erase_unlisted(connection, scope)


def _list_whole(connection: sqlite3.Connection, scope: int, gone: Set[bytes]) -> None:
    """Have the contents that stay, and extend one that goes, list all their parts themselves."""
    extending = connection.execute("SELECT hash, extends FROM contents WHERE scope = ? AND extends NOTNULL", (scope,))
    stay = [digest for digest, extends in extending if extends in gone and digest not in gone]
    with _reading(*stay):
        whole = [(_listed(_ids(connection, each, scope)), each, scope) for each in stay]
    connection.executemany("UPDATE contents SET parts = ?, extends = NULL WHERE hash = ? AND scope = ?", whole)


def _erase_unlisted(connection: sqlite3.Connection, scope: int) -> None:
    """Erase the parts that no content lists, and the scope if it has no contents any more."""
    listed: set[int] = set()
    has_contents = False
    for digest, parts in connection.execute("SELECT hash, parts FROM contents WHERE scope = ?", (scope,)):
        has_contents = True
        with _reading(digest):
            listed.update(msgspec.json.decode(parts, type=_Listed).new)
    unlisted = "DELETE FROM parts WHERE scope = ? AND id NOT IN (SELECT value FROM json_each(?))"
    connection.execute(unlisted, (scope, dumps(sorted(listed))))
    if not has_contents:
        connection.execute("DELETE FROM part_scopes WHERE id = ?", (scope,))


@contextmanager
def _reading(*digests: bytes) -> Generator[None]:
    """Raise DamagedStore for lists of parts that can't be read."""
    try:
        yield
    except (LookupError, TypeError, msgspec.MsgspecError) as error:
        which = ", ".join(f"sha256:{digest.hex()}" for digest in digests[:3])
        raise DamagedStore(f"The list of parts of a blob can't be read, of {which}.") from error


_INSERT_CONTENT = ManyRows("INSERT INTO contents (hash, scope, parts, extends)", 4)
_INSERT_PART = ManyRows("INSERT INTO parts (scope, key, content)", 3, "ON CONFLICT DO NOTHING RETURNING key, id")
_SCOPE = """
INSERT INTO part_scopes (session_id, salt) VALUES (?, ?)
ON CONFLICT (session_id) DO UPDATE SET session_id = session_id RETURNING id, salt"""


class _Placed(NamedTuple):
    """A content of the session with this number, and the keys of its parts that no other content gives it."""

    digest: bytes
    scope: int
    base: bytes | None
    keep: int
    end: int
    keys: tuple[bytes, ...]


class ContentWriter:
    """Writes contents through the connection that may write, in its open transaction. In as few statements as possible,
    as `sqlite_rows.insert_many` says why."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._scopes: dict[SessionId, tuple[int, bytes]] = {}
        self._depths: dict[tuple[bytes, int], int] = {}
        """How many contents stand for one that was written, each extending the one before; by hash and scope."""

    def write(self, contents: Iterable[tuple[bytes, Parts]]) -> None:
        """Write contents by their hashes. One that its session has already is the same."""
        found = [(digest, content, *self._scope(content.session_id)) for digest, content in contents]
        stored = self._stored([(digest, scope) for digest, _, scope, _ in found])
        parts: dict[bytes, tuple[int, bytes, bytes]] = {}
        placed: list[_Placed] = []
        for digest, content, scope, salt in found:
            if (digest, scope) not in stored:
                placed.append(self._place(digest, content, scope, salt, parts))
        ids = self._write_parts(parts)
        rows = [
            (each.digest, each.scope, _listed([ids[key] for key in each.keys], each.keep, each.end), each.base)
            for each in placed
        ]
        insert_many(self._connection, _INSERT_CONTENT, rows)

    def expect_whole(self, digest: bytes, session_id: SessionId) -> None:
        """Raise DamagedStore if a content that was written, now or before, can't be read back."""
        read_of(self._connection, digest, self._scope(session_id)[0])

    def forget(self) -> None:
        """Drop what was not committed."""
        self._scopes.clear()
        self._depths.clear()

    def _stored(self, wanted: Sequence[tuple[bytes, int]]) -> set[tuple[bytes, int]]:
        """Return those of the contents, by hash and scope, that are stored."""
        found: set[tuple[bytes, int]] = set()
        for begin in range(0, len(wanted), _MOST_ASKED):
            some = wanted[begin : begin + _MOST_ASKED]
            values = ", ".join(["(?, ?)"] * len(some))
            sql = f"SELECT hash, scope FROM contents WHERE (hash, scope) IN (VALUES {values})"
            found.update(self._connection.execute(sql, [*chain.from_iterable(some)]).fetchall())
        return found

    def _place(
        self, digest: bytes, content: Parts, scope: int, salt: bytes, parts: dict[bytes, tuple[int, bytes, bytes]]
    ) -> _Placed:
        """Find what a content extends, and add its own parts to `parts`, by key."""
        base, keep, end = content.base, content.keep, content.end
        depth = 0 if base is None else self._depth(base, scope)
        if not 0 < depth <= _DEEPEST:
            base, depth, keep, end = None, 0, 0, 0
        keys: list[bytes] = []
        for part in content.parts[keep : len(content.parts) - end]:
            key = hmac.digest(salt, part, "sha256")
            parts[key] = (scope, key, part)
            keys.append(key)
        if len(self._depths) >= _MOST_SCOPES:
            self._depths.clear()
        self._depths[digest, scope] = depth + 1
        return _Placed(digest, scope, base, keep, end, tuple(keys))

    def _depth(self, digest: bytes, scope: int) -> int:
        """Return how many contents stand for one; 0 if it is not stored: its fact may have been refused."""
        known = self._depths.get((digest, scope))
        if known is not None:
            return known
        of = {"hash": digest, "scope": scope, "deepest": _DEEPEST}
        sql = f"{_CHAIN} SELECT depth, extends FROM chain ORDER BY depth DESC LIMIT 1"
        row = self._connection.execute(sql, of).fetchone()
        if row is None:
            return 0
        return row[0] if row[1] is None else _DEEPEST + 1

    def _write_parts(self, parts: Mapping[bytes, tuple[int, bytes, bytes]]) -> dict[bytes, int]:
        """Write the parts that are not there yet; return the numbers of all, by key."""
        ids = dict(insert_many(self._connection, _INSERT_PART, [*parts.values()]))
        for key in parts.keys() - ids.keys():  # it is there
            ids[key] = self._connection.execute("SELECT id FROM parts WHERE key = ?", (key,)).fetchone()[0]
        return ids

    def _scope(self, session_id: SessionId) -> tuple[int, bytes]:
        """Return the number and the salt of a session."""
        known = self._scopes.get(session_id)
        if known is None:
            known = self._connection.execute(_SCOPE, (session_id, os.urandom(_SALT_BYTES))).fetchone()
            if len(self._scopes) >= _MOST_SCOPES:
                self._scopes.clear()
            self._scopes[session_id] = known
        return known


def _listed(new: list[int], keep: int = 0, end: int = 0) -> str:
    return msgspec.json.encode(_Listed(new, keep, end)).decode()


# --- as a blob store ------------------------------------------------------------------------------------------------


class ContentLog(Protocol):
    """The part of a `SqliteEventLog` that keeps contents."""

    @property
    def contents(self) -> HeldContents: ...

    async def content(self, digest: bytes) -> bytes | None: ...

    async def contents_there(self, digests: Sequence[bytes]) -> set[bytes]: ...


class _Last(msgspec.Struct, frozen=True):
    digest: bytes
    parts: tuple[bytes, ...]
    size: int


class LastRequests:
    """The last requests, each of a session and kind, as far as memory allows: the next one may extend it."""

    def __init__(self) -> None:
        self._last: dict[tuple[SessionId, str], _Last] = {}
        self._bytes = 0

    def extended(self, digest: bytes, parts: tuple[bytes, ...], session_id: SessionId, kind: str) -> Parts:
        """Return a request as an extension of the last one, if most parts are the same. It is the last one now; if it
        is never written, what extends it is written whole."""
        last = self._last.pop((session_id, kind), None)
        request = Parts(session_id, parts)
        if last is not None:
            self._bytes -= last.size
            keep = _common(parts, last.parts)
            end = _common(parts[keep:][::-1], last.parts[keep:][::-1])
            if last.digest != digest and keep + end >= len(parts) // 2:
                request = Parts(session_id, parts, last.digest, keep, end)
        size = _size(request)
        self._last[session_id, kind] = _Last(digest, parts, size)
        self._bytes += size
        while self._bytes > _MOST_LAST and len(self._last) > 1:
            self._bytes -= self._last.pop(next(iter(self._last))).size
        return request

    def forget(self, sessions: Collection[SessionId]) -> None:
        """Drop the last requests of these sessions."""
        for key in [key for key in self._last if key[0] in sessions]:
            self._bytes -= self._last.pop(key).size


def _common(some: Sequence[bytes], others: Sequence[bytes]) -> int:
    """Return how many parts at the beginning are equal."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(some, others, strict=False)))


class DatabaseBlobs:
    """A BlobStore in the database of a log and in files."""

    def __init__(self, event_log: ContentLog, files: FileBlobs) -> None:
        self._log = event_log
        self._held = event_log.contents
        self._files = files
        self._last = LastRequests()
        self._is_overfull = False

    async def put(self, content: bytes) -> BlobRef:
        return await self._files.put(content)

    async def put_parts(self, parts: Sequence[bytes], session_id: SessionId, kind: str = "") -> BlobRef:
        if max(map(len, parts)) > MOST_OF_A_PART or not self._has_room():
            return await self._files.put(b"".join(parts))
        digest = hashlib.sha256(b"".join(parts))  # at once: each call lets other threads in, and waits for them
        content = Parts(session_id, tuple(parts))
        if kind:
            content = self._last.extended(digest.digest(), content.parts, session_id, kind)
        ref = BlobRef(f"sha256:{digest.hexdigest()}")
        await self._held.put(ref)
        self._held.hold(ref, content)
        return ref

    def _has_room(self) -> bool:
        was_overfull, self._is_overfull = self._is_overfull, self._held.bytes > _MOST_HELD
        if self._is_overfull and not was_overfull:
            log.warning("more than 64 MiB of requests wait to be recorded; further ones are kept as files meanwhile")
        return not self._is_overfull

    async def there(self, refs: Sequence[BlobRef]) -> list[BlobRef]:
        held = {ref for ref in refs if self._held.held(ref) is not None}  # first: it becomes a row at any moment
        files = await self._files.there(refs)
        digests = {ref: digest_of(ref) for ref in refs if is_ref(ref)}
        rows = await self._log.contents_there([*digests.values()])
        return [ref for ref in refs if ref in held or ref in files or digests.get(ref) in rows]

    def named(self, ref: BlobRef) -> None:
        if self._held.held(ref) is None:
            self._files.named(ref)
        else:
            self._held.named(ref)

    async def remove(self, ref: BlobRef, is_needed: IsNeeded) -> bool:
        """Remove a blob that is a file. What models were sent and answered stays."""
        return await self._files.remove(ref, is_needed)

    def forget(self, sessions: Collection[SessionId]) -> None:
        """Drop what is kept in memory of the requests of these sessions, which were erased."""
        self._last.forget(sessions)

    async def remove_unneeded(self, needed: Callable[[Sequence[BlobRef]], Awaitable[Set[BlobRef]]]) -> set[BlobRef]:
        """See `FileBlobs.remove_unneeded`."""
        return await self._files.remove_unneeded(needed)

    async def get(self, ref: BlobRef) -> bytes:
        digest = digest_of(ref)
        if (held := self._held.held(ref)) is not None:
            return b"".join(held.parts)
        found = await self._log.content(digest)
        if found is None:
            try:
                return await self._files.get(ref)
            except NotFound:  # a file may have become a row meanwhile (`store.compacting`)
                found = await self._log.content(digest)
                if found is None:
                    raise
        return found
