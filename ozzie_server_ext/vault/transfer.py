"""Exported secrets: a file encrypted with a passphrase, for moving or backing them up."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads, loads_object
from ozzie_server_ext.vault import cipher
from ozzie_server_ext.vault.document import MAX_FILE_BYTES
from ozzie_server_ext.vault.errors import BadSecret, NewerVault, WrongPassphrase
from ozzie_server_ext.vault.files import create_private
from ozzie_server_ext.vault.scope import Scope, checked_name, checked_value
from ozzie_server_ext.vault.slots import checked_passphrase
from ozzie_server_ext.vault.vault import Entry

FORMAT = "ozzie secrets"
VERSION = 1


class _Sealed(msgspec.Struct, frozen=True, kw_only=True):
    salt: bytes
    cost: cipher.Argon2
    sealed: bytes = b""
    format: Literal["ozzie secrets"] = FORMAT
    version: Literal[1] = VERSION

    def bound_to(self) -> bytes:
        return canonical_bytes({name: value for name, value in encode(self).items() if name != "sealed"})


class _Plain(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    scope: Scope
    value: str


class NoExport(BadSecret):
    """The file was not written by `ozzie secrets export`."""

    code = "secret.no_export"

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is not an intact file of ozzie secrets export.", hint="Use another copy of it.")


def export_to(path: Path, entries: Sequence[Entry], passphrase: str) -> None:
    """Write a new file (0600). Raises BadSecret for a bad passphrase or an existing file, VaultUnusable."""
    checked_passphrase(passphrase)
    if os.path.lexists(path):
        raise BadSecret(f"The file {path} exists already.", hint="Name a new file.", code="secret.file")
    plain = [{"name": entry.name, "scope": encode(entry.scope), "value": entry.value.reveal()} for entry in entries]
    bare = _Sealed(salt=os.urandom(cipher.SALT_BYTES), cost=cipher.Argon2())
    key = cipher.passphrase_key(passphrase, bare.salt, bare.cost)
    sealed = cipher.seal(key, cipher.padded(canonical_bytes(plain)), bare.bound_to())
    create_private(path, canonical_bytes(encode(_Sealed(salt=bare.salt, cost=bare.cost, sealed=sealed))) + b"\n")


def import_from(path: Path, passphrase: str) -> tuple[Entry, ...]:
    """Read an exported file. Raises NoExport, NewerVault, WrongPassphrase, BadSecret."""
    found = _read(path)
    try:
        key = cipher.passphrase_key(passphrase, found.salt, found.cost)
        plain = cipher.unpadded(cipher.unseal(key, found.sealed, found.bound_to()))
    except (cipher.NotAuthentic, UnicodeEncodeError):
        raise WrongPassphrase(f"{path}, or the file was changed") from None
    try:
        values: Any = loads(plain, max_bytes=MAX_FILE_BYTES)
        read = [decode(_Plain, value) for value in values]
        return tuple(
            Entry(name=checked_name(one.name), scope=one.scope, value=checked_value(one.value)) for one in read
        )
    except (OzzieError, TypeError):
        raise NoExport(path) from None


def _read(path: Path) -> _Sealed:
    try:
        with path.open("rb") as file:
            value = loads_object(file.read(MAX_FILE_BYTES + 1), max_bytes=MAX_FILE_BYTES)
    except FileNotFoundError:
        raise BadSecret(f"There is no file {path}.", code="secret.file") from None
    except OSError as error:
        raise BadSecret(f"{path} can't be read: {error.strerror}.", code="secret.file") from None
    except OzzieError:
        raise NoExport(path) from None
    version: Any = value.get("version")
    if value.get("format") == FORMAT and type(version) is int and version > VERSION:
        raise NewerVault(path, version)
    try:
        found = decode(_Sealed, value)
    except OzzieError:
        raise NoExport(path) from None
    if not found.cost.is_bearable or len(found.salt) != cipher.SALT_BYTES:
        raise NoExport(path)
    return found
