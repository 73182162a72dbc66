"""Sessions: one isolated context per notebook, thread or terminal, found again by its key (SE-1)."""

import asyncio
from dataclasses import dataclass

from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.events import Draft, EventBody, SessionCreated, SessionModelChosen, SessionRenamed
from ozzie_server_ext.domain.ids import SessionId, session_stream
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row

TITLE_LENGTH = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """What a client is told of a session. `model` is what was chosen in it, empty for the default."""

    session_id: SessionId
    title: str
    channel: str
    model: str
    base_url: str
    message_count: int


class Sessions:
    """Opens, names and lists sessions. Everything is in the log; this only decides what to append."""

    def __init__(self, log: EventLog, ids: IdSource) -> None:
        self._log = log
        self._ids = ids
        # Two clients opening the same key at once must get the same session.
        self._opening = asyncio.Lock()

    async def open(self, key: str, *, title: str, channel: str) -> SessionInfo:
        """The session with this key; a new one where there is none yet."""
        async with self._opening:
            if rows := await self._log.rows("sessions", where={"key": key}, limit=1):
                return _info(rows[0])
            session_id = SessionId(f"sess_{self._ids.new()}")
            await self._append(session_id, SessionCreated(key=key, title=title[:TITLE_LENGTH], channel=channel))
        return await self.get(session_id)

    async def get(self, session_id: SessionId) -> SessionInfo:
        """Raises NotFound."""
        rows = await self._log.rows("sessions", where={"session_id": session_id}, limit=1)
        if not rows:
            raise NotFound(f"There is no session {session_id}.", hint="Open one by its name.")
        return _info(rows[0])

    async def rename(self, session_id: SessionId, title: str) -> None:
        await self.get(session_id)
        await self._append(session_id, SessionRenamed(title=title.strip()[:TITLE_LENGTH]))

    async def choose_model(self, session_id: SessionId, model: str, base_url: str = "") -> None:
        """From the next turn on, `model` answers in this session; empty for the default."""
        await self.get(session_id)
        await self._append(session_id, SessionModelChosen(model=model, base_url=base_url))

    async def _append(self, session_id: SessionId, body: EventBody) -> None:
        draft = Draft(body=body, actor="user", source="hub", session_id=session_id)
        await self._log.append(session_stream(session_id), [draft])


def _info(row: Row) -> SessionInfo:
    return SessionInfo(
        session_id=SessionId(str(row["session_id"])),
        title=str(row["title"]),
        channel=str(row["channel"]),
        model=str(row["chosen_model"]),
        base_url=str(row["chosen_base_url"]),
        message_count=int(str(row["message_count"])),
    )
