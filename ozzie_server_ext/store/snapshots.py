"""Stored snapshots of conversations: a cache beside the log (docs/adr/0061-snapshots.md).

A forged one could drop the labels of what a session has read. So each is authenticated by an HMAC-SHA256 with the key
of the log's anchor, over the one before it in its series and the hash of the event at its position, which stands for
all events up to there. Whatever does not fit is not used.
"""

import asyncio
import hashlib
import hmac
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store import sqlite_events
from ozzie_server_ext.store.anchor import read_key

log = logger(__name__)

FORMAT = "3"
"""Raise it when a conversation's fold or the form of a snapshot (`agent.snapshot`) changes: others are not used."""

_SIGNED = b"ozzie snapshot\0"


class Snapshots(Protocol):
    """Snapshots of sessions, each session's in order."""

    async def read(self, session_id: SessionId, *, before: int | None = None) -> Sequence[bytes]:
        """Return the contents of the session's snapshots at positions below `before`, the oldest first; none if they
        can't be trusted or used."""
        ...

    async def add(self, session_id: SessionId, content: bytes, *, position: int, after: int) -> bool:
        """Store a snapshot behind that at position `after`, or as the only one if that is 0. Return whether it was:
        another one may be the last, or something was erased meanwhile."""
        ...


class NoSnapshots(Snapshots):
    """For logs without any."""

    async def read(self, session_id: SessionId, *, before: int | None = None) -> Sequence[bytes]:
        return ()

    async def add(self, session_id: SessionId, content: bytes, *, position: int, after: int) -> bool:
        return False


class StoresSnapshots(Protocol):
    """The part of a `SqliteEventLog` that is needed here."""

    async def sessions_with_snapshots(self) -> set[SessionId]: ...

    async def snapshots(self, session_id: SessionId, before: int | None, key: bytes) -> Sequence[bytes] | None: ...

    async def add_snapshot(
        self, session_id: SessionId, content: bytes, *, position: int, after: int, key: bytes
    ) -> bool: ...


class SignedSnapshots(Snapshots):
    """Those in the log's database. Without the anchor's key there are none."""

    def __init__(self, store: StoresSnapshots, key_file: Callable[[], Path]) -> None:
        self._store = store
        self._key_file = key_file
        self._sessions: set[SessionId] | None = None
        """Those with snapshots. Most sessions are short, and their first turn should not look for any."""

    async def read(self, session_id: SessionId, *, before: int | None = None) -> Sequence[bytes]:
        if self._sessions is None:
            self._sessions = await self._store.sessions_with_snapshots()
        if session_id not in self._sessions or (key := await self._key()) is None:
            return ()
        found = await self._store.snapshots(session_id, before, key)
        if found is None:
            log.warning("its snapshots were changed, so it is read from the log", extra={"session_id": session_id})
            return ()
        return await asyncio.to_thread(lambda: [zlib.decompress(each) for each in found])

    async def add(self, session_id: SessionId, content: bytes, *, position: int, after: int) -> bool:
        key = await self._key()
        if key is None:
            return False
        compressed = await asyncio.to_thread(zlib.compress, content)
        added = await self._store.add_snapshot(session_id, compressed, position=position, after=after, key=key)
        if added and self._sessions is not None:
            self._sessions.add(session_id)
        return added

    async def _key(self) -> bytes | None:
        try:
            return await asyncio.to_thread(lambda: read_key(self._key_file()))
        except Unavailable:
            return None  # the anchor reports it


def sessions(connection: sqlite3.Connection) -> set[SessionId]:
    """Return the sessions with snapshots."""
    return {SessionId(each) for (each,) in connection.execute("SELECT DISTINCT session_id FROM snapshots")}


def read(
    connection: sqlite3.Connection, session_id: SessionId, before: int | None, key: bytes
) -> Sequence[bytes] | None:
    """Return the contents of a session's snapshots at positions below `before`: none if something was erased after the
    first of them, and None if one is forged."""
    sql = """
        SELECT s.position, s.content, s.mac, e.hash FROM snapshots AS s LEFT JOIN events AS e USING (position)
        WHERE s.session_id = ? AND s.format = ? AND s.position < ifnull(?, s.position + 1) ORDER BY s.position"""
    rows = connection.execute(sql, (session_id, FORMAT, before)).fetchall()
    if rows and sqlite_events.has_erasure_after(connection, rows[0][0]):
        return ()
    found: list[bytes] = []
    last = b""
    for position, content, mac, event_hash in rows:
        last = _mac(key, session_id, position, event_hash or "", last, content)
        if not hmac.compare_digest(last, mac):
            return None
        found.append(content)
    return found


def add(
    connection: sqlite3.Connection, session_id: SessionId, content: bytes, *, position: int, after: int, key: bytes
) -> bool:
    """Store a snapshot behind that at position `after`, or as the only one if that is 0, in the open transaction.
    Return whether it was: another one may be the last."""
    if not after:
        connection.execute("DELETE FROM snapshots WHERE session_id = ?", (session_id,))
    sql = "SELECT position, mac FROM snapshots WHERE session_id = ? AND format = ? ORDER BY position DESC LIMIT 1"
    last, before = connection.execute(sql, (session_id, FORMAT)).fetchone() or (0, b"")
    event_hash = sqlite_events.hash_at(connection, position)
    if last != after or event_hash is None:
        return False
    mac = _mac(key, session_id, position, event_hash, before, content)
    connection.execute(
        "INSERT INTO snapshots (session_id, position, format, content, mac) VALUES (?, ?, ?, ?, ?)",
        (session_id, position, FORMAT, content, mac),
    )
    return True


def forget_all(connection: sqlite3.Connection) -> None:
    """Delete all snapshots, in the open transaction."""
    connection.execute("DELETE FROM snapshots")


def _mac(key: bytes, session_id: SessionId, position: int, event_hash: str, before: bytes, content: bytes) -> bytes:
    signed = canonical_bytes([FORMAT, session_id, position, event_hash, before.hex()])
    return hmac.new(key, _SIGNED + signed + b"\0" + content, hashlib.sha256).digest()
