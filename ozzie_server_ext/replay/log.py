"""The log of a replay, in memory, and each gateway's view of it: what a gateway records goes through the stage."""

from collections.abc import Sequence, Set
from typing import Protocol, Unpack

from ozzie_server_ext.domain.clock import Clock, IdSource
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import FINAL_TYPES, Draft, Event
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.domain.tasks import Claim
from ozzie_server_ext.replay.difference import UNRECORDED
from ozzie_server_ext.store.documents import Hits, Wanted
from ozzie_server_ext.store.log import EventFilter, Head, Listener, Listeners, OwnerLost, Verification
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.projections.tasks import TASKS
from ozzie_server_ext.store.shielded import Ended, eager_task
from ozzie_server_ext.store.tables import Row, RowFilter

_SALT = bytes(16)


class StagedLog(InMemoryEventLog):
    """Records at once, or says why it would not. Nobody searches it."""

    def __init__(self, clock: Clock, ids: IdSource) -> None:
        super().__init__(clock, ids, salts=lambda: _SALT)
        self._search = _NoSearch()

    def record(
        self,
        stream: str,
        drafts: Sequence[Draft],
        expected_version: int | None = None,
        claim: Claim | None = None,
    ) -> tuple[Event, ...]:
        """As `append`, without waiting."""
        done = eager_task(self.append(stream, drafts, expected_version=expected_version, claim=claim))
        assert isinstance(done, Ended), "a log in memory never waits"
        return done.value

    def refusal(
        self, stream: str, drafts: Sequence[Draft], expected_version: int | None, claim: Claim | None
    ) -> Exception | None:
        """Return what `append` would raise; None if it would record these."""
        try:
            self._admit(stream, drafts, expected_version, claim)
        except OzzieError as error:
            return error
        finally:
            self._rows.discard()
        return None

    def is_repeated(self, stream: str, drafts: Sequence[Draft]) -> bool:
        """Whether it has these already, by their keys: then nothing is written."""
        return any(
            draft.idempotency_key is not None and self._index.version_of_key(stream, draft.idempotency_key) is not None
            for draft in drafts
        )

    def status_of(self, task_id: TaskId) -> str:
        """Return the status of a task; empty for an unknown one."""
        row = self._rows.get(TASKS, (task_id,))
        return "" if row is None else str(row["status"])

    def has_ended(self, stream: str) -> bool:
        """Whether the last event of a task's stream is its end."""
        tip = self._index.tip(stream)
        return bool(tip.version) and self._index.slice(stream, tip.version, 1)[0].envelope.type in FINAL_TYPES


class _NoSearch:
    """In the place of the search index."""

    def add(self, events: Sequence[Event]) -> None:
        pass

    def find(self, wanted: Wanted, sessions: Sequence[Row]) -> Hits:
        raise AssertionError("nobody searches a replay")


class Appends(Protocol):
    """What waits until its events are the next ones of the record: see `replay.stage`."""

    async def append(
        self, stream: str, drafts: Sequence[Draft], *, expected_version: int | None = None, claim: Claim | None = None
    ) -> tuple[Event, ...]: ...


class GatewayLog:
    """The log as one gateway of a replay has it (`EventLog`): appends wait for the stage, and fail once the gateway is
    no longer there, which tells its listeners nothing more either."""

    def __init__(self, log: StagedLog, stage: Appends) -> None:
        self._log = log
        self._stage = stage
        self._listeners = Listeners()
        self._is_gone = False
        log.on_commit(self._tell)

    def leave(self) -> None:
        """The gateway is gone."""
        self._is_gone = True

    def _tell(self, events: tuple[Event, ...]) -> None:
        if not self._is_gone:
            self._listeners.tell(events)

    async def append(
        self, stream: str, drafts: Sequence[Draft], *, expected_version: int | None = None, claim: Claim | None = None
    ) -> tuple[Event, ...]:
        if self._is_gone:
            raise OwnerLost()
        is_unrecorded = all(draft.body.type == UNRECORDED for draft in drafts)
        if is_unrecorded or self._log.is_repeated(stream, drafts):
            return await self._log.append(stream, drafts, expected_version=expected_version, claim=claim)
        return await self._stage.append(stream, drafts, expected_version=expected_version, claim=claim)

    async def read(self, **which: Unpack[EventFilter]) -> tuple[Event, ...]:
        return await self._log.read(**which)

    async def read_stream(self, stream: str, *, after_version: int = 0) -> tuple[Event, ...]:
        return await self._log.read_stream(stream, after_version=after_version)

    async def version(self, stream: str) -> int:
        return await self._log.version(stream)

    async def head(self) -> Head:
        return await self._log.head()

    async def hash_at(self, position: int) -> str | None:
        return await self._log.hash_at(position)

    async def verify(self) -> Verification:
        return await self._log.verify()

    async def rows(self, table: str, **which: Unpack[RowFilter]) -> list[Row]:
        return await self._log.rows(table, **which)

    async def row(self, table: str, *key: str) -> Row | None:
        return await self._log.row(table, *key)

    async def search(self, wanted: Wanted) -> Hits:
        return await self._log.search(wanted)

    async def dump(self) -> str:
        return await self._log.dump()

    async def rebuild(self) -> str:
        return await self._log.rebuild()

    async def expect_owned(self) -> None:
        if self._is_gone:
            raise OwnerLost()

    def on_commit(self, listener: Listener, *, types: Set[str] | None = None) -> None:
        self._listeners.add(listener, types)

    async def close(self) -> None:
        self._is_gone = True
