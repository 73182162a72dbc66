"""The anchor: where the log ended, signed with a key from outside of the store, and kept in two places.

`anchor.json` lies beside the log. The record lies beside the key, one for each home: it shows that log and anchor were
put back together to an earlier state, and it lists what a person accepted. What both are good for is decided in
`store.anchoring`.
"""

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import msgspec

from ozzie_server_ext.config.files import replace_file, sync_folder
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.disk import hint_for
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.log import Head

KEY_BYTES = 32

_ANCHOR = b"ozzie anchor 1\0"
_RECORD = b"ozzie anchor record 1\0"
_MOST_RECORDS = 1000
"""Records that are looked through for a folder that was moved."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Anchor:
    """A signed head: HMAC-SHA-256 over "ozzie anchor 1\\0" and the canonical JSON of position and hash."""

    position: int
    hash: str
    signature: str

    @property
    def head(self) -> Head:
        return Head(self.position, self.hash)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A person took the log as it was, up to `position`, in spite of `reason`. `at` is a time in RFC 3339."""

    at: str
    position: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The head of a home's log as it is kept beside the key. `log` is the hash of the first event, by which a log is
    known wherever it lies; "" while there is none. `folder` is the home's real path."""

    folder: str
    log: str
    position: int
    hash: str
    accepted: tuple[Acceptance, ...] = ()
    signature: str = ""

    @property
    def head(self) -> Head:
        return Head(self.position, self.hash)


@dataclass(frozen=True, slots=True)
class AnchorFiles:
    """Where the anchor of one home, the key, and the records of all homes lie."""

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
        """The home's real path: a link to it is the same home."""
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
    """Return the key at `path`; make one, for the user's eyes only, if there is none. Raises Unavailable."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            _make_key(path)
    except OSError as error:
        hint = hint_for(path.parent, error=error)
        raise Unavailable(f"The anchor's key {path} can't be made: {error.strerror}.", hint=hint) from error
    key = read_key(path)
    if key is None:
        raise Unavailable(f"The anchor's key at {path} is gone again.", hint="Try again.")
    return key


def read_key(path: Path) -> bytes | None:
    """Return the key at `path`, None if there is none. Raises Unavailable."""
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        hint = "Make it readable for you (chmod u+r)."
        raise Unavailable(f"The anchor's key {path} can't be read: {error.strerror}.", hint=hint) from error
    if len(key) != KEY_BYTES:
        raise Unavailable(f"{path} is no key.", hint="Put the key back from a backup, or move the file away.")
    return key


def read_anchor(path: Path, key: bytes) -> Anchor | None:
    """Return the anchor at `path`, None if there is none.

    Raises Unavailable if it was not signed with `key`.
    """
    anchor = _read(path, Anchor)
    if anchor is not None and not _same(sign(anchor.head, key).signature, anchor.signature):
        raise _unsigned(path)
    return anchor


def write_anchor(path: Path, anchor: Anchor) -> None:
    """Replace the anchor at `path`, durably. Raises OSError."""
    replace_file(path, canonical_bytes(msgspec.to_builtins(anchor)))


def read_record(path: Path, key: bytes) -> Record | None:
    """Return the record at `path`, None if there is none. Raises as `read_anchor`."""
    record = _read(path, Record)
    if record is not None and not _same(sign_record(record, key).signature, record.signature):
        raise _unsigned(path)
    return record


def write_record(path: Path, record: Record) -> None:
    """Replace the record at `path`, durably. Raises OSError."""
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_folder(path.parent.parent)
    replace_file(path, canonical_bytes(msgspec.to_builtins(record)))


def records_of_log(records: Path, log: str, key: bytes) -> Iterator[Record]:
    """Yield the records for a log, whatever folder they are for. Unreadable and unsigned ones are left out."""
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
