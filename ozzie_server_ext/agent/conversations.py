"""The conversations of the sessions that are in use, kept up to date by the log so that no turn reads it twice."""

from collections import OrderedDict
from weakref import WeakValueDictionary

from ozzie_server_ext.agent.conversation import EVENT_TYPES, Conversation
from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.store.log import EventLog

MAX_KEPT = 64
_PAGE = 1000


class Conversations:
    """A cache and nothing more: any of it can be folded again from the log."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._kept: OrderedDict[SessionId, Conversation] = OrderedDict()
        # A turn in progress holds its conversation longer than the cache may: it has to go on growing.
        self._in_use: WeakValueDictionary[SessionId, Conversation] = WeakValueDictionary()
        self._arriving: dict[SessionId, list[Event]] = {}
        log.on_commit(self._follow)

    async def get(self, session_id: SessionId) -> Conversation:
        """The session's conversation, which goes on growing as facts are committed."""
        found = self._in_use.get(session_id)
        if found is None:
            loaded = await self._load(session_id)
            # Somebody else may have loaded it meanwhile: then that one is the one that grows.
            found = self._in_use.setdefault(session_id, loaded)
        self._kept[session_id] = found
        self._kept.move_to_end(session_id)
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return found

    async def _load(self, session_id: SessionId) -> Conversation:
        # What is committed during the reading is kept aside and applied last: no gap, and `apply` drops doubles.
        arriving = self._arriving.setdefault(session_id, [])
        conversation = Conversation()
        for ancestor, end in await self._lineage(session_id):
            after = 0
            while page := await self._log.read(
                after=after, before=end, limit=_PAGE, types=EVENT_TYPES, session_id=ancestor
            ):
                for event in page:
                    conversation.apply(event)
                after = page[-1].position
        for event in arriving:
            conversation.apply(event)
        self._arriving.pop(session_id, None)
        return conversation

    async def _lineage(self, session_id: SessionId) -> list[tuple[SessionId, int | None]]:
        """The sessions that this one was forked from, the first of all before the others, and at last itself; each
        with the position before which it was left, None for itself."""
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
            if event.session_id is None or event.type not in EVENT_TYPES:
                continue
            if (conversation := self._in_use.get(event.session_id)) is not None:
                conversation.apply(event)
            if (arriving := self._arriving.get(event.session_id)) is not None:
                arriving.append(event)
