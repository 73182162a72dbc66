"""The vault: named values in one encrypted file, each with the scope that may see it (docs/secrets.md).

Any number of processes may use a vault: a writer takes its lock and starts from the current file; a reader sees one
consistent state. It needs no gateway.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import urandom
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.vault import cipher, files
from ozzie_server_ext.vault.document import MAX_CHANGES, Action, Change, Document, Record, SlotKind
from ozzie_server_ext.vault.errors import BadSecret, DamagedVault, NoSecret, SecretDenied, VaultLocked
from ozzie_server_ext.vault.scope import PluginReader, Reader, Scope, Secret, checked_name
from ozzie_server_ext.vault.slots import Ask, Door, Snapshot

MAX_SECRETS = 10_000


@dataclass(slots=True)
class Draft:
    """A change in progress, starting from the current file. `key` is the data key; `now` is ISO 8601 in UTC."""

    document: Document
    key: bytes = field(repr=False)
    now: str
    by: str

    def put(self, name: str, scope: Scope, value: Secret, action: Action | None = None) -> Record:
        """Store a value with the number of this change as its version, so that no two values ever share a version.
        Raises BadSecret if there are too many secrets."""
        before = self.document.find(name, scope)
        if before is None and len(self.document.records) >= MAX_SECRETS:
            raise BadSecret(
                f"There are {MAX_SECRETS:,} secrets already.", hint="Remove one with ozzie secrets rm NAME."
            )
        version = self.document.last_change + 1
        bare = Record(name=name, scope=scope, version=version, changed_at=self.now, by=self.by)
        record = sealed(bare, value, self.key, self.document.id)
        records = [known for known in self.document.records if known is not before]
        in_order = sorted([*records, record], key=lambda one: (one.name, one.scope))
        self.document = replace(self.document, records=tuple(in_order))
        self.note(action or ("replaced" if before else "set"), record)
        return record

    def remove(self, record: Record) -> None:
        records = tuple(known for known in self.document.records if known is not record)
        self.document = replace(self.document, records=records)
        self.note("removed", record)

    def note(self, action: Action, record: Record | None = None) -> None:
        """Record a change for later readers; without a record, it concerns the whole vault."""
        change = Change(
            number=self.document.last_change + 1,
            name=record.name if record else "",
            scope=str(record.scope) if record else "",
            version=record.version if record else 0,
            action=action,
            changed_at=self.now,
            by=self.by,
        )
        self.document = replace(self.document, changes=(*self.document.changes, change)[-MAX_CHANGES:])


def sealed(record: Record, value: Secret, data_key: bytes, vault: str) -> Record:
    """Return the record with this value, encrypted."""
    plain = cipher.padded(value.reveal().encode())
    return replace(record, sealed=cipher.seal(cipher.subkey(data_key, "records"), plain, record.bound_to(vault)))


def opened(record: Record, data_key: bytes, vault: str) -> Secret:
    """Return the record's value. Raises NotAuthentic."""
    plain = cipher.unseal(cipher.subkey(data_key, "records"), record.sealed, record.bound_to(vault))
    return Secret(cipher.unpadded(plain).decode())


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A secret as lists show it: nothing about its value, not even its length."""

    name: str
    scope: Scope
    version: int
    changed_at: str
    by: str


class VaultState(msgspec.Struct, frozen=True, kw_only=True):
    """A vault's state, without names. `ways` open it; `locked`: none has done so here."""

    ways: tuple[SlotKind, ...]
    locked: bool
    secrets: int


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A secret with its value, for moving it to another vault."""

    name: str
    scope: Scope
    value: Secret


class Vault:
    """The vault in `folder`; `key_folder` returns the folder of key files. The first secret creates it."""

    def __init__(self, folder: Path, key_folder: Callable[[], Path], clock: Clock) -> None:
        self.path = folder / "vault.json"
        self._folder = folder
        self._lock_file = folder / "vault.lock"
        self._clock = clock
        self._door = Door(self.path, key_folder)

    # --- looking ------------------------------------------------------------------------------------------
    # All raise DamagedVault, NewerVault, UnsafeFile, VaultUnusable if the file can't be used, and KeyGone if the key
    # that opened it is gone.

    def exists(self) -> bool:
        return self._door.look() is not None

    def unlock(self, ask: Ask | None = None) -> None:
        """Open the vault if it exists: by keys that need no person first, then by a passphrase from `ask`.

        May take a while. Raises VaultLocked, WrongPassphrase, NoKeyring.
        """
        self._door.unlock(ask)

    def lock(self) -> None:
        """Forget all keys. Raises BadSecret if the vault would open again without a person."""
        if {"keyfile", "keyring"} & set(self.ways()):
            raise BadSecret(
                "The vault opens without a person, so it would not stay locked.",
                hint="Have it ask for a passphrase: ozzie secrets protect --with passphrase",
                code="vault.no_passphrase",
            )
        self._door.shut()

    @property
    def locked(self) -> bool:
        """Whether a vault exists that is not open here."""
        look = self._door.at_once()
        return look is not None and look.key is None

    def reveal(self, name: str, reader: Reader) -> Secret:
        """Return the value that `reader` sees under this name, the most specific scope first.

        Raises NoSecret; SecretDenied if a plugin was not granted the name, whether or not the secret exists;
        VaultLocked.
        """
        look = self._door.at_once()
        for scope in reader.places(name):
            record = look.document.find(name, scope) if look else None
            if record is not None:
                assert look is not None
                return self._value(look, record)
        if isinstance(reader, PluginReader) and not reader.was_granted(name):
            raise SecretDenied(
                f'The plugin "{reader.plugin}" was not granted the secret {checked_name(name)}.',
                hint="Its manifest has to declare it, and a person has to grant it.",
            )
        raise _no_secret(name)

    def holds(self, name: str, reader: Reader) -> bool:
        """Whether the reader would find the name if the vault were open."""
        look = self._door.at_once()
        return look is not None and any(look.document.find(name, scope) for scope in reader.places(name))

    def listing(self) -> tuple[Listed, ...]:
        """List every secret by name, even of a locked vault, whose names can't be verified."""
        look = self._door.at_once()
        return tuple(_listed(record) for record in look.document.records) if look else ()

    def expect(self, name: str, scope: Scope) -> None:
        """Raise NoSecret unless a secret has that name in exactly that scope."""
        look = self._door.at_once()
        if look is None or look.document.find(checked_name(name), scope) is None:
            raise _no_secret(name, scope)

    def ways(self) -> tuple[SlotKind, ...]:
        """Return the ways to open the vault."""
        look = self._door.look()
        return tuple(slot.kind for slot in look.document.slots) if look else ()

    def state(self) -> VaultState | None:
        """Return the vault's state, even if locked; None without a vault."""
        look = self._door.at_once()
        if look is None:
            return None
        ways: tuple[SlotKind, ...] = tuple(slot.kind for slot in look.document.slots)
        return VaultState(ways=ways, locked=look.key is None, secrets=len(look.document.records))

    def changes(self) -> tuple[str, tuple[Change, ...]]:
        """Return the vault's id and newest changes, even if locked; empty without a vault."""
        look = self._door.at_once()
        return (look.document.id, look.document.changes) if look else ("", ())

    def entries(self) -> tuple[Entry, ...]:
        """Return all secrets with their values. Raises VaultLocked."""
        look = self._door.at_once()
        if look is None:
            return ()
        return tuple(
            Entry(name=record.name, scope=record.scope, value=self._value(look, record))
            for record in look.document.records
        )

    # --- changing -----------------------------------------------------------------------------------------
    # All raise what `unlock` raises, VaultBusy, and BadSecret for a bad name.

    def set(self, name: str, scope: Scope, value: Secret, *, by: str, ask: Ask | None = None) -> Listed:
        """Store a value; a new version replaces the old one."""
        checked_name(name)
        with self._changing(by, ask) as draft:
            return _listed(draft.put(name, scope, value))

    def replace(self, name: str, scope: Scope, value: Secret, *, by: str, ask: Ask | None = None) -> Listed:
        """As `set`, for an existing secret. Raises NoSecret too."""
        with self._changing(by, ask, must_exist=True) as draft:
            _expect(draft, name, scope)
            return _listed(draft.put(name, scope, value))

    def remove(self, name: str, scope: Scope, *, by: str, ask: Ask | None = None) -> Listed:
        """Remove a secret. Raises NoSecret too."""
        with self._changing(by, ask, must_exist=True) as draft:
            record = _expect(draft, name, scope)
            draft.remove(record)
            return _listed(record)

    def import_entries(
        self,
        entries: Sequence[Entry],
        *,
        by: str,
        allow: Callable[[Sequence[Entry]], None] = lambda replaced: None,
        ask: Ask | None = None,
    ) -> int:
        """Store all entries or none; return how many were not there with the same value. `allow` gets the entries that
        would replace another value, and raises to prevent that."""
        with self._changing(by, ask) as draft:
            there = {(one.name, one.scope): opened(one, draft.key, draft.document.id) for one in draft.document.records}
            fresh = [entry for entry in entries if there.get((entry.name, entry.scope)) != entry.value]
            allow([entry for entry in fresh if (entry.name, entry.scope) in there])
            for entry in fresh:
                draft.put(entry.name, entry.scope, entry.value, "imported")
            return len(fresh)

    def rekey(self, *, by: str, ask: Ask | None = None) -> int:
        """Encrypt everything with a new data key; return the number of secrets. The ways to open the vault stay the
        same.

        Asks for the passphrase if the vault has one. Raises NoSecret without a vault.
        """
        with self._changing(by, ask, must_exist=True) as draft:
            before, fresh, vault = draft.key, cipher.new_key(), draft.document.id
            slots = tuple(self._door.rewrapped(slot, fresh, vault, ask) for slot in draft.document.slots)
            records = tuple(sealed(one, opened(one, before, vault), fresh, vault) for one in draft.document.records)
            draft.document, draft.key = replace(draft.document, slots=slots, records=records), fresh
            draft.note("rekeyed")
            return len(records)

    def protect(self, ways: Iterable[SlotKind], *, by: str, passphrase: str = "", ask: Ask | None = None) -> None:
        """Replace the ways to open the vault by these, with new keys. Values are not encrypted again."""
        with self._changing(by, ask) as draft:
            before = draft.document.slots
            slots = self._door.new_slots(ways, draft.key, draft.document.id, passphrase)
            draft.document = replace(draft.document, slots=slots)
            draft.note("protected")
        # Only now: until the vault was written, the old keys opened it.
        self._door.forget(before)

    @contextmanager
    def _changing(self, by: str, ask: Ask | None, *, must_exist: bool = False) -> Iterator[Draft]:
        """Hold the lock, and write the draft at the end. An exception leaves the vault unchanged."""
        # Before taking the lock: a person may have to be asked, and others should not wait for that.
        self.unlock(ask)
        if must_exist and not self.exists():
            raise NoSecret("There is no secret yet.", hint="Store one with ozzie secrets set NAME.")
        files.make_folder(self._folder)
        with files.locked(self._lock_file):
            look = self._door.unlock(ask)
            draft = self._begin(look, by)
            try:
                yield draft
            except BaseException as error:
                there = {slot.id for slot in look.document.slots} if look else set[str]()
                self._door.forget(slot for slot in draft.document.slots if slot.id not in there)
                if isinstance(error, cipher.NotAuthentic):
                    raise DamagedVault(self.path, "a secret in it was changed") from None
                raise
            # Keep new keys from here on: after a failure, the file may have been replaced already.
            document = draft.document.signed(draft.key)
            files.write_private(self.path, document.to_bytes())
            self._door.wrote(document, draft.key)

    def _begin(self, look: Snapshot | None, by: str) -> Draft:
        now = self._clock.now().isoformat(timespec="seconds")
        if look is not None:
            assert look.key is not None
            return Draft(look.document, look.key, now, by)
        key, vault = cipher.new_key(), urandom(16).hex()
        return Draft(Document(id=vault, slots=self._door.new_slots(("keyfile",), key, vault)), key, now, by)

    def _value(self, look: Snapshot, record: Record) -> Secret:
        if look.key is None:
            raise VaultLocked()
        try:
            return opened(record, look.key, look.document.id)
        except cipher.NotAuthentic:
            raise DamagedVault(self.path, "a secret in it was changed") from None


def _expect(draft: Draft, name: str, scope: Scope) -> Record:
    record = draft.document.find(checked_name(name), scope)
    if record is None:
        raise _no_secret(name, scope)
    return record


def _listed(record: Record) -> Listed:
    return Listed(
        name=record.name, scope=record.scope, version=record.version, changed_at=record.changed_at, by=record.by
    )


def _no_secret(name: str, scope: Scope | None = None) -> NoSecret:
    place = f" in the scope {scope}" if scope is not None and scope.owner else ""
    return NoSecret(
        f"There is no secret {checked_name(name)}{place}.",
        hint="See ozzie secrets list, or use ozzie secrets set NAME.",
    )
