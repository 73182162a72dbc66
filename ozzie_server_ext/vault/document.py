"""The vault's file and its canonical encoding (docs/secrets.md describes the format)."""

import base64
import re
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads_object
from ozzie_server_ext.vault import cipher
from ozzie_server_ext.vault.errors import DamagedVault, NewerVault
from ozzie_server_ext.vault.scope import Scope

FORMAT = "ozzie vault"
VERSION = 1
MAX_FILE_BYTES = 64 << 20
MAX_CHANGES = 1000
"""Number of recent changes that the file keeps for a gateway to record later."""

_ID = re.compile(r"[0-9a-f]{16,32}", re.ASCII)

SlotKind: TypeAlias = Literal["keyfile", "passphrase", "keyring"]
Action: TypeAlias = Literal["set", "replaced", "removed", "imported", "rekeyed", "protected"]


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """A way to open the vault: the wrapped data key. `salt` and `cost` are a passphrase's; its key lies elsewhere."""

    kind: SlotKind
    id: str
    wrapped: bytes = b""
    salt: bytes = b""
    cost: cipher.Argon2 | None = None

    def bound_to(self, vault: str) -> bytes:
        """Bind the wrapped key to this slot of this vault, at this cost."""
        cost = encode(self.cost) if self.cost else None
        return canonical_bytes(["slot", vault, self.kind, self.id, base64.b64encode(self.salt).decode(), cost])


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One secret. `sealed` is its encrypted value, bound to vault, name, scope and version. The version is the number
    of the change that set it; `changed_at` is ISO 8601 in UTC."""

    name: str
    scope: Scope
    version: int
    changed_at: str
    by: str
    sealed: bytes = b""

    def bound_to(self, vault: str) -> bytes:
        return canonical_bytes(["record", vault, self.name, self.scope.kind, self.scope.owner, self.version])


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change, for the log, numbered from 1. Of the whole vault: `name` and `scope` are empty, `version` is 0."""

    number: int
    name: str
    scope: str
    version: int
    action: Action
    changed_at: str
    by: str


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file. `mac` authenticates it: no part can be changed, removed or taken from another file."""

    id: str
    slots: tuple[Slot, ...]
    records: tuple[Record, ...] = ()
    changes: tuple[Change, ...] = ()
    mac: bytes = b""
    format: str = FORMAT
    version: int = VERSION

    @property
    def last_change(self) -> int:
        return self.changes[-1].number if self.changes else 0

    def find(self, name: str, scope: Scope) -> Record | None:
        return next((record for record in self.records if (record.name, record.scope) == (name, scope)), None)

    def is_whole(self, data_key: bytes) -> bool:
        """Whether the file was written by somebody with the data key."""
        return cipher.same(self.mac, self._mac(data_key))

    def signed(self, data_key: bytes) -> "Document":
        return replace(self, mac=self._mac(data_key))

    def to_bytes(self) -> bytes:
        return canonical_bytes(encode(self)) + b"\n"

    def _mac(self, data_key: bytes) -> bytes:
        message = canonical_bytes({name: value for name, value in encode(self).items() if name != "mac"})
        return cipher.mac(cipher.subkey(data_key, "file"), message)


def parse(raw: bytes, path: Path) -> Document:
    """Parse `raw`, without verifying it. `path` is for error texts.

    Raises DamagedVault, NewerVault.
    """
    try:
        value = loads_object(raw, max_bytes=MAX_FILE_BYTES)
        _expect_known(value, path)
        document = decode(Document, value)
        canonical = document.to_bytes()
    except (DamagedVault, NewerVault):
        raise
    except OzzieError:
        # No details: the parser's error may quote the file.
        raise DamagedVault(path, "it can't be read as a vault") from None
    if canonical != raw:
        # Only the canonical encoding is valid, so that no two parsers can read the file differently.
        raise DamagedVault(path, "its spelling was changed")
    # A slot's id is part of its key file's name: it must not lead elsewhere.
    if not all(_ID.fullmatch(identity) for identity in (document.id, *(slot.id for slot in document.slots))):
        raise DamagedVault(path, "it contains an invalid id")
    for slot in document.slots:
        if (slot.kind == "passphrase") != (slot.cost is not None) or (slot.cost and not slot.cost.is_bearable):
            raise DamagedVault(path, "it requests a cost that Ozzie never uses")
    return document


def _expect_known(value: JsonObject, path: Path) -> None:
    version: Any = value.get("version")
    if value.get("format") != FORMAT or type(version) is not int or version < 1:
        raise DamagedVault(path, "it does not begin like a vault")
    if version > VERSION:
        raise NewerVault(path, version)
