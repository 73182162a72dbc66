"""Pinned facts of sessions: every request to a model has them, however long the session gets."""

from ozzie_server_ext.agent.conversations import Conversations
from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound
from ozzie_server_ext.domain.events import HUB, Draft, SessionPinned, SessionUnpinned
from ozzie_server_ext.domain.ids import SessionId, session_stream
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.sessions import Sessions

MOST_PINS = 50
"""Pinned facts of a session."""
MOST_PINNED_CHARS = 1000
"""Characters of one."""


class Pins:
    """Pins facts, removes them and lists them. `by` is the authenticated name of the caller."""

    def __init__(self, log: EventLog, ids: IdSource, sessions: Sessions, conversations: Conversations) -> None:
        self._log = log
        self._ids = ids
        self._sessions = sessions
        self._conversations = conversations

    async def of(self, session_id: SessionId) -> tuple[SessionPinned, ...]:
        """Return a session's pinned facts in their order; a fork begins with its parent's. Raises NotFound."""
        await self._sessions.get(session_id)
        return (await self._conversations.get(session_id)).pins

    async def pin(self, session_id: SessionId, text: str, *, by: str) -> None:
        """Pin a fact. Raises NotFound, InputError for an empty or too long text, and Conflict if there are too many."""
        text = " ".join(text.split())
        if not text:
            raise InputError("The fact is empty.", hint="Write it behind the command.", code="input.pin")
        if len(text) > MOST_PINNED_CHARS:
            raise InputError(
                f"The fact has {len(text):,} characters; at most {MOST_PINNED_CHARS:,} are taken.",
                hint="Write it shorter, or put it into a file of the project and pin its name.",
                code="input.pin",
            )
        if len(await self.of(session_id)) >= MOST_PINS:
            raise Conflict(
                f"{MOST_PINS} facts are pinned already.",
                hint="Remove one with: %pin remove NUMBER",
                code="session.pins",
            )
        await self._record(session_id, SessionPinned(pin_id=self._ids.new(), text=text, by=by))

    async def unpin(self, session_id: SessionId, pin_id: str, *, by: str) -> None:
        """Remove a pinned fact. Raises NotFound."""
        if pin_id not in [pin.pin_id for pin in await self.of(session_id)]:
            raise NotFound("There is no such pinned fact.", hint="List them with: %pin", code="session.pins")
        await self._record(session_id, SessionUnpinned(pin_id=pin_id, by=by))

    async def _record(self, session_id: SessionId, fact: SessionPinned | SessionUnpinned) -> None:
        draft = Draft(body=fact, actor="user", source=HUB, session_id=session_id)
        await self._log.append(session_stream(session_id), [draft])
