"""The labels of sessions and files, and clearing them."""

from pathlib import Path

import msgspec

from ozzie_server_ext.agent.conversations import Conversations
from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.events import HUB, Draft, LabelsCleared
from ozzie_server_ext.domain.ids import SessionId, session_stream
from ozzie_server_ext.render.text import quoted
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.marks import FileMarks
from ozzie_server_ext.tasks.approvals import Answerer
from ozzie_server_ext.tasks.sessions import Sessions

STREAM = "labels"


class MarkedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A labelled file of the project, and its provenance."""

    path: str
    content: Content


class Labels:
    """The labels of a project's files and of all sessions. Only persons may use this, never a kernel's token."""

    def __init__(
        self, log: EventLog, sessions: Sessions, conversations: Conversations, project: Path, marks: FileMarks
    ) -> None:
        self._log = log
        self._sessions = sessions
        self._conversations = conversations
        self._project = project
        self._marks = marks

    async def of_session(self, session_id: SessionId) -> Content:
        """Return a session's provenance, including its parent's part. Raises NotFound."""
        await self._sessions.get(session_id)
        return (await self._conversations.get(session_id)).content

    async def files(self) -> list[MarkedFile]:
        """Return the labelled files of the project, by path."""
        return [MarkedFile(path=path, content=content) for path, content in sorted((await self._marks.all()).items())]

    async def clear_session(self, session_id: SessionId, by: Answerer) -> Content:
        """Clear a session's labels; return what they were. Raises NotFound."""
        found = await self.of_session(session_id)
        if found:
            await self._record(session_stream(session_id), LabelsCleared(by=by.name, way=by.way), session_id)
        return found

    async def clear_file(self, path: str, by: Answerer) -> Content:
        """Clear a file's labels; return what they were. Raises NotFound if it has none."""
        marked = next((file for file in await self.files() if file.path == path), None)
        if marked is None:
            raise NotFound(
                f"{quoted(path)} bears no label.", hint="List the files that do with ozzie labels files.", code="labels"
            )
        await self._record(STREAM, LabelsCleared(by=by.name, way=by.way, path=f"{self._project}/{path}"), None)
        return marked.content

    async def _record(self, stream: str, fact: LabelsCleared, session_id: SessionId | None) -> None:
        await self._log.append(stream, [Draft(body=fact, actor="user", source=HUB, session_id=session_id)])
