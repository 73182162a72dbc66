"""Ways to open the vault: a key file and the system's keyring without a person, a passphrase with one."""

import base64
import binascii
import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from msgspec.structs import replace

from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.vault import cipher, files
from ozzie_server_ext.vault.document import MAX_FILE_BYTES, Document, Slot, SlotKind, parse
from ozzie_server_ext.vault.errors import (
    RESTORE,
    BadSecret,
    DamagedVault,
    NoKeyring,
    UnsafeFile,
    VaultLocked,
    WrongPassphrase,
)
from ozzie_server_ext.vault.files import create_private, make_folder, read_private

Ask: TypeAlias = Callable[[], str]
"""Asks a person for the vault's passphrase."""

KEYRING_SERVICE = "ozzie"
MIN_PASSPHRASE = 8
_ID_BYTES = 8
_REAL_KEYRING = 1
"""Minimum priority of a real keyring in the library `keyring`; below are plain files and none at all."""


_KEY_LOST = f"Restore the key from a backup. Without it the values are lost. {RESTORE}"


class KeyGone(Unavailable):
    """A slot's key is missing."""

    code = "vault.key_gone"


class NotOpened(Exception):
    """The slot's key exists but does not open it: the key or the vault was changed."""


def new_slot(kind: SlotKind) -> Slot:
    identity = os.urandom(_ID_BYTES).hex()
    if kind == "passphrase":
        return Slot(kind=kind, id=identity, salt=os.urandom(cipher.SALT_BYTES), cost=cipher.Argon2())
    return Slot(kind=kind, id=identity)


def wrapped(slot: Slot, slot_key: bytes, data_key: bytes, vault: str) -> Slot:
    """Return the slot with the data key, encrypted with the slot's key."""
    return replace(slot, wrapped=cipher.seal(slot_key, data_key, slot.bound_to(vault)))


def unwrapped(slot: Slot, slot_key: bytes, vault: str) -> bytes:
    """Return a slot's data key. Raises WrongPassphrase, NotOpened."""
    try:
        return cipher.unseal(slot_key, slot.wrapped, slot.bound_to(vault))
    except cipher.NotAuthentic:
        raise WrongPassphrase() if slot.kind == "passphrase" else NotOpened() from None


def checked_passphrase(text: str) -> str:
    """Validate a new passphrase. Raises BadSecret."""
    if len(text) < MIN_PASSPHRASE:
        raise BadSecret(f"A passphrase has at least {MIN_PASSPHRASE} characters.", hint="Use several words.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadSecret("The passphrase is not UTF-8 text.") from None
    return text


class SlotKeys:
    """The keys of slots. `folder` returns the folder of the key files, or raises OzzieError.

    That folder is outside `OZZIE_PATH`, so that a copy of `OZZIE_PATH`, such as a backup, does not contain the key.
    """

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder

    def key_file(self, slot: Slot) -> Path:
        return self._folder() / f"vault-{slot.id}.key"

    def make(self, slot: Slot, passphrase: str = "") -> bytes:
        """Make and store the key of a new slot. Raises Unavailable."""
        match slot.kind:
            case "passphrase":
                return _derived(slot, checked_passphrase(passphrase))
            case "keyfile":
                make_folder(self._folder())
                key = cipher.new_key()
                create_private(self.key_file(slot), key)
                return key
            case "keyring":
                key = cipher.new_key()
                text = base64.b64encode(key).decode()
                _in_keyring(lambda ring: ring.set_password(KEYRING_SERVICE, _account(slot), text))
                return key

    def find(self, slot: Slot, ask: Ask | None = None) -> bytes:
        """Return a slot's key. Raises KeyGone, NoKeyring, UnsafeFile, and VaultLocked if nobody can be asked."""
        match slot.kind:
            case "passphrase":
                if ask is None:
                    raise VaultLocked()
                return _derived(slot, ask())
            case "keyfile":
                path = self.key_file(slot)
                key = read_private(path, max_bytes=cipher.KEY_BYTES)
                if key is None or len(key) != cipher.KEY_BYTES:
                    problem = "is gone" if key is None else "was damaged"
                    raise KeyGone(f"The vault's key file {path} {problem}.", hint=_KEY_LOST)
                return key
            case "keyring":
                return _keyring_get(slot)

    def forget(self, slot: Slot) -> None:
        """Remove a dropped slot's key; if that fails, the key opens nothing anyway."""
        match slot.kind:
            case "keyfile":
                with suppress(OSError, OzzieError):
                    self.key_file(slot).unlink(missing_ok=True)
            case "keyring":
                with suppress(NoKeyring):
                    _in_keyring(lambda ring: ring.delete_password(KEYRING_SERVICE, _account(slot)))
            case "passphrase":
                pass


def _derived(slot: Slot, passphrase: str) -> bytes:
    assert slot.cost is not None
    try:
        return cipher.passphrase_key(passphrase, slot.salt, slot.cost)
    except UnicodeEncodeError:
        raise WrongPassphrase() from None


def _keyring_get(slot: Slot) -> bytes:
    text = _in_keyring(lambda ring: ring.get_password(KEYRING_SERVICE, _account(slot)))
    try:
        key = base64.b64decode(text or "", validate=True)
    except binascii.Error:
        key = b""
    if len(key) != cipher.KEY_BYTES:
        raise KeyGone(f"The vault's key is not in this machine's keyring ({_account(slot)}).", hint=_KEY_LOST)
    return key


def _in_keyring(do: Callable[[Any], Any]) -> Any:
    """Call the system's keyring. Raises NoKeyring without a backend's message, which may contain its input."""
    import keyring  # here, because finding the keyring takes a while

    ring: Any = keyring.get_keyring()
    if getattr(ring, "priority", 0) < _REAL_KEYRING:
        raise NoKeyring(
            "This machine has no keyring that could keep a key.",
            hint="Use ozzie secrets protect --with keyfile, or --with passphrase.",
        )
    try:
        return do(ring)
    except Exception as error:  # every backend raises its own errors
        raise NoKeyring(
            f"This machine's keyring does not answer ({type(error).__name__}).",
            hint="Unlock it, or use another way: ozzie secrets protect --with keyfile, or --with passphrase.",
        ) from None


def _account(slot: Slot) -> str:
    return f"vault-{slot.id}"


_ORDER: tuple[SlotKind, ...] = ("keyfile", "keyring", "passphrase")
"""Slots that need no person come first."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The file as it was read. `key` is the data key, or None while the vault is locked."""

    stamp: tuple[int, int, int] | None
    document: Document
    key: bytes | None = field(default=None, repr=False)


class Door:
    """Reads the file at `path` again when it has changed, and opens it with the keys of its slots."""

    def __init__(self, path: Path, key_folder: Callable[[], Path]) -> None:
        self._path = path
        self._slot_keys = SlotKeys(key_folder)
        self._look: Snapshot | None = None
        # Keys that opened a slot are kept: a passphrase costs a person's time, and half a second.
        self._opened_by: dict[str, bytes] = {}

    def look(self) -> Snapshot | None:
        """Return the current file, or None. The known data key stays if it still matches.

        Raises DamagedVault, NewerVault, UnsafeFile, VaultUnusable.
        """
        stamp = files.stamp_of(self._path)
        known = self._look
        if known is not None and stamp == known.stamp:
            return known
        raw = files.read_private(self._path, max_bytes=MAX_FILE_BYTES)
        if raw is None:
            self._look = None
            return None
        document = parse(raw, self._path)
        fits = known is not None and known.key is not None and document.is_whole(known.key)
        self._look = Snapshot(stamp, document, known.key if known is not None and fits else None)
        return self._look

    def at_once(self) -> Snapshot | None:
        """As `look`, opened if a key file or a known key does it, without waiting or asking.

        Raises as `look`; also KeyGone if only a missing key file could open it.
        """
        look = self.look()
        if look is not None and look.key is None:
            try:
                return self._open(look, ("keyfile",), None)
            except VaultLocked:
                return look
        return look

    def unlock(self, ask: Ask | None) -> Snapshot | None:
        """As `look`, opened by any slot. May take a while.

        Raises VaultLocked, WrongPassphrase, KeyGone, NoKeyring, and as `look`.
        """
        look = self.look()
        return look if look is None or look.key is not None else self._open(look, _ORDER, ask)

    def shut(self) -> None:
        """Forget all keys."""
        self._opened_by.clear()
        self._look = None

    def wrote(self, document: Document, key: bytes) -> None:
        """Note that the file now contains `document`."""
        self._look = Snapshot(files.stamp_of(self._path), document, key)

    # --- slots --------------------------------------------------------------------------------------------

    def new_slots(self, ways: Iterable[SlotKind], key: bytes, vault: str, passphrase: str = "") -> tuple[Slot, ...]:
        """Make slots and store their keys. Raises OzzieError, which leaves nothing behind."""
        slots: list[Slot] = []
        try:
            for kind in dict.fromkeys(ways):
                slot = new_slot(kind)
                slots.append(slot)
                slot_key = self._slot_keys.make(slot, passphrase)
                slots[-1] = wrapped(slot, slot_key, key, vault)
                self._opened_by[slot.id] = slot_key
        except OzzieError:
            self.forget(slots)
            raise
        if not slots:
            raise BadSecret("Nothing would open the vault.", hint="Name one way: --with passphrase")
        return tuple(slots)

    def rewrapped(self, slot: Slot, key: bytes, vault: str, ask: Ask | None) -> Slot:
        """Return the slot with another data key, opened by the same slot key. Raises as `unlock`."""
        slot_key = self._slot_key(slot, ask)
        self._unwrap(slot, slot_key, vault)
        return wrapped(slot, slot_key, key, vault)

    def forget(self, slots: Iterable[Slot]) -> None:
        """Remove the keys of dropped slots."""
        for slot in slots:
            self._opened_by.pop(slot.id, None)
            self._slot_keys.forget(slot)

    def _open(self, look: Snapshot, kinds: Sequence[SlotKind], ask: Ask | None) -> Snapshot:
        failures: list[OzzieError] = []
        for slot in sorted(look.document.slots, key=lambda slot: _ORDER.index(slot.kind)):
            if slot.kind not in kinds and slot.id not in self._opened_by:
                failures.append(VaultLocked())
                continue
            try:
                data_key = self._unwrap(slot, self._slot_key(slot, ask), look.document.id)
            except WrongPassphrase:
                raise
            except OzzieError as error:
                failures.append(error)
                continue
            if not look.document.is_whole(data_key):
                raise DamagedVault(self._path, "something in it was changed")
            self._look = dataclasses.replace(look, key=data_key)
            return self._look
        raise _most_important(failures)

    def _slot_key(self, slot: Slot, ask: Ask | None) -> bytes:
        return self._opened_by.get(slot.id) or self._slot_keys.find(slot, ask)

    def _unwrap(self, slot: Slot, key: bytes, vault: str) -> bytes:
        try:
            data_key = unwrapped(slot, key, vault)
        except NotOpened:
            raise DamagedVault(self._path, f"its {slot.kind} does not open it, so one of the two was changed") from None
        self._opened_by[slot.id] = key
        return data_key


def _most_important(failures: Sequence[OzzieError]) -> OzzieError:
    """A key that others can read matters most; next, that a person could open the vault."""
    for kind in (UnsafeFile, VaultLocked, OzzieError):
        for failure in failures:
            if isinstance(failure, kind):
                return failure
    return VaultLocked()
