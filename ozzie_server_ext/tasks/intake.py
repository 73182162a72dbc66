"""What comes in from people and programs becomes tasks, by the configuration of that moment."""

from collections.abc import Sequence

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.events import Origin
from ozzie_server_ext.domain.ids import MessageId, SessionId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.tasks.allowances import limits_under
from ozzie_server_ext.tasks.configuration import Configuration
from ozzie_server_ext.tasks.secrets import SecretChanges
from ozzie_server_ext.tasks.service import Submitted, TaskService
from ozzie_server_ext.tasks.sessions import Sessions
from ozzie_server_ext.tasks.skill_starts import SkillStarts


class Intake:
    """Looks at the files first, and whether the session takes anything."""

    def __init__(
        self,
        configuration: Configuration,
        secrets: SecretChanges,
        sessions: Sessions,
        tasks: TaskService,
        starts: SkillStarts,
    ) -> None:
        self._configuration = configuration
        self._secrets = secrets
        self._sessions = sessions
        self._tasks = tasks
        self._starts = starts

    async def submit(
        self,
        session_id: SessionId,
        text: str,
        origin: Origin,
        *,
        model: str = "",
        message_id: MessageId | None = None,
        attended: bool = True,
        answer_schema: JsonObject | None = None,
        content: Content = CLEAN,
    ) -> Submitted:
        """A message, which becomes a turn. Raises as `TaskService.submit`, and for a session that takes none."""
        config = await self._configuration.refresh()
        await self._secrets.refresh()
        await self._sessions.expect_open(session_id)
        return await self._tasks.submit(
            session_id,
            text,
            origin,
            limits=limits_under(config.settings),
            model=model,
            message_id=message_id,
            attended=attended,
            answer_schema=answer_schema,
            content=content,
        )

    async def run_skill(
        self,
        session_id: SessionId,
        name: str,
        words: Sequence[str],
        origin: Origin,
        *,
        text: str = "",
        model: str = "",
        message_id: MessageId | None = None,
        attended: bool = True,
        content: Content = CLEAN,
    ) -> Submitted:
        """A skill, with its input as it was typed. Raises as `SkillStarts.typed`, and for a closed session."""
        await self._configuration.refresh()
        await self._secrets.refresh()
        await self._sessions.expect_open(session_id)
        return await self._tasks.run_skill(
            session_id,
            await self._starts.typed(name, words),
            text or " ".join(["%run", name, *words]),
            origin,
            limits=await self._starts.limits_of(name),
            model=model,
            message_id=message_id,
            attended=attended,
            content=content,
        )
