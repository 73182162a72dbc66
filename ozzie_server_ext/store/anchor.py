"""The anchor: the signed end of the log, kept in two places, and the judgement whether the log still matches it.

`anchor.json` lies beside the log. A record for each home lies beside the key: it reveals a log and an anchor that were
restored to an earlier state together, and lists what a person accepted.
"""

import asyncio
import hashlib
import hmac
import logging
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.config.files import replace_file, sync_folder
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.disk import hint_for
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.log import EventLog, Head

KEY_BYTES = 32

_ANCHOR = b"ozzie anchor 1\0"
_RECORD = b"ozzie anchor record 1\0"
_MOST_RECORDS = 1000
"""Limit on the records searched for a folder that was moved."""

T = TypeVar("T")


class Anchor(msgspec.Struct, frozen=True):
    """A signed head: HMAC-SHA-256 over "ozzie anchor 1\\0" and the canonical JSON of position and hash."""

    position: int
    hash: str
    signature: str

    @property
    def head(self) -> Head:
        return Head(self.position, self.hash)


class Acceptance(msgspec.Struct, frozen=True):
    """A person accepted the log up to `position` in spite of `reason`; `at` is an RFC 3339 time."""

    at: str
    position: int
    reason: str


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a home's log, kept beside the key. `log` is the hash of the first event, which identifies the log
    wherever it lies ("" if empty). `folder` is the home's real path."""

    folder: str
    log: str
    position: int
    hash: str
    accepted: tuple[Acceptance, ...] = ()
    signature: str = ""

    @property
    def head(self) -> Head:
        return Head(self.position, self.hash)


class AnchorFiles(msgspec.Struct, frozen=True):
    """The paths of one home's anchor, of the key, and of all homes' records."""

    home: Path
    anchor: Path
    database: Path
    key: Path

    @classmethod
    def of(cls, home: Home, key: Path) -> "AnchorFiles":
        return cls(home.root, home.anchor, home.database, key)

    @property
    def records(self) -> Path:
        return self.key.parent / "anchors"

    @property
    def folder(self) -> str:
        """The home's real path, so that links to one home share a record."""
        return os.path.realpath(self.home)

    @property
    def record(self) -> Path:
        return record_file(self.records, self.folder)


def record_file(records: Path, folder: str) -> Path:
    """Return the file of the record for the home at `folder`."""
    return records / f"{hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]}.json"


def sign(head: Head, key: bytes) -> Anchor:
    signed = _ANCHOR + canonical_bytes({"position": head.position, "hash": head.hash})
    return Anchor(head.position, head.hash, hmac.new(key, signed, hashlib.sha256).hexdigest())


def sign_record(record: Record, key: bytes) -> Record:
    """Return `record` with its signature: HMAC-SHA-256 over a prefix and the canonical JSON of all else."""
    fields = msgspec.to_builtins(record)
    del fields["signature"]
    signature = hmac.new(key, _RECORD + canonical_bytes(fields), hashlib.sha256).hexdigest()
    return replace(record, signature=signature)


def make_key(path: Path) -> bytes:
    """Return the key at `path`; create it, readable by the user only, if missing. Raises Unavailable."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            _make_key(path)
    except OSError as error:
        hint = hint_for(path.parent, error=error)
        raise Unavailable(f"The anchor's key {path} can't be created: {error.strerror}.", hint=hint) from error
    key = read_key(path)
    if key is None:
        raise Unavailable(f"The anchor's key at {path} has disappeared.", hint="Try again.")
    return key


def read_key(path: Path) -> bytes | None:
    """Return the key at `path`, or None. Raises Unavailable."""
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        hint = "Make it readable for you (chmod u+r)."
        raise Unavailable(f"The anchor's key {path} can't be read: {error.strerror}.", hint=hint) from error
    if len(key) != KEY_BYTES:
        raise Unavailable(f"{path} is not a key.", hint="Put the key back from a backup, or move the file away.")
    return key


def read_anchor(path: Path, key: bytes) -> Anchor | None:
    """Return the anchor at `path`, or None. Raises Unavailable if it was not signed with `key`."""
    anchor = _read(path, Anchor)
    if anchor is not None and not _same(sign(anchor.head, key).signature, anchor.signature):
        raise _unsigned(path)
    return anchor


def write_anchor(path: Path, anchor: Anchor) -> None:
    """Durably replace the anchor at `path`. Raises OSError."""
    replace_file(path, canonical_bytes(msgspec.to_builtins(anchor)))


def read_record(path: Path, key: bytes) -> Record | None:
    """Return the record at `path`, or None. Raises like `read_anchor`."""
    record = _read(path, Record)
    if record is not None and not _same(sign_record(record, key).signature, record.signature):
        raise _unsigned(path)
    return record


def write_record(path: Path, record: Record) -> None:
    """Durably replace the record at `path`. Raises OSError."""
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_folder(path.parent.parent)
    replace_file(path, canonical_bytes(msgspec.to_builtins(record)))


def records_of_log(records: Path, log: str, key: bytes) -> Iterator[Record]:
    """Yield the readable, correctly signed records of a log, whatever folder they are for."""
    try:
        files = sorted(records.glob("*.json"), key=lambda file: -file.stat().st_mtime)[:_MOST_RECORDS]
    except OSError:
        return
    for file in files:
        with suppress(Unavailable):
            record = read_record(file, key)
            if record is not None and record.log == log:
                yield record


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(
            f"{path} can't be read: {error.strerror}.",
            hint="Make it readable for you (chmod u+r).",
            code="store.anchor",
        ) from error
    except msgspec.MsgspecError as error:
        raise _unsigned(path) from error


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def _make_key(path: Path) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(secrets.token_bytes(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def _unsigned(path: Path) -> Unavailable:
    return Unavailable(
        f"{path} was not signed with this user's key.", hint="Compare the log with a backup.", code="store.anchor"
    )


ACCEPT = "ozzie events accept"

_HINT = f"Put back the newest backup of the folder data. If you know why it is so, `{ACCEPT}` takes the log as it is."


class Finding(msgspec.Struct, frozen=True):
    """Why the log does not match its anchor, and what to do. `bad_position` is the first missing or differing event;
    None if only the proof is missing."""

    reason: str
    hint: str = _HINT
    bad_position: int | None = None

    def __str__(self) -> str:
        return f"{self.reason} {self.hint}"


class Evidence(msgspec.Struct, frozen=True):
    """What was found outside the log. `record` is that of this folder, or of the folder that the home was moved or
    copied from; `original` is that folder if it still holds a log."""

    key: bytes | None = None
    anchor: Anchor | None = None
    record: Record | None = None
    original: str = ""
    is_keyless: bool = False
    """An anchor or record exists, but no key to check it with."""
    problem: Unavailable | None = None
    """Why one of them can't be trusted."""

    @property
    def positions(self) -> set[int]:
        """The events whose hashes `judge` needs."""
        return {found.position for found in (self.anchor, self.record) if found is not None}


def gather(files: AnchorFiles, first: str) -> Evidence:
    """Read the evidence. `first` is the hash of the log's first event, "" if there is none."""
    try:
        key = read_key(files.key)
        if key is None:
            return Evidence(is_keyless=files.anchor.exists() or files.record.exists())
        anchor = read_anchor(files.anchor, key)
        record = read_record(files.record, key)
    except Unavailable as error:
        return Evidence(problem=error)
    original = ""
    if record is None and first:
        found = list(records_of_log(files.records, first, key))
        gone = [each for each in found if not _has_log(files, each.folder)]
        record = max(gone or found, key=lambda each: each.position, default=None)
        original = record.folder if record is not None and not gone else ""
    return Evidence(key, anchor, record, original)


def judge(
    files: AnchorFiles, evidence: Evidence, *, head: Head, first: str, hashes: Mapping[int, str | None]
) -> Finding | None:
    """Return why the log that ends at `head` is not the anchored one, or None. `hashes` are those of the events at
    `evidence.positions`; None for an event that the log does not have."""
    if evidence.problem is not None:
        hint = f"{evidence.problem.hint} If you know why it is so, `{ACCEPT}` trusts the log as it is, and signs it."
        return Finding(evidence.problem.message, hint)
    if evidence.key is None:
        return _without_key(files) if head.position or evidence.is_keyless else None
    return _contradiction(evidence, head, first, hashes) or (_missing(files, evidence) if head.position else None)


def _contradiction(evidence: Evidence, head: Head, first: str, hashes: Mapping[int, str | None]) -> Finding | None:
    anchor, record, end = evidence.anchor, evidence.record, head.position

    def holds(anchored: Head) -> bool:
        return anchored.position == 0 or hashes[anchored.position] == anchored.hash

    if anchor is not None and anchor.position > end:
        return _cut(end, anchor.position)
    if anchor is not None and not holds(anchor.head):
        return _rewritten(anchor.position)
    if record is None:
        return None
    if evidence.original:
        return Finding(
            f"This is a copy of the log in {evidence.original}, which is still there.",
            f"To use both from now on: `{ACCEPT}`. To use only the other, set OZZIE_PATH to it.",
        )
    if record.log and first and record.log != first:
        return Finding(
            f"This is not the log that was kept in {record.folder}, of which event {record.position} was anchored.",
            bad_position=1,
        )
    if record.position > end:
        return _cut(end, record.position, with_anchor=anchor is not None)
    return None if holds(record.head) else _rewritten(record.position)


def _missing(files: AnchorFiles, evidence: Evidence) -> Finding | None:
    unknown = "so nobody can tell whether its end was cut off"
    if evidence.anchor is None and evidence.record is None:
        return Finding(f"The log's anchor {files.anchor} and its record {files.record} are missing, {unknown}.")
    if evidence.anchor is None and evidence.record is not None:
        return Finding(
            f"The log's anchor {files.anchor} is missing, {unknown}. The record beside the key goes up to event"
            f" {evidence.record.position}, which is there."
        )
    if evidence.record is None:
        return Finding(
            f"The log's record {files.record} is missing, {unknown}: this may be an older copy, put back with its"
            " anchor."
        )
    return None


def _without_key(files: AnchorFiles) -> Finding:
    return Finding(
        f"The anchor's key {files.key} is missing, so nobody can tell whether the log was cut or replaced.",
        f"Put the key back from a backup of that folder. If it is lost, `{ACCEPT}` creates another, and takes the log"
        " as it is.",
    )


def _cut(end: int, anchored: int, *, with_anchor: bool = False) -> Finding:
    if end == 0:
        return Finding(f"The log is gone: there is no event in it, and event {anchored} was anchored.", bad_position=1)
    how = "The log was cut, or an older copy was put back with its anchor" if with_anchor else "The log was cut"
    return Finding(f"{how}: it ends at {end}, and event {anchored} was anchored.", bad_position=end + 1)


def _rewritten(position: int) -> Finding:
    reason = f"The log was rewritten: event {position} is not the one that was anchored."
    return Finding(reason, bad_position=position)


def _has_log(files: AnchorFiles, folder: str) -> bool:
    return (Path(folder) / files.database.relative_to(files.home)).exists()


_MOST_ACCEPTED = 50
"""How many acceptances a record keeps, the newest ones."""

_log = logging.getLogger(__name__)


class Anchoring:
    """Writes anchor and record at the start, shortly after each commit, and on closing. Leaves both alone while they
    contradict the log, as they are the evidence. Continues once a person accepted the log."""

    def __init__(self, log: EventLog, files: AnchorFiles, *, delay_s: float = 1.0) -> None:
        self._log = log
        self._files = files
        self._delay_s = delay_s
        self._key = b""
        """Empty until the log may be anchored."""
        self._record: Record | None = None
        self._first = ""
        self._finding: Finding | None = None
        self._warning = ""
        self._busy = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._write: asyncio.Task[None] | None = None
        self._is_over = False

    async def start(self) -> None:
        """Start anchoring. Call this before anything is appended: an empty log is anchored too."""
        self._log.on_commit(self._committed)
        await self._tick()

    async def warning(self) -> str:
        """Return what contradicts the log, or why it is not anchored, and what to do; "" if all is well."""
        if self._warning:
            await self._tick()  # a person may have fixed it
        return self._warning

    def abandon(self) -> None:
        """Stop anchoring: the log and its anchor belong to another gateway."""
        self._is_over = True
        self._stop_timer()

    async def close(self) -> None:
        """Anchor the last event. Call this once the log is closed."""
        self._stop_timer()
        if self._write is not None:
            await self._write
        if self._key:
            await self._tick()
        self._is_over = True

    def _committed(self, events: tuple[Event, ...]) -> None:
        if events[0].position == 1:
            self._first = events[0].hash
        if not self._is_over and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._delay_s, self._due)

    def _due(self) -> None:
        self._timer = None
        self._write = asyncio.create_task(self._tick())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _tick(self) -> None:
        async with self._busy:
            if self._is_over:
                return
            try:
                if not self._key:
                    self._warning = await self._examine()
                if self._key:
                    await self._anchor()
                    self._warning = ""
            except OSError as error:
                unwritten = _unwritten(self._files, error)
                self._warn(f"{unwritten} {unwritten.hint}")
            except OzzieError as error:
                self._warn(f"{error} {error.hint} Until then, a cut end of the log can't be noticed.")

    async def _examine(self) -> str:
        """Start anchoring if nothing contradicts the log; else return what does."""
        self._first = await self._log.hash_at(1) or ""
        evidence = await asyncio.to_thread(gather, self._files, self._first)
        hashes = {position: await self._log.hash_at(position) for position in evidence.positions}
        head = await self._log.head()
        finding = judge(self._files, evidence, head=head, first=self._first, hashes=hashes)
        if finding is not None:
            if self._finding is None:  # keep the first: once the log grows again, a cut looks like a rewritten log
                self._finding = finding
                _log.error("%s", finding)
            return str(self._finding)
        self._key = await asyncio.to_thread(make_key, self._files.key)
        self._record = evidence.record
        return ""

    async def _anchor(self) -> None:
        head = await self._log.head()
        before = self._record
        self._record = await asyncio.to_thread(anchor, self._files, self._key, head, self._first, before)

    def _warn(self, warning: str) -> None:
        if warning != self._warning:
            _log.error("%s", warning)  # the next commit tries again
        self._warning = warning


def anchor(files: AnchorFiles, key: bytes, head: Head, first: str, before: Record | None) -> Record:
    """Write anchor and record for a log that ends at `head`; return the record. It replaces `before`, which may be that
    of the folder the home was moved from. Raises OSError."""
    write_anchor(files.anchor, sign(head, key))
    accepted = () if before is None else before.accepted
    log = first if head.position else ""
    record = Record(folder=files.folder, log=log, position=head.position, hash=head.hash, accepted=accepted)
    write_record(files.record, sign_record(record, key))
    if before is not None and before.folder != record.folder:
        record_file(files.records, before.folder).unlink(missing_ok=True)
    return record


def accept(files: AnchorFiles, finding: Finding, evidence: Evidence, head: Head, first: str, at: datetime) -> None:
    """Accept the log as it is, as a person decided, and note that in the record. Raises Unavailable."""
    acceptance = Acceptance(at.isoformat(timespec="seconds"), head.position, finding.reason)
    before = evidence.record or Record(folder=files.folder, log=first, position=0, hash="")
    # The record of a folder that the log was copied from stays; that of one it was moved from goes.
    folder = files.folder if evidence.original else before.folder
    before = replace(before, folder=folder, accepted=(*before.accepted, acceptance)[-_MOST_ACCEPTED:])
    try:
        anchor(files, make_key(files.key), head, first, before)
    except OSError as error:
        raise _unwritten(files, error) from error


def _unwritten(files: AnchorFiles, error: OSError) -> Unavailable:
    return Unavailable(
        f"The log's anchor can't be written: {error.strerror or error}.",
        hint=hint_for(files.anchor, files.record, error=error),
    )
