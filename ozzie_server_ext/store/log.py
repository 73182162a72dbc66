"""The port of the event log: what every implementation guarantees."""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence, Set
from datetime import datetime
from typing import Protocol, TypedDict, TypeVar, Unpack

import msgspec

from ozzie_server_ext.domain.errors import Conflict, Unavailable
from ozzie_server_ext.domain.events import Draft, Event
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.tasks import Claim
from ozzie_server_ext.store.documents import Hits, Wanted
from ozzie_server_ext.store.tables import Row, RowFilter

T = TypeVar("T")
_log = logging.getLogger(__name__)

Listener = Callable[[tuple[Event, ...]], None]
"""Called with facts once they are durable."""

GENESIS = "0" * 64
"""Stands for the hash before the first event."""


class Head(msgspec.Struct, frozen=True):
    """Where the log ends: the position of its last event (0 when empty) and that event's hash, in hexadecimal."""

    position: int = 0
    hash: str = GENESIS


BEGINNING = Head()
"""Where an empty log ends."""


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The result of walking the whole chain.

    `events` counts the good events, `erased` those of them without a body (which is allowed). `bad_position` is the
    first position where the log is not what was written, and `reason` says why.
    """

    ok: bool
    events: int
    erased: int
    head: Head
    bad_position: int | None = None
    reason: str = ""


class NewerStore(Unavailable):
    """The data was written by a newer Ozzie than this one."""

    code = "store.newer"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} was made by a newer Ozzie.", hint="Upgrade this Ozzie, then try again.")


class DamagedStore(Unavailable):
    """The stored data is not what was written."""

    code = "store.damaged"

    def __init__(self, what: str) -> None:
        super().__init__(
            what,
            hint="`ozzie events verify` shows how far it is good. Put a backup of the folder data in its place, or move"
            " that folder away: Ozzie begins a new log. Then run `ozzie events accept`.",
        )


class IdempotencyConflict(Conflict):
    """The stream has used an idempotency key for something else."""

    code = "conflict.idempotency"

    def __init__(self, stream: str, key: str) -> None:
        super().__init__(
            f'The idempotency key "{key}" of {stream} was already used for another append.',
            hint="Use a new key for a new action.",
        )
        self.stream = stream
        self.key = key


class EventIdTaken(Conflict):
    """The log already has an event with this id."""

    code = "conflict.event_id"

    def __init__(self, event_id: str) -> None:
        super().__init__(f"There is an event {event_id} already.")
        self.event_id = event_id


class LogClosed(Unavailable):
    """The log was closed before this append."""

    code = "store.closed"

    def __init__(self) -> None:
        super().__init__("The event log is closed.", hint="Start Ozzie again.")


class OwnerLost(Unavailable):
    """Another gateway has opened this log, so this one must not write to it any more. Waiting does not help."""

    code = "store.owner_lost"

    def __init__(self) -> None:
        super().__init__(
            "Another gateway has taken over Ozzie's folder, so nothing is recorded through this one any more.",
            hint="Try again: what you use finds the other gateway.",
        )


class ClaimLost(Conflict):
    """The task was given back, resumed or claimed again since: the facts of this claim come too late."""

    code = "conflict.claim"

    def __init__(self, task_id: TaskId) -> None:
        super().__init__(f"The task {task_id} is not this attempt's any more.")
        self.task_id = task_id


class EventFilter(TypedDict, total=False):
    """Which events `EventLog.read` returns, and in which order."""

    after: int
    limit: int
    types: frozenset[str] | None
    session_id: SessionId | None
    task_id: TaskId | None
    before: int | None
    since: datetime | None
    until: datetime | None
    newest_first: bool
    most_bytes: int | None
    erased: bool


class EventLog(Protocol):
    """An append-only sequence of facts, chained by hashes, with projections that never lag behind.

    A log belongs to the event loop it was opened on; call every method there. A fact that a projection refuses, such as
    an illegal task transition, never enters the log.
    """

    async def append(
        self, stream: str, drafts: Sequence[Draft], *, expected_version: int | None = None, claim: Claim | None = None
    ) -> tuple[Event, ...]:
        """Append `drafts` to `stream`, all or none, and return them as events once they are durable.

        `expected_version` is the version of the stream that the decision was based on; 0 means a new stream, None any.
        `claim` is the driver's claim on the task that the facts belong to. Raises VersionConflict if the stream has
        moved on, ClaimLost if the claim no longer holds, IllegalTransition and other Conflicts if a projection refuses
        a fact, InputError for a body that can't be stored, Unavailable if nothing could be written, its subclass
        OwnerLost if this log never will be again. If the caller is cancelled while it waits, the facts may still be
        recorded.

        An append repeats an earlier one if any of its drafts carries an idempotency key that the stream already has. If
        type and key of every draft then equal those of the recorded events at the same places, nothing is written and
        those events are returned, whatever `expected_version` says; bodies are not compared. Otherwise raise
        IdempotencyConflict, or Gone if they were erased.
        """
        ...

    async def read(self, **which: Unpack[EventFilter]) -> tuple[Event, ...]:
        """Return at most `limit` events (1000) with a position above `after` and below `before`, in global order or
        newest first, recorded from `since` on and before `until`. Stops after the event with which the bodies reach
        `most_bytes`.

        Events whose body was erased are left out; with `erased`, they have the body `Erased`, and labels and sources as
        they had. Raises NewerStore at the first event of a newer version.
        """
        ...

    async def read_stream(self, stream: str, *, after_version: int = 0) -> tuple[Event, ...]:
        """Return the events of one stream above `after_version`; otherwise like `read`."""
        ...

    async def version(self, stream: str) -> int:
        """Return the version of the stream's last event, 0 if it has none."""
        ...

    async def head(self) -> Head:
        """Return the last event that listeners know of. A reader may for a moment see further."""
        ...

    async def hash_at(self, position: int) -> str | None:
        """Return the hash of the event at `position`, erased or not; None if the log has no such event."""
        ...

    async def verify(self) -> Verification:
        """Walk the chain from its start and name the first bad event. A cut tail and a chain that was rewritten whole
        obey all its rules: `store.anchor` finds those."""
        ...

    async def rows(self, table: str, **which: Unpack[RowFilter]) -> list[Row]:
        """Return rows of a projection's table (`store.projector.TABLES`).

        `where` compares columns for equality; a list means any of its values, None means NULL. Rows are ordered by
        `order_by`, then by the table's key. `after` is the last value of that column on the previous page: pages stay
        right while rows are added, unlike with `offset`. Raises InputError for an undeclared table or column.
        """
        ...

    async def row(self, table: str, *key: str) -> Row | None:
        """Return the row of a projection's table with this key, None if there is none. Raises InputError for an
        undeclared table."""
        ...

    async def search(self, wanted: Wanted) -> Hits:
        """Return the documents of the log (`store.documents`) that match, best first. Events that were erased since
        are not among them."""
        ...

    async def dump(self) -> str:
        """Return the canonical dump of all projections: for each table a heading and a line of JSON per row, by key."""
        ...

    async def rebuild(self) -> str:
        """Drop all projections, fold the log again, and return the new canonical dump."""
        ...

    async def expect_owned(self) -> None:
        """Raise OwnerLost if another gateway has opened the log since: an idle gateway learns of it only here."""
        ...

    def on_commit(self, listener: Listener, *, types: Set[str] | None = None) -> None:
        """Call `listener` on the event loop with each batch of new events, in order of position, after its commit and
        before `append` returns: whatever a listener folds (the feed, the driver's queue, a conversation) is up to date
        for the caller of `append`. With `types`, it gets events of these types, and no batch without any."""
        ...

    async def close(self) -> None:
        """Finish pending work, then close the store. Later appends raise LogClosed; closing twice is fine."""
        ...


class Listeners:
    """Those who hear of a log's new events. A run records thousands a second, few of which concern most listeners."""

    def __init__(self) -> None:
        self._listeners: list[tuple[Listener, Set[str] | None]] = []

    def add(self, listener: Listener, types: Set[str] | None) -> None:
        """See `EventLog.on_commit`."""
        self._listeners.append((listener, types))

    def tell(self, events: tuple[Event, ...]) -> None:
        """Call each listener with the events that it wants. One that fails does not keep the others from hearing."""
        present = {event.type for event in events}
        for listener, types in self._listeners:
            wanted = events
            if types is not None and not present <= types:
                if types.isdisjoint(present):
                    continue
                wanted = tuple(event for event in events if event.type in types)
            try:
                listener(wanted)
            except Exception:
                _log.exception("A listener of the event log failed")


RETRY_S = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Pauses between attempts to write to an unavailable log, as on a full disk; the last one repeats."""


async def patiently(work: Callable[[], Awaitable[T]], on_failure: Callable[[Unavailable], None]) -> T:
    """Return the result of `work`, which is repeated as long as the log is unavailable: what is not recorded would
    never happen. Call `on_failure` before each pause. Raises OwnerLost, and what else `work` raises."""
    for pause in itertools.chain(RETRY_S, itertools.repeat(RETRY_S[-1])):
        try:
            return await work()
        except OwnerLost:
            raise
        except Unavailable as error:
            on_failure(error)
            await asyncio.sleep(pause)
    raise AssertionError("an endless loop ended")
