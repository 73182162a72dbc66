"""The port of the event log: what every store of facts promises."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ozzie_server_ext.domain.errors import Conflict, Unavailable
from ozzie_server_ext.domain.events import Draft, Event
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import Claim
from ozzie_server_ext.store.tables import Row

Listener = Callable[[tuple[Event, ...]], None]
"""Hears of facts once they are durable."""

GENESIS = "0" * 64
"""What stands for the hash before the first event."""


@dataclass(frozen=True, slots=True)
class Head:
    """Where the log ends: the position of its last event (0 when empty) and that event's hash, in hexadecimal."""

    position: int = 0
    hash: str = GENESIS


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a walk along the whole chain found.

    `events` counts those that were found good, `erased` those of them whose body is gone (which is allowed).
    `bad_position` is the first position where the log is not what was written; `reason` says what is wrong there.
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
    """What is stored is not what was written."""

    code = "store.damaged"

    def __init__(self, what: str) -> None:
        super().__init__(
            what,
            hint="`ozzie events verify` tells how far it is good. Put a backup of the folder data in its place, or move"
            " that folder away: Ozzie begins a new log. Then run `ozzie events accept`.",
        )


class IdempotencyConflict(Conflict):
    """An idempotency key of the stream already stands for something else."""

    code = "conflict.idempotency"

    def __init__(self, stream: str, key: str) -> None:
        super().__init__(
            f'The idempotency key "{key}" of {stream} already stands for another append.',
            hint="Use a new key for a new action.",
        )
        self.stream = stream
        self.key = key


class EventIdTaken(Conflict):
    """An event with this id is in the log already."""

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
    """Another gateway has opened this log, so this one may write to it no more. It does not pass by waiting."""

    code = "store.owner_lost"

    def __init__(self) -> None:
        super().__init__(
            "Another gateway has taken over Ozzie's folder, so nothing is recorded through this one any more.",
            hint="Try again: what you use finds the other gateway.",
        )


class ClaimLost(Conflict):
    """The task was given back or claimed anew since: what an earlier attempt has to say of it comes too late."""

    code = "conflict.claim"

    def __init__(self, task_id: TaskId) -> None:
        super().__init__(f"The task {task_id} is not this attempt's any more.")
        self.task_id = task_id


class EventLog(Protocol):
    """The truth: an append-only sequence of facts, chained by hashes, with projections that never lag behind.

    A log belongs to the event loop it was opened on; every method is called there. A fact that its projections
    refuse (a task transition that the state machine does not know) never enters the log.
    """

    async def append(
        self,
        stream: str,
        drafts: Sequence[Draft],
        *,
        expected_version: int | None = None,
        claim: Claim | None = None,
    ) -> tuple[Event, ...]:
        """Record `drafts` at the end of `stream`, all or none, and return them once they are durable.

        `expected_version` is the version of the stream that the decision was based on; 0 means a new stream, None
        any. `claim` is the attempt at a task that the facts are part of. Raises VersionConflict where the stream has
        moved on, ClaimLost where the task is no longer that attempt's, IllegalTransition and other Conflicts where a
        projection refuses a fact, InputError for a body that can't be stored, Unavailable where nothing could be
        written, and of these OwnerLost where this log never will be again. If the caller is cancelled while it waits,
        the facts may still be recorded.

        Repeats: an append is the repeat of an earlier one when any of its drafts carries an idempotency key that
        already stands in the same stream. If, counted from there, type and key of every draft equal those of the
        recorded events at the same places, nothing is written and these events are returned, whatever
        `expected_version` says; their bodies are not compared. Otherwise IdempotencyConflict is raised.
        """
        ...

    async def read(
        self,
        *,
        after: int = 0,
        limit: int = 1000,
        types: frozenset[str] | None = None,
        session_id: SessionId | None = None,
        task_id: TaskId | None = None,
        before: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        newest_first: bool = False,
        most_bytes: int | None = None,
    ) -> tuple[Event, ...]:
        """At most `limit` events with a position above `after` and below `before`, in global order or the other way
        round; none recorded earlier than `since`, all earlier than `until`. It ends behind the event with whose body
        there are `most_bytes` of bodies, or more.

        Events whose body was erased are left out. Raises NewerStore at the first event that this version does
        not know.
        """
        ...

    async def read_stream(self, stream: str, *, after_version: int = 0) -> tuple[Event, ...]:
        """The events of one stream with a version above `after_version`; as `read` otherwise."""
        ...

    async def version(self, stream: str) -> int:
        """The version of the stream's last event; 0 where there is none."""
        ...

    async def head(self) -> Head:
        """The last event that listeners have heard of. A reader may for a moment see further."""
        ...

    async def hash_at(self, position: int) -> str | None:
        """Return the hash of the event at `position`, erased or not; None if the log has no such event."""
        ...

    async def verify(self) -> Verification:
        """Walk the chain from its start and name the first bad event.

        A cut tail and a chain that was rewritten whole follow all its rules: `store.anchoring` finds those.
        """
        ...

    async def rows(
        self,
        table: str,
        *,
        where: Mapping[str, Json] | None = None,
        order_by: str | None = None,
        descending: bool = False,
        after: Json = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Row]:
        """Rows of a projection's table (`store.projector.TABLES`).

        `where` compares columns for equality; a list means any of its values, None means no value. Without
        `order_by`, and among equals, the table's key orders. `after`, the last value of that column on one page,
        begins the next: a page stays right while rows are added, where `offset` would not. Raises InputError for a
        table or column that is not declared.
        """
        ...

    async def dump(self) -> str:
        """The canonical dump of all projections: a heading per table, a line of JSON per row, ordered by key."""
        ...

    async def rebuild(self) -> str:
        """Drop all projections, fold them anew from the log, and return the new canonical dump."""
        ...

    async def expect_owned(self) -> None:
        """Raises OwnerLost where another gateway has opened the log since: nothing else may tell an idle one."""
        ...

    def on_commit(self, listener: Listener) -> None:
        """Call `listener` on the event loop with each batch of new events, in order of position, after its commit."""
        ...

    async def close(self) -> None:
        """Finish what was asked for, then let go of the store. Later appends raise LogClosed; closing twice is fine."""
        ...
