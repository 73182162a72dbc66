"""Ways to open the vault: a key file and the system's keyring without a person, a passphrase with one."""

import base64
import binascii
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.vault import cipher
from ozzie_server_ext.vault.document import Slot, SlotKind
from ozzie_server_ext.vault.errors import ANEW, BadSecret, NoKeyring, VaultLocked, WrongPassphrase
from ozzie_server_ext.vault.files import create_private, make_folder, read_private

Ask: TypeAlias = Callable[[], str]
"""Asks a person for the vault's passphrase."""

KEYRING_SERVICE = "ozzie"
MIN_PASSPHRASE = 8
_ID_BYTES = 8
_REAL_KEYRING = 1
"""The priority from which the library `keyring` calls a keyring recommended; below are plain files and none at all."""


class KeyGone(Unavailable):
    """The key of a slot is not where it was put."""

    code = "vault.key_gone"


class NotOpened(Exception):
    """The slot's key is there, and does not open it: key or vault was changed."""


def new_slot(kind: SlotKind) -> Slot:
    identity = os.urandom(_ID_BYTES).hex()
    if kind == "passphrase":
        return Slot(kind=kind, id=identity, salt=os.urandom(cipher.SALT_BYTES), cost=cipher.Argon2())
    return Slot(kind=kind, id=identity)


def wrapped(slot: Slot, slot_key: bytes, data_key: bytes, vault: str) -> Slot:
    """The slot with the data key in it."""
    return replace(slot, wrapped=cipher.seal(slot_key, data_key, slot.bound_to(vault)))


def unwrapped(slot: Slot, slot_key: bytes, vault: str) -> bytes:
    """The data key. Raises WrongPassphrase, NotOpened."""
    try:
        return cipher.unseal(slot_key, slot.wrapped, slot.bound_to(vault))
    except cipher.NotAuthentic:
        raise WrongPassphrase() if slot.kind == "passphrase" else NotOpened() from None


def checked_passphrase(text: str) -> str:
    """A new passphrase. Raises BadSecret."""
    if len(text) < MIN_PASSPHRASE:
        raise BadSecret(f"A passphrase has at least {MIN_PASSPHRASE} characters.", hint="Several words are good.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadSecret("The passphrase is not UTF-8 text.") from None
    return text


class SlotKeys:
    """The keys of slots, by where they lie: `folder` finds the folder of the key files, or raises OzzieError.

    It lies outside `OZZIE_PATH`, so that who copies that folder, a backup for one, does not hold the key.
    """

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder

    def key_file(self, slot: Slot) -> Path:
        return self._folder() / f"vault-{slot.id}.key"

    def make(self, slot: Slot, passphrase: str = "") -> bytes:
        """A key for a new slot, put where it belongs. Raises Unavailable."""
        match slot.kind:
            case "passphrase":
                return _derived(slot, checked_passphrase(passphrase))
            case "keyfile":
                key = cipher.new_key()
                make_folder(self._folder())
                create_private(self.key_file(slot), key)
                return key
            case "keyring":
                key = cipher.new_key()
                _keyring_put(slot, key)
                return key

    def find(self, slot: Slot, ask: Ask | None = None) -> bytes:
        """The key of a slot. Raises KeyGone, NoKeyring, UnsafeFile, and VaultLocked without somebody to ask."""
        match slot.kind:
            case "passphrase":
                if ask is None:
                    raise VaultLocked()
                return _derived(slot, ask())
            case "keyfile":
                path = self.key_file(slot)
                key = read_private(path, max_bytes=cipher.KEY_BYTES)
                if key is None or len(key) != cipher.KEY_BYTES:
                    what = "is gone" if key is None else "is no key any more"
                    raise KeyGone(f"The vault's key file {path} {what}.", hint=_lost())
                return key
            case "keyring":
                return _keyring_get(slot)

    def forget(self, slot: Slot) -> None:
        """Remove the key of a slot that is no more; one that can't be removed opens nothing any more anyway."""
        match slot.kind:
            case "keyfile":
                with suppress(OSError, OzzieError):
                    self.key_file(slot).unlink(missing_ok=True)
            case "keyring":
                _keyring_remove(slot)
            case "passphrase":
                pass


def _derived(slot: Slot, passphrase: str) -> bytes:
    assert slot.cost is not None
    try:
        return cipher.passphrase_key(passphrase, slot.salt, slot.cost)
    except UnicodeEncodeError:
        raise WrongPassphrase() from None


def _lost() -> str:
    return f"Put it back from a backup. Without it the values are lost. {ANEW}"


def _keyring() -> Any:
    """The system's keyring. Raises NoKeyring. Loaded here, because finding the keyring takes a while."""
    import keyring

    found = keyring.get_keyring()
    if getattr(found, "priority", 0) < _REAL_KEYRING:
        raise NoKeyring(
            "This machine has no keyring that could keep a key.",
            hint="Use ozzie secrets protect --with keyfile, or --with passphrase.",
        )
    return found


def _keyring_put(slot: Slot, key: bytes) -> None:
    _in_keyring(lambda ring: ring.set_password(KEYRING_SERVICE, _account(slot), base64.b64encode(key).decode()))


def _keyring_get(slot: Slot) -> bytes:
    text = _in_keyring(lambda ring: ring.get_password(KEYRING_SERVICE, _account(slot)))
    try:
        key = base64.b64decode(text or "", validate=True)
    except binascii.Error:
        key = b""
    if len(key) != cipher.KEY_BYTES:
        raise KeyGone(f"The vault's key is not in this machine's keyring ({_account(slot)}).", hint=_lost())
    return key


def _keyring_remove(slot: Slot) -> None:
    try:
        _in_keyring(lambda ring: ring.delete_password(KEYRING_SERVICE, _account(slot)))
    except NoKeyring:
        return


def _in_keyring(do: Callable[[Any], Any]) -> Any:
    """Raises NoKeyring, with the kind of the failure only: a backend's words may hold what it was given."""
    ring = _keyring()
    try:
        return do(ring)
    except Exception as error:  # every backend raises errors of its own
        raise NoKeyring(
            f"This machine's keyring does not answer ({type(error).__name__}).",
            hint="Unlock it, or use another way: ozzie secrets protect --with keyfile, or --with passphrase.",
        ) from None


def _account(slot: Slot) -> str:
    return f"vault-{slot.id}"
