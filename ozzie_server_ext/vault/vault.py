"""The vault: named values in one encrypted file, each with the scope that may see it (docs/secrets.md).

Any number of processes use one vault: whoever changes it holds its lock and begins from what is there at that moment;
whoever reads sees one whole state. Nothing of it needs a gateway.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os import urandom
from pathlib import Path

from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.vault import cipher, files
from ozzie_server_ext.vault.document import MAX_CHANGES, Action, Change, Document, Record, SlotKind
from ozzie_server_ext.vault.errors import BadSecret, DamagedVault, NoSecret, SecretDenied, VaultLocked
from ozzie_server_ext.vault.scope import PluginReader, Reader, Scope, Secret, checked_name
from ozzie_server_ext.vault.slots import Ask, Door, Look

MAX_SECRETS = 10_000


@dataclass(slots=True)
class Draft:
    """Begins as what is there. `key` is the data key; `now` is ISO 8601 in UTC."""

    document: Document
    key: bytes = field(repr=False)
    now: str
    by: str

    def put(self, name: str, scope: Scope, value: Secret, action: Action | None = None) -> Record:
        """Keep a value under the number of this change as its version: no two values ever had the same one, whatever
        was removed or imported in between. Raises BadSecret where there are too many."""
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
        """Tell later readers of a change; one that is of no single record concerns the whole vault."""
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
    """The record with this value in it."""
    plain = cipher.padded(value.reveal().encode())
    return replace(record, sealed=cipher.seal(cipher.subkey(data_key, "records"), plain, record.bound_to(vault)))


def opened(record: Record, data_key: bytes, vault: str) -> Secret:
    """The record's value. Raises NotAuthentic."""
    plain = cipher.unseal(cipher.subkey(data_key, "records"), record.sealed, record.bound_to(vault))
    return Secret(cipher.unpadded(plain).decode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A secret as a list shows it: nothing of its value, not even its length."""

    name: str
    scope: Scope
    version: int
    changed_at: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultState:
    """How a vault is, without any name in it. `ways` open it; `locked`: none of them has, here."""

    ways: tuple[SlotKind, ...]
    locked: bool
    secrets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A secret with its value, on its way from one vault to another."""

    name: str
    scope: Scope
    value: Secret


class Vault:
    """The vault in `folder`; key files lie in the folder that `key_folder` finds. It begins with the first secret."""

    def __init__(self, folder: Path, key_folder: Callable[[], Path], clock: Clock) -> None:
        self.path = folder / "vault.json"
        self._folder = folder
        self._lock_file = folder / "vault.lock"
        self._clock = clock
        self._door = Door(self.path, key_folder)

    # --- looking ------------------------------------------------------------------------------------------
    # All raise DamagedVault, NewerVault, UnsafeFile, VaultUnusable where the file can't be used, and KeyGone where
    # what opened it is gone.

    def exists(self) -> bool:
        return self._door.look() is not None

    def unlock(self, ask: Ask | None = None) -> None:
        """Open it, if it is there: by what needs no person first, then by a passphrase that `ask` gives.

        May take a while. Raises VaultLocked, WrongPassphrase, NoKeyring.
        """
        self._door.unlock(ask)

    def lock(self) -> None:
        """Forget what opens it. Raises BadSecret where it would open again by itself."""
        if {"keyfile", "keyring"} & set(self.ways()):
            raise BadSecret(
                "The vault opens without a person, so it would not stay locked.",
                hint="Have it ask for a passphrase: ozzie secrets protect --with passphrase",
                code="vault.no_passphrase",
            )
        self._door.shut()

    @property
    def locked(self) -> bool:
        """Whether there is a vault that nothing here has opened."""
        look = self._door.at_once()
        return look is not None and look.key is None

    def reveal(self, name: str, reader: Reader) -> Secret:
        """The value that `reader` sees under this name, the most specific scope first.

        Raises NoSecret; SecretDenied, where a plugin was not granted the name, whether or not there is such a secret;
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
        raise _none_of(name)

    def holds(self, name: str, reader: Reader) -> bool:
        """Whether the reader would find the name here, were the vault open."""
        look = self._door.at_once()
        return look is not None and any(look.document.find(name, scope) for scope in reader.places(name))

    def listing(self) -> tuple[Listed, ...]:
        """Every secret, by name; of a locked vault too, whose names can't be verified then."""
        look = self._door.at_once()
        return tuple(_listed(record) for record in look.document.records) if look else ()

    def expect(self, name: str, scope: Scope) -> None:
        """Raises NoSecret where there is none of that name in that very scope."""
        look = self._door.at_once()
        if look is None or look.document.find(checked_name(name), scope) is None:
            raise _none_of(name, scope)

    def ways(self) -> tuple[SlotKind, ...]:
        """How it can be opened."""
        look = self._door.look()
        return tuple(slot.kind for slot in look.document.slots) if look else ()

    def state(self) -> VaultState | None:
        """How it is, a locked one too; None where there is no vault."""
        look = self._door.at_once()
        if look is None:
            return None
        ways: tuple[SlotKind, ...] = tuple(slot.kind for slot in look.document.slots)
        return VaultState(ways=ways, locked=look.key is None, secrets=len(look.document.records))

    def changes(self) -> tuple[str, tuple[Change, ...]]:
        """The vault's id and its newest changes, of a locked one too; nothing where there is none."""
        look = self._door.at_once()
        return (look.document.id, look.document.changes) if look else ("", ())

    def entries(self) -> tuple[Entry, ...]:
        """Everything with its value. Raises VaultLocked."""
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
        """Keep a value, as the next version where there is one: the one before is gone."""
        checked_name(name)
        with self._changing(by, ask) as draft:
            return _listed(draft.put(name, scope, value))

    def replace(self, name: str, scope: Scope, value: Secret, *, by: str, ask: Ask | None = None) -> Listed:
        """As `set`, of a secret that is there. Raises NoSecret too."""
        with self._changing(by, ask, must_exist=True) as draft:
            _expect(draft, name, scope)
            return _listed(draft.put(name, scope, value))

    def remove(self, name: str, scope: Scope, *, by: str, ask: Ask | None = None) -> Listed:
        """Raises NoSecret too."""
        with self._changing(by, ask, must_exist=True) as draft:
            record = _expect(draft, name, scope)
            draft.remove(record)
            return _listed(record)

    def take(
        self,
        entries: Sequence[Entry],
        *,
        by: str,
        allow: Callable[[Sequence[Entry]], None] = lambda replaced: None,
        ask: Ask | None = None,
    ) -> int:
        """Keep all these or none; how many were not there already with the same value. `allow` is given those that
        would replace another value, and raises where that is not wanted."""
        with self._changing(by, ask) as draft:
            there = {(one.name, one.scope): opened(one, draft.key, draft.document.id) for one in draft.document.records}
            fresh = [entry for entry in entries if there.get((entry.name, entry.scope)) != entry.value]
            allow([entry for entry in fresh if (entry.name, entry.scope) in there])
            for entry in fresh:
                draft.put(entry.name, entry.scope, entry.value, "imported")
            return len(fresh)

    def rekey(self, *, by: str, ask: Ask | None = None) -> int:
        """Seal everything anew, with a new data key; how many secrets. What opens the vault stays the same.

        Asks for the passphrase where the vault has one. Raises NoSecret where there is no vault.
        """
        with self._changing(by, ask, must_exist=True) as draft:
            before, fresh, vault = draft.key, cipher.new_key(), draft.document.id
            slots = tuple(self._door.rewrapped(slot, fresh, vault, ask) for slot in draft.document.slots)
            records = tuple(sealed(one, opened(one, before, vault), fresh, vault) for one in draft.document.records)
            draft.document, draft.key = replace(draft.document, slots=slots, records=records), fresh
            draft.note("rekeyed")
            return len(records)

    def protect(self, ways: Iterable[SlotKind], *, by: str, passphrase: str = "", ask: Ask | None = None) -> None:
        """From now on these open the vault, each made anew, and nothing else does. No value is sealed anew."""
        with self._changing(by, ask) as draft:
            before = draft.document.slots
            slots = self._door.new_slots(ways, draft.key, draft.document.id, passphrase)
            draft.document = replace(draft.document, slots=slots)
            draft.note("protected")
        # Only now: until the vault was written, the old keys were what opened it.
        self._door.forget(before)

    # --- inside -------------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self, by: str, ask: Ask | None, *, must_exist: bool = False) -> Iterator[Draft]:
        """Hold the lock; what the draft has become at the end is written. Whatever is raised leaves all as it was."""
        # Before the lock is taken: a person may have to be asked, and others shall not wait for that.
        self.unlock(ask)
        if must_exist and not self.exists():
            raise NoSecret("There is no secret yet.", hint="Keep one with ozzie secrets set NAME.")
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
            # A key that was made stays from here on: a failure does not tell whether the file has its name already.
            document = draft.document.signed(draft.key)
            files.write_private(self.path, document.to_bytes())
            self._door.wrote(document, draft.key)

    def _begin(self, look: Look | None, by: str) -> Draft:
        now = self._clock.now().isoformat(timespec="seconds")
        if look is not None:
            assert look.key is not None
            return Draft(look.document, look.key, now, by)
        key, vault = cipher.new_key(), urandom(16).hex()
        return Draft(Document(id=vault, slots=self._door.new_slots(("keyfile",), key, vault)), key, now, by)

    def _value(self, look: Look, record: Record) -> Secret:
        if look.key is None:
            raise VaultLocked()
        try:
            return opened(record, look.key, look.document.id)
        except cipher.NotAuthentic:
            raise DamagedVault(self.path, "a secret in it was changed") from None


def _expect(draft: Draft, name: str, scope: Scope) -> Record:
    record = draft.document.find(checked_name(name), scope)
    if record is None:
        raise _none_of(name, scope)
    return record


def _listed(record: Record) -> Listed:
    return Listed(
        name=record.name, scope=record.scope, version=record.version, changed_at=record.changed_at, by=record.by
    )


def _none_of(name: str, scope: Scope | None = None) -> NoSecret:
    place = f" in the scope {scope}" if scope is not None and scope.owner else ""
    return NoSecret(
        f"There is no secret {checked_name(name)}{place}.",
        hint="See ozzie secrets list, or use ozzie secrets set NAME.",
    )
