"""The conversations of sessions and of delegated tasks, folded from the log and kept for those in use."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeAlias
from weakref import WeakValueDictionary

import msgspec

from ozzie_server_ext.agent.conversation import EVENT_TYPES, Conversation
from ozzie_server_ext.agent.snapshot import Snapshot
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import (
    ERASURE_TYPES,
    FINAL_TYPES,
    ConversationCompacted,
    Event,
    MessageErased,
    SessionErased,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import OPEN
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.store.lineage import Stretch, lineage_of
from ozzie_server_ext.store.log import EventFilter, EventLog
from ozzie_server_ext.store.snapshots import NoSnapshots, Snapshots

log = logger(__name__)

Thread: TypeAlias = SessionId | TaskId

MAX_KEPT = 64
MOST_ENTRIES = 50_000
"""The most messages and answers of all kept conversations together, exceeded by one conversation at most."""
SNAPSHOT_STEP = 400
"""The number of new events, those of some 40 turns, after which a snapshot is taken."""
_PAGE = 1000


class Conversations:
    """A cache of conversations, which can all be folded again from the log, long ones from their last snapshot on."""

    def __init__(self, log: EventLog, snapshots: Snapshots | None = None) -> None:
        self._log = log
        self._snapshots = snapshots or NoSnapshots()
        self._saving: dict[SessionId, asyncio.Task[None]] = {}
        self._kept: OrderedDict[Thread, Conversation] = OrderedDict()
        # A running turn may hold its conversation longer than the cache, and needs the new events.
        self._in_use: WeakValueDictionary[Thread, Conversation] = WeakValueDictionary()
        self._arriving: dict[Thread, list[Event]] = {}
        self._erasures = 0
        log.on_commit(self._follow, types=EVENT_TYPES | ERASURE_TYPES | FINAL_TYPES)

    async def for_turn(self, session_id: SessionId, delegated: TaskId | None = None) -> Conversation:
        """Like `get`, for a turn that begins. No other one uses the conversation then, so an outdated one is
        dropped and read from the log."""
        thread = delegated or session_id
        found = self._in_use.get(thread)
        if found is not None and found.is_outdated:
            del self._in_use[thread]
        return await self.get(session_id, delegated)

    async def get(self, session_id: SessionId, delegated: TaskId | None = None) -> Conversation:
        """Return the conversation of a session, or of a task delegated in it. It grows as events are committed."""
        thread = delegated or session_id
        found = self._in_use.get(thread)
        if found is None:
            loaded = await self._load_what_is_there(thread, session_id, delegated)
            # Another caller may have loaded it meanwhile; then theirs is used.
            found = self._in_use.setdefault(thread, loaded)
        self._kept[thread] = found
        self._kept.move_to_end(thread)
        entries = sum(conversation.size for conversation in self._kept.values())
        while len(self._kept) > MAX_KEPT or (len(self._kept) > 1 and entries > MOST_ENTRIES):
            _, dropped = self._kept.popitem(last=False)
            entries -= dropped.size
        return found

    async def close(self) -> None:
        """Wait for the snapshots that are being stored."""
        await asyncio.gather(*self._saving.values(), return_exceptions=True)

    async def _load_what_is_there(
        self, thread: Thread, session_id: SessionId, delegated: TaskId | None
    ) -> Conversation:
        """Load a conversation, once more if something was erased meanwhile."""
        while True:
            before = self._erasures
            conversation = await self._load(thread, session_id, delegated)
            if before == self._erasures:
                return conversation

    async def _load(self, thread: Thread, session_id: SessionId, delegated: TaskId | None) -> Conversation:
        # Events committed during the reading are applied last: no gap, and `apply` skips duplicates.
        arriving = self._arriving.setdefault(thread, [])
        lineage = [Stretch(session_id=session_id)] if delegated else await lineage_of(self._log, session_id)
        conversation = None if delegated else await self._restored(lineage)
        if conversation is not None:
            await self._read(conversation, lineage)
        if conversation is None or conversation.is_outdated:
            conversation = Conversation(of=delegated)
            await self._read(conversation, lineage, delegated)
        for event in arriving:
            conversation.apply(event)
        self._arriving.pop(thread, None)
        return conversation

    async def _read(
        self,
        conversation: Conversation,
        lineage: Sequence[Stretch],
        delegated: TaskId | None = None,
    ) -> None:
        """Apply the events of a session and its ancestors behind what the conversation has, without summaries of turns
        that were left out."""
        left_out: set[TaskId | None] = set()
        for part in lineage:
            after = conversation.position
            which: EventFilter = {"before": part.before, "types": EVENT_TYPES, "session_id": part.session_id}
            which |= {"task_id": delegated, "limit": _PAGE, "erased": True}
            is_over = False
            while not is_over:
                page = await self._log.read(**(which | {"after": after}))
                left_out.update(event.task_id for event in page if event.task_id in part.without)
                for event in part.of(page):
                    if event.type != ConversationCompacted.type or not left_out & part.without:
                        conversation.apply(event)
                is_over = len(page) < _PAGE
                after = page[-1].position if page else after

    async def _restored(self, lineage: Sequence[Stretch]) -> Conversation | None:
        """Return the conversation at the latest snapshot of the session, or of an ancestor before the fork."""
        for part in reversed(lineage):
            if part.without:  # they may be in its snapshots
                return None
            if stored := await self._snapshots.read(part.session_id, before=part.before):
                series = [msgspec.json.decode(each, type=Snapshot) for each in stored]
                return Conversation.restored(series, is_own=part is lineage[-1])
        return None

    def _follow(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if event.session_id is None:
                continue
            if event.type in FINAL_TYPES:
                self._save_if_due(event.session_id)
                continue
            if isinstance(event.body, SessionErased | MessageErased):
                self._forget((event.session_id, *event.body.forks))
            for thread in (event.session_id, event.task_id):
                if thread is None:
                    continue
                if (conversation := self._in_use.get(thread)) is not None:
                    conversation.apply(event)
                if (arriving := self._arriving.get(thread)) is not None:
                    arriving.append(event)

    def _save_if_due(self, session_id: SessionId) -> None:
        conversation = self._in_use.get(session_id)
        if conversation is None or conversation.is_outdated or conversation.fresh < SNAPSHOT_STEP:
            return
        if session_id not in self._saving:
            saving = asyncio.create_task(self._save(session_id, conversation), name=f"snapshot of {session_id}")
            self._saving[session_id] = saving
            saving.add_done_callback(lambda _: self._saving.pop(session_id, None))

    async def _save(self, session_id: SessionId, conversation: Conversation) -> None:
        """Store a snapshot, unless a task of the session is open: its next event may be about what came before."""
        position = conversation.position
        try:
            where: dict[str, Json] = {"session_id": session_id, "status": [status.value for status in OPEN]}
            if await self._log.rows("tasks", where=where, limit=1) or conversation.position != position:
                return
            snapshot = conversation.snapshot()
            content = msgspec.json.encode(snapshot)
            if not await self._snapshots.add(session_id, content, position=position, after=snapshot.after):
                conversation.begin_snapshots()
        except OzzieError as error:
            conversation.begin_snapshots()
            log.warning("a snapshot was not stored: %s", error, extra={"session_id": session_id})

    def _forget(self, sessions: tuple[SessionId, ...]) -> None:
        """Drop conversations with erased messages; no turn of these sessions runs. Those of running turns stay in
        `_in_use` and go on."""
        self._erasures += 1
        self._kept.clear()
        for session_id in sessions:
            self._in_use.pop(session_id, None)
