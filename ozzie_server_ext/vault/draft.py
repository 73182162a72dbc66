"""The next state of the vault in the making, and what goes in and out of a record."""

from dataclasses import dataclass, field, replace

from ozzie_server_ext.vault import cipher
from ozzie_server_ext.vault.document import MAX_CHANGES, Action, Change, Document, Record
from ozzie_server_ext.vault.errors import BadSecret
from ozzie_server_ext.vault.scope import Scope
from ozzie_server_ext.vault.secret import Secret

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
