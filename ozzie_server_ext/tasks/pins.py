"""Pinned facts of sessions: the model of each turn reads them, however long the session gets."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from ozzie_server_ext.agent.conversations import Conversations
from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound, VersionConflict
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

    async def pin(self, session_id: SessionId, text: str, *, by: str) -> bool:
        """Pin a fact; return whether that changed anything: an equal text stays as it is. Raises NotFound, InputError
        for an empty or too long text, and Conflict if there are too many."""
        text = " ".join(text.split())
        if not text:
            raise InputError("The fact is empty.", hint="Write it behind the command.", code="input.pin")
        if len(text) > MOST_PINNED_CHARS:
            raise InputError(
                f"The fact has {len(text):,} characters; at most {MOST_PINNED_CHARS:,} are taken.",
                hint="Write it shorter, or put it into a file of the project and pin its name.",
                code="input.pin",
            )

        def pinned(pins: Sequence[SessionPinned]) -> SessionPinned | None:
            # A client that lost its connection repeats its request, and can't know whether it was carried out.
            if text in [pin.text for pin in pins]:
                return None
            if len(pins) >= MOST_PINS:
                raise Conflict(
                    f"{MOST_PINS} facts are pinned already.",
                    hint="Remove one with: %pin remove NUMBER",
                    code="session.pins",
                )
            return SessionPinned(pin_id=self._ids.new(), text=text, by=by)

        return await self._change(session_id, pinned)

    async def unpin(self, session_id: SessionId, pin_id: str, *, by: str) -> None:
        """Remove a pinned fact. Raises NotFound."""

        def unpinned(pins: Sequence[SessionPinned]) -> SessionUnpinned:
            if pin_id not in [pin.pin_id for pin in pins]:
                raise NotFound("There is no such pinned fact.", hint="List them with: %pin", code="session.pins")
            return SessionUnpinned(pin_id=pin_id, by=by)

        await self._change(session_id, unpinned)

    async def _change(
        self, session_id: SessionId, decide: Callable[[Sequence[SessionPinned]], SessionPinned | SessionUnpinned | None]
    ) -> bool:
        """Record what `decide` makes of the present pins, and decide again if the session changes meanwhile. Return
        whether there was anything to record."""
        stream = session_stream(session_id)
        while True:
            version = await self._log.version(stream)
            fact = decide(await self.of(session_id))
            if fact is None:
                return False
            draft = Draft(body=fact, actor="user", source=HUB, session_id=session_id)
            with suppress(VersionConflict):
                await self._log.append(stream, [draft], expected_version=version)
                return True
