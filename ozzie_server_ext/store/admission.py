"""What may enter the log: the rules of an append, the same for every adapter.

An append is prepared on the caller's side (ids, time, encoding, commitment), then admitted where the log is written,
one at a time: repeat? version? place in the chain, projections.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from ozzie_server_ext.domain.clock import Clock, IdSource
from ozzie_server_ext.domain.errors import Gone, InputError, VersionConflict
from ozzie_server_ext.domain.events import ApprovalRefused, Draft, Event, EventBody, LabelsCleared, TaskCreated
from ozzie_server_ext.domain.ids import RANDOM_BYTES, SessionId, task_stream
from ozzie_server_ext.domain.tasks import Claim
from ozzie_server_ext.store.chain import SALT_BYTES, Envelope, StoredBody, commit_to, hash_of
from ozzie_server_ext.store.codec import BODIES, decode, event_from, strings_text, time_text
from ozzie_server_ext.store.contents import Parts
from ozzie_server_ext.store.log import ClaimLost, Head, IdempotencyConflict
from ozzie_server_ext.store.projections.sessions import SESSIONS, expect_new, session_gone
from ozzie_server_ext.store.projections.tasks import TASKS, task_from
from ozzie_server_ext.store.projector import apply
from ozzie_server_ext.store.tables import Rows

SaltSource = Callable[[], bytes]
"""Returns the salt of one commitment."""


def random_salt() -> bytes:
    return RANDOM_BYTES.take(SALT_BYTES)


class Prepared(NamedTuple):
    """A draft with everything that does not depend on its place in the log."""

    draft: Draft
    event_id: str
    ts: str
    body: EventBody
    stored: StoredBody
    commitment: str


class Append(msgspec.Struct, frozen=True):
    """One call of `append`, recorded as a whole or not at all. `contents` has the blobs that it names and that
    are still to be written, by hash."""

    stream: str
    prepared: tuple[Prepared, ...]
    expected_version: int | None
    claim: Claim | None = None
    contents: Mapping[bytes, Parts] = msgspec.field(default_factory=dict[bytes, Parts])


class Found(NamedTuple):
    """A stored event."""

    envelope: Envelope
    stored: StoredBody | None


class Tip(NamedTuple):
    """The last event of a stream; version 0 and empty texts if it has none."""

    version: int = 0
    event_id: str = ""
    trace_id: str = ""


class LogState(Protocol):
    """The state of the log that admission needs, at the moment of the append."""

    def head(self) -> Head: ...

    def tip(self, stream: str) -> Tip:
        """Return the end of a stream."""
        ...

    def is_erased(self, session_id: SessionId) -> bool:
        """Whether a person has erased the session."""
        ...

    def version_of_key(self, stream: str, key: str) -> int | None:
        """Return the version of the event of `stream` that carries this idempotency key."""
        ...

    def slice(self, stream: str, first: int, count: int) -> list[Found]:
        """Return at most `count` events of `stream`, from version `first` on."""
        ...


class Admitted(msgspec.Struct, frozen=True):
    """An append with its place in the log. `new` is empty if it repeats an earlier one."""

    events: tuple[Event, ...]
    new: tuple[Found, ...]


def prepare(
    stream: str,
    drafts: Sequence[Draft],
    *,
    expected_version: int | None,
    claim: Claim | None = None,
    clock: Clock,
    ids: IdSource,
    salts: SaltSource,
    contents: Mapping[bytes, Parts] | None = None,
) -> Append:
    """Encode an append. Raises InputError for what can't be stored."""
    if not stream:
        raise InputError("A stream needs a name.")
    if not drafts:
        raise InputError("There is nothing to append.")
    keys = [draft.idempotency_key for draft in drafts if draft.idempotency_key is not None]
    if len(keys) != len(set(keys)):
        raise InputError("Two drafts of one append carry the same idempotency key.")
    ts = time_text(clock.now())
    prepared: list[Prepared] = []
    for draft in drafts:
        raw, body = BODIES.encode(draft.body)
        stored = StoredBody(raw, salts())
        prepared.append(Prepared(draft, draft.event_id or ids.new(), ts, body, stored, commit_to(stored)))
    return Append(stream, tuple(prepared), expected_version, claim, contents or {})


def admit(append: Append, log: LogState, rows: Rows) -> Admitted:
    """Give an append its place and fold it into `rows`. Raises VersionConflict, IdempotencyConflict, ClaimLost, Gone
    if it repeats what was erased, or what a check or a fold raises; `rows` may then hold part of it."""
    repeated = _repeated(append, log)
    if repeated is not None:
        return Admitted(repeated, ())
    tip = log.tip(append.stream)
    version = tip.version
    if append.expected_version is not None and append.expected_version != version:
        raise VersionConflict(append.stream, append.expected_version, version)
    if append.claim is not None:
        _check_claim(append.claim, rows)
    head = log.head()
    position, prev_hash = head.position, head.hash
    new: list[Found] = []
    events: list[Event] = []
    last = tip if version else _delegated_by(append, log)
    for prepared in append.prepared:
        position += 1
        version += 1
        before = _before(prepared.draft, append.stream, last, log)
        envelope = _envelope(prepared, append.stream, version, position, prev_hash, before)
        last = Tip(version, envelope.event_id, envelope.trace_id)
        prev_hash = envelope.hash
        event = event_from(envelope, prepared.body, len(prepared.stored.body))
        _expect_place(event, log, rows)
        apply(event, rows)
        new.append(Found(envelope, prepared.stored))
        events.append(event)
    return Admitted(tuple(events), tuple(new))


_LATE = frozenset({ApprovalRefused, LabelsCleared})
"""What may still be recorded in an erased session: an answer that came too late, and what a person decides of files."""


def _expect_place(event: Event, log: LogState, rows: Rows) -> None:
    """Raise Gone for what comes after its session was erased, as a message that waited for that; or as `expect_new`."""
    if event.session_id is not None and log.is_erased(event.session_id) and type(event.body) not in _LATE:
        raise session_gone(rows.get(SESSIONS, (event.session_id,)) or {})
    expect_new(event, rows)


def _check_claim(claim: Claim, rows: Rows) -> None:
    row = rows.get(TASKS, (claim.task_id,))
    if row is None or not task_from(row).belongs_to(claim):
        raise ClaimLost(claim.task_id)


def _delegated_by(append: Append, log: LogState) -> Tip:
    """Return the end of the stream of the task that delegated the one that this append creates, if any."""
    body = append.prepared[0].draft.body
    return log.tip(task_stream(body.parent)) if isinstance(body, TaskCreated) and body.parent else Tip()


def _before(draft: Draft, stream: str, last: Tip, log: LogState) -> Tip:
    """Return the event that led to a draft, if nobody says otherwise: the `last` one of its task. In a stream that
    tasks share, the one before it may be of another task; an event without a task has none."""
    if draft.task_id is None:
        return Tip()
    own = task_stream(draft.task_id)
    return last if stream == own else log.tip(own)


def _envelope(prepared: Prepared, stream: str, version: int, position: int, prev_hash: str, before: Tip) -> Envelope:
    """Return the envelope. What the draft leaves open follows from the event `before` it (ADR 52): an event belongs to
    its trace and is caused by it; the work that it is part of is its call, else its task."""
    draft = prepared.draft
    task_id = draft.task_id or ""
    envelope = Envelope(
        position=position,
        event_id=prepared.event_id,
        stream=stream,
        version=version,
        ts=prepared.ts,
        type=draft.body.type,
        schema=draft.body.schema,
        actor=draft.actor,
        source=draft.source,
        session_id=draft.session_id,
        task_id=draft.task_id,
        trace_id=draft.trace_id or before.trace_id or task_id,
        span_id=draft.span_id or getattr(draft.body, "call_id", None) or task_id,
        causation_id=draft.causation_id or before.event_id or None,
        idempotency_key=draft.idempotency_key,
        labels=strings_text(draft.labels),
        sources=strings_text(draft.sources),
        commitment=prepared.commitment,
        prev_hash=prev_hash,
        hash="",
    )
    return Envelope._make((*envelope[:-1], hash_of(envelope)))


def _repeated(append: Append, log: LogState) -> tuple[Event, ...] | None:
    for index, prepared in enumerate(append.prepared):
        key = prepared.draft.idempotency_key
        version = None if key is None else log.version_of_key(append.stream, key)
        if key is None or version is None:
            continue
        found = log.slice(append.stream, version - index, len(append.prepared))
        requested = [(item.draft.body.type, item.draft.idempotency_key) for item in append.prepared]
        recorded = [(item.envelope.type, item.envelope.idempotency_key) for item in found]
        if requested != recorded:
            raise IdempotencyConflict(append.stream, key)
        bodies = [item.stored for item in found]
        if None in bodies:
            raise Gone("It was recorded before, and erased since.")
        return tuple(decode(item.envelope, stored) for item, stored in zip(found, bodies, strict=True) if stored)
    return None
