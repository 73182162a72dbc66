"""The vault's file as it is now, and what opens it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.vault import files
from ozzie_server_ext.vault.document import MAX_FILE_BYTES, Document, Slot, SlotKind, parse
from ozzie_server_ext.vault.errors import BadSecret, DamagedVault, UnsafeFile, VaultLocked, WrongPassphrase
from ozzie_server_ext.vault.slots import Ask, NotOpened, SlotKeys, new_slot, unwrapped, wrapped

_ORDER: tuple[SlotKind, ...] = ("keyfile", "keyring", "passphrase")
"""What asks nobody comes first."""


@dataclass(frozen=True, slots=True)
class Look:
    """The file as it was read. `key` is the data key; None while nothing has opened it."""

    stamp: tuple[int, int, int] | None
    document: Document
    key: bytes | None = field(default=None, repr=False)


class Door:
    """Reads the file at `path` again when it has changed, and opens it with the keys of its slots."""

    def __init__(self, path: Path, key_folder: Callable[[], Path]) -> None:
        self._path = path
        self._slot_keys = SlotKeys(key_folder)
        self._look: Look | None = None
        # What opened a slot before opens it again: a passphrase costs a person's time, and half a second.
        self._opened_by: dict[str, bytes] = {}

    def look(self) -> Look | None:
        """What is there now, or None. The data key of before stays, where it still fits.

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
        self._look = Look(stamp, document, known.key if known is not None and fits else None)
        return self._look

    def at_once(self) -> Look | None:
        """As `look`, and opened where a key file does it, or what opened it before: neither waits nor asks.

        Raises as `look`; KeyGone too where nothing but a key file could open it.
        """
        look = self.look()
        if look is not None and look.key is None:
            try:
                return self._open(look, ("keyfile",), None)
            except VaultLocked:
                return look
        return look

    def unlock(self, ask: Ask | None) -> Look | None:
        """As `look`, opened by any slot. May take a while.

        Raises VaultLocked, WrongPassphrase, KeyGone, NoKeyring, and as `look`.
        """
        look = self.look()
        return look if look is None or look.key is not None else self._open(look, _ORDER, ask)

    def shut(self) -> None:
        """Forget what opens it."""
        self._opened_by.clear()
        self._look = None

    def wrote(self, document: Document, key: bytes) -> None:
        """The file holds `document` now."""
        self._look = Look(files.stamp_of(self._path), document, key)

    # --- slots --------------------------------------------------------------------------------------------

    def new_slots(self, ways: Iterable[SlotKind], key: bytes, vault: str, passphrase: str = "") -> tuple[Slot, ...]:
        """Slots that will open it, their keys put where they belong. Raises OzzieError; nothing is left behind then."""
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
            raise BadSecret("Nothing would open the vault any more.", hint="Name one way: --with passphrase")
        return tuple(slots)

    def rewrapped(self, slot: Slot, key: bytes, vault: str, ask: Ask | None) -> Slot:
        """The slot with another data key, opened by the same. Raises as `unlock`."""
        slot_key = self._slot_key(slot, ask)
        self._unwrap(slot, slot_key, vault)
        return wrapped(slot, slot_key, key, vault)

    def forget(self, slots: Iterable[Slot]) -> None:
        """Remove the keys of slots that open nothing any more."""
        for slot in slots:
            self._opened_by.pop(slot.id, None)
            self._slot_keys.forget(slot)

    # --- inside -------------------------------------------------------------------------------------------

    def _open(self, look: Look, kinds: Sequence[SlotKind], ask: Ask | None) -> Look:
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
            self._look = replace(look, key=data_key)
            return self._look
        raise _most_telling(failures)

    def _slot_key(self, slot: Slot, ask: Ask | None) -> bytes:
        return self._opened_by.get(slot.id) or self._slot_keys.find(slot, ask)

    def _unwrap(self, slot: Slot, key: bytes, vault: str) -> bytes:
        try:
            data_key = unwrapped(slot, key, vault)
        except NotOpened:
            raise DamagedVault(self._path, f"its {slot.kind} does not open it, so one of the two was changed") from None
        self._opened_by[slot.id] = key
        return data_key


def _most_telling(failures: Sequence[OzzieError]) -> OzzieError:
    """Others can read a key: that comes before everything. Else, that a person could open it."""
    for kind in (UnsafeFile, VaultLocked, OzzieError):
        for failure in failures:
            if isinstance(failure, kind):
                return failure
    return VaultLocked()
