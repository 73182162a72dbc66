"""The hash chain: salted commitments to bodies, hashes over envelopes, and the walk that checks them.

    commitment = SHA-256("ozzie body 1\\0" | len(salt), 1 byte | salt | len(body), 8 bytes big-endian | body)
    hash       = SHA-256("ozzie event 1\\0" | canonical JSON of the envelope, with commitment and prev_hash)

Only the commitment is part of the envelope. Once body and salt are erased, nothing reveals the body, not even to a
guess at a short one, and the chain still verifies.
"""

import hashlib
import json
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

import msgspec

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.store.log import BEGINNING, Head, Verification

SALT_BYTES = 16

_BODY = b"ozzie body 1\0"
_EVENT = b"ozzie event 1\0"


class StoredBody(NamedTuple):
    """A body as stored: canonical JSON, and the salt of its commitment."""

    body: bytes
    salt: bytes


class Envelope(NamedTuple):
    """An event as stored, without its body; the fields are the columns of the table `events`, in order. `labels` and
    `sources` are JSON lists, `ts` is RFC 3339 in UTC with microseconds, hashes are hexadecimal."""

    position: int
    event_id: str
    stream: str
    version: int
    ts: str
    type: str
    schema: int
    actor: str
    source: str
    session_id: str | None
    task_id: str | None
    trace_id: str
    span_id: str
    causation_id: str | None
    idempotency_key: str | None
    labels: str
    sources: str
    commitment: str
    prev_hash: str
    hash: str


def commit_to(stored: StoredBody) -> str:
    """Return the commitment to a body."""
    body, salt = stored
    digest = hashlib.sha256(_BODY)
    digest.update(len(salt).to_bytes(1, "big") + salt + len(body).to_bytes(8, "big"))
    digest.update(body)
    return digest.hexdigest()


def hash_of(envelope: Envelope) -> str:
    """Return the hash over the envelope without its hash. Raises InputError for text that UTF-8 can't encode."""
    fields: dict[str, object] = dict(zip(_HASHED, _hashed(envelope), strict=True))
    fields["labels"] = _strings(envelope.labels)
    fields["sources"] = _strings(envelope.sources)
    try:
        return hashlib.sha256(_EVENT + _JSON.encode(fields)).hexdigest()
    except UnicodeEncodeError:
        raise InputError("An event can't carry half of a surrogate pair, which is no character.") from None


@lru_cache(maxsize=256)  # those of one event are those of the next
def _strings(text: str) -> object:
    return [] if text == "[]" else json.loads(text)


_HASHED = tuple(sorted(set(Envelope._fields) - {"hash"}))
_hashed = itemgetter(*(Envelope._fields.index(name) for name in _HASHED))
# For strings, integers and lists, with sorted keys, it writes what `canonical_bytes` does, five times faster.
_JSON = msgspec.json.Encoder()


def _is_committed(stored: StoredBody, commitment: str) -> bool:
    try:
        return commit_to(stored) == commitment
    except (TypeError, OverflowError):  # in a damaged page, a value may have another type, or a salt any length
        return False


class ChainWalk:
    """Checks envelopes in order, from the one behind `after`, until one is bad."""

    def __init__(self, after: Head = BEGINNING) -> None:
        self._head = after
        self._erased = 0

    def step(self, envelope: Envelope, stored: StoredBody | None) -> Verification | None:
        """Check the next event; return the verdict if it is bad."""
        expected = self._head.position + 1
        if envelope.position != expected:
            return self._bad(expected, f"Event {expected} is missing.")
        if envelope.prev_hash != self._head.hash:
            return self._bad(expected, f"Event {expected} does not follow the one before it.")
        try:
            intact = hash_of(envelope) == envelope.hash
        except (InputError, ValueError, TypeError):  # in a damaged page, a value may have another type
            intact = False
        if not intact:
            return self._bad(expected, f"Event {expected} was changed.")
        if stored is not None and not _is_committed(stored, envelope.commitment):
            return self._bad(expected, f"The body of event {expected} was changed.")
        self._head = Head(expected, envelope.hash)
        self._erased += stored is None
        return None

    def end(self) -> Verification:
        """Return the verdict after the last event."""
        head = self._head
        return Verification(ok=True, events=head.position, erased=self._erased, head=head)

    def broken_off(self, why: str) -> Verification:
        """Return the verdict if the next event can't be read."""
        expected = self._head.position + 1
        return self._bad(expected, f"The file can't be read from event {expected} on: {why}.")

    def _bad(self, position: int, reason: str) -> Verification:
        good = min(self._head.position, position - 1)
        return Verification(
            ok=False, events=good, erased=self._erased, head=self._head, bad_position=position, reason=reason
        )
