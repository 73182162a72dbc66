"""The anchor: the log's head, signed with a key from outside the store (EV-6, THREATS 19).

The chain shows that something in its middle was changed, but not that its end was cut off, nor that somebody with the
database in hand computed all of it anew. The signed head beside the database shows both. What it can't show is that
database and anchor together were put back to an earlier state; nor does it cover events younger than the anchor, which
follows the log by about a second.
"""

import asyncio
import hashlib
import hmac
import logging
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from ozzie_server_ext.config.files import replace_file, sync_folder
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.log import EventLog, Head, Verification

KEY_BYTES = 32

_PREFIX = b"ozzie anchor 1\0"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A head that was signed: HMAC-SHA256 over "ozzie anchor 1\\0" and the canonical JSON of position and hash."""

    position: int
    hash: str
    signature: str

    @property
    def head(self) -> Head:
        return Head(self.position, self.hash)


def sign(head: Head, key: bytes) -> Anchor:
    signed = _PREFIX + canonical_bytes({"position": head.position, "hash": head.hash})
    return Anchor(head.position, head.hash, hmac.new(key, signed, hashlib.sha256).hexdigest())


def load_key(path: Path) -> bytes:
    """The key at `path`, which is made where there is none, for the user's eyes only.

    Raises Unavailable.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            _make_key(path)
        key = path.read_bytes()
    except OSError as error:
        raise Unavailable(f"Can't use the anchor's key: {error}.", hint="Check the folder's permissions.") from error
    if len(key) != KEY_BYTES:
        raise Unavailable(f"{path} is no key.", hint="Move it away; Ozzie then makes a new one.")
    return key


def read_anchor(path: Path, key: bytes) -> Anchor | None:
    """The anchor at `path`; None where there is none.

    Raises Unavailable where it was not signed with `key`.
    """
    try:
        anchor = msgspec.json.decode(path.read_bytes(), type=Anchor)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise _unsigned(path) from error
    if not hmac.compare_digest(sign(anchor.head, key).signature.encode(), anchor.signature.encode()):
        raise _unsigned(path)
    return anchor


def write_anchor(path: Path, anchor: Anchor) -> None:
    """Put `anchor` in the place of the one at `path`, durably; raises OSError."""
    replace_file(path, canonical_bytes(msgspec.to_builtins(anchor)))


async def verify_anchor(log: EventLog, path: Path, key: bytes) -> Verification:
    """Verify the chain, and that it still holds what was anchored: names a cut tail and a rewritten chain.

    Raises Unavailable where the anchor was not signed with `key`.
    """
    anchor = await asyncio.to_thread(read_anchor, path, key)
    if anchor is not None:
        return await log.verify(anchor=anchor.head)
    found = await log.verify()
    if not found.ok or found.events == 0:
        return found
    return replace(found, ok=False, reason=f"There is no anchor at {path}: whether the log was cut can't be told.")


class Anchoring:
    """Keeps the anchor up with the log: a while after each commit, and on closing.

    It does not touch an anchor that the log contradicts: that is the evidence.
    """

    def __init__(self, log: EventLog, path: Path, key: bytes, *, delay_s: float = 1.0) -> None:
        self._log = log
        self._path = path
        self._key = key
        self._delay_s = delay_s
        self._timer: asyncio.TimerHandle | None = None
        self._write: asyncio.Task[None] | None = None
        self._following = False

    async def start(self) -> str | None:
        """Follow the log. If it is not the one that was anchored, say why not, and do nothing further."""
        try:
            anchor = await asyncio.to_thread(read_anchor, self._path, self._key)
        except Unavailable as error:
            return str(error)
        if anchor is not None:
            end = await self._log.head()
            if anchor.position > end.position:
                return f"The log was cut: it ends at {end.position}, and event {anchor.position} was anchored."
            if await _hash_at(self._log, anchor.position, end) != anchor.hash:
                return f"The log was rewritten: event {anchor.position} is not the one that was anchored."
        self._following = True
        self._log.on_commit(self._committed)
        await self._anchor()
        return None

    def abandon(self) -> None:
        """Anchor nothing any more: the log is another gateway's, and so is the anchor."""
        self._following = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close(self) -> None:
        """Anchor the last event. To be called once the log is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._write is not None:
            await self._write
        if self._following:
            self._following = False
            await self._anchor()

    def _committed(self, events: tuple[Event, ...]) -> None:
        if self._following and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._delay_s, self._due)

    def _due(self) -> None:
        self._timer = None
        previous = self._write
        self._write = asyncio.create_task(self._after(previous))

    async def _after(self, previous: "asyncio.Task[None] | None") -> None:
        if previous is not None:
            await previous
        await self._anchor()

    async def _anchor(self) -> None:
        head = await self._log.head()
        if head.position == 0:
            return
        try:
            await asyncio.to_thread(write_anchor, self._path, sign(head, self._key))
        except OSError:
            _log.exception("The anchor could not be written to %s", self._path)  # the next commit tries again


async def _hash_at(log: EventLog, position: int, end: Head) -> str:
    if position == end.position:
        return end.hash
    for event in await log.read(after=position - 1, limit=1):
        if event.position == position:
            return event.hash
        if event.position == position + 1:  # the anchored event's own body was erased
            return event.prev_hash
    # It and the next one were erased, so no reading shows either: only the walk does, which stops at the anchor.
    return (await log.verify(anchor=Head(position, ""))).head.hash


def _make_key(path: Path) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(secrets.token_bytes(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def _unsigned(path: Path) -> Unavailable:
    return Unavailable(
        f"The anchor at {path} was not signed with this user's key.",
        hint="Compare the log with a backup; move the anchor away to trust the log as it is.",
        code="store.anchor",
    )


async def follow(log: EventLog, file: Path, key_file: Path) -> tuple[Anchoring | None, str]:
    """What anchors the log from now on; None where its key can't be had. And what is to be said of it, empty where all
    is well."""
    try:
        key = load_key(key_file)
    except OzzieError as error:
        return None, f"{error} {error.hint} Until then, a cut end of the log can't be noticed."
    anchoring = Anchoring(log, file, key)
    return anchoring, await anchoring.start() or ""
