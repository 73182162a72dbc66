"""The conversations of sessions and of delegated tasks, folded from the log and kept for those in use."""

from collections import OrderedDict
from typing import TypeAlias
from weakref import WeakValueDictionary

from ozzie_server_ext.agent.conversation import EVENT_TYPES, Conversation
from ozzie_server_ext.domain.events import ERASURE_TYPES, Event, MessageErased, SessionErased
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.store.log import EventFilter, EventLog

Thread: TypeAlias = SessionId | TaskId

MAX_KEPT = 64
_PAGE = 1000


class Conversations:
    """A cache of conversations, which can all be folded again from the log."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._kept: OrderedDict[Thread, Conversation] = OrderedDict()
        # A running turn may hold its conversation longer than the cache, and needs the new events.
        self._in_use: WeakValueDictionary[Thread, Conversation] = WeakValueDictionary()
        self._arriving: dict[Thread, list[Event]] = {}
        self._erasures = 0
        log.on_commit(self._follow, types=EVENT_TYPES | ERASURE_TYPES)

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
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return found

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
        conversation = Conversation(of=delegated)
        lineage = [(session_id, None)] if delegated else await self._lineage(session_id)
        for ancestor, end in lineage:
            after = 0
            which: EventFilter = {"before": end, "types": EVENT_TYPES, "session_id": ancestor, "task_id": delegated}
            which |= {"limit": _PAGE, "erased": True}
            while page := await self._log.read(**(which | {"after": after})):
                for event in page:
                    conversation.apply(event)
                after = page[-1].position
        for event in arriving:
            conversation.apply(event)
        self._arriving.pop(thread, None)
        return conversation

    async def _lineage(self, session_id: SessionId) -> list[tuple[SessionId, int | None]]:
        """Return the ancestors of a forked session, the oldest first, and itself. Each has the position before which it
        was forked, None for itself."""
        found: list[tuple[SessionId, int | None]] = []
        end: int | None = None
        while session_id:
            found.append((session_id, end))
            rows = await self._log.rows("sessions", where={"session_id": session_id}, limit=1)
            if not rows:
                break
            end = int(str(rows[0]["forked_at"])) + 1
            session_id = SessionId(str(rows[0]["parent"]))
        return found[::-1]

    def _follow(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if event.session_id is None:
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

    def _forget(self, sessions: tuple[SessionId, ...]) -> None:
        """Drop conversations with erased messages; no turn of these sessions runs. Those of running turns stay in
        `_in_use` and go on."""
        self._erasures += 1
        self._kept.clear()
        for session_id in sessions:
            self._in_use.pop(session_id, None)
