"""The labels of sessions and files: what of them came from outside, and who takes that off."""

from dataclasses import dataclass
from pathlib import Path

from ozzie_server_ext.agent.conversation import Conversations
from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.events import Draft, LabelsCleared
from ozzie_server_ext.domain.ids import SessionId, session_stream
from ozzie_server_ext.render.text import quoted
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.marks import FileMarks
from ozzie_server_ext.tasks.approvals import Answerer
from ozzie_server_ext.tasks.sessions import Sessions

STREAM = "labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedFile:
    """A file of the project, by its path below it, and what it was made from."""

    path: str
    content: Content


class Labels:
    """Those of one project's files and of all sessions. Only persons get here: a kernel's token opens no way to it."""

    def __init__(
        self, log: EventLog, sessions: Sessions, conversations: Conversations, project: Path, marks: FileMarks
    ) -> None:
        self._log = log
        self._sessions = sessions
        self._conversations = conversations
        self._project = project.resolve()
        self._marks = marks

    async def of_session(self, session_id: SessionId) -> Content:
        """What of it came from outside, its parent's part included. Raises NotFound."""
        await self._sessions.get(session_id)
        return (await self._conversations.get(session_id)).content

    async def files(self) -> list[MarkedFile]:
        """Those of the project, by their paths."""
        return [MarkedFile(path=path, content=content) for path, content in sorted((await self._marks.all()).items())]

    async def clear_session(self, session_id: SessionId, by: Answerer) -> Content:
        """Take off what the session has read so far; what that was. Raises NotFound."""
        found = await self.of_session(session_id)
        if found:
            await self._record(session_stream(session_id), LabelsCleared(by=by.name, way=by.way), session_id)
        return found

    async def clear_file(self, path: str, by: Answerer) -> Content:
        """Take off what a file was made from; what that was. Raises NotFound where it bears none."""
        marked = next((file for file in await self.files() if file.path == path), None)
        if marked is None:
            raise NotFound(
                f"{quoted(path)} bears no label.", hint="List the files that do with ozzie labels files.", code="labels"
            )
        await self._record(STREAM, LabelsCleared(by=by.name, way=by.way, path=f"{self._project}/{path}"), None)
        return marked.content

    async def _record(self, stream: str, fact: LabelsCleared, session_id: SessionId | None) -> None:
        await self._log.append(stream, [Draft(body=fact, actor="user", source="hub", session_id=session_id)])
