"""What the handlers need of Ozzie: the port that `app.py` fills."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ozzie_server_ext.artifacts.erasing import Eraser
from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.loader import Config
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.events import Origin
from ozzie_server_ext.domain.ids import MessageId, SessionId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.planes.pool import Pool
from ozzie_server_ext.skills.library import Library
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.feed import Feed
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.answers import Answers
from ozzie_server_ext.tasks.approvals import Approvals
from ozzie_server_ext.tasks.cards import Cards
from ozzie_server_ext.tasks.completion import Completion
from ozzie_server_ext.tasks.control import TaskControl
from ozzie_server_ext.tasks.earlier import EarlierRuns
from ozzie_server_ext.tasks.folded_turns import FoldedTurns
from ozzie_server_ext.tasks.inspection import Inspection
from ozzie_server_ext.tasks.labels import Labels
from ozzie_server_ext.tasks.model_details import ModelDetails
from ozzie_server_ext.tasks.model_service import ModelService
from ozzie_server_ext.tasks.notebooks import Notebooks
from ozzie_server_ext.tasks.rules import RulesInForce
from ozzie_server_ext.tasks.secrets import SecretChanges
from ozzie_server_ext.tasks.service import Submitted, TaskService
from ozzie_server_ext.tasks.sessions import Sessions
from ozzie_server_ext.tasks.today import TodaysUsage
from ozzie_server_ext.tools.registry import ToolRegistry


class Services(Protocol):
    """Ozzie without HTTP. `project` is the root of the user's project folder, `started_at` monotonic seconds."""

    @property
    def home(self) -> Home: ...
    @property
    def project(self) -> Path: ...
    @property
    def started_at(self) -> float: ...
    @property
    def log(self) -> EventLog: ...
    @property
    def blobs(self) -> BlobStore: ...
    @property
    def feed(self) -> Feed: ...
    @property
    def sessions(self) -> Sessions: ...
    @property
    def notebooks(self) -> Notebooks: ...
    @property
    def earlier(self) -> EarlierRuns: ...
    @property
    def secrets(self) -> SecretChanges: ...
    @property
    def tasks(self) -> TaskService: ...
    @property
    def control(self) -> TaskControl: ...
    @property
    def labels(self) -> Labels: ...
    @property
    def artifacts(self) -> ArtifactStore: ...
    @property
    def eraser(self) -> Eraser: ...
    @property
    def answers(self) -> Answers: ...
    @property
    def approvals(self) -> Approvals: ...
    @property
    def cards(self) -> Cards: ...
    @property
    def today(self) -> TodaysUsage: ...
    @property
    def turns(self) -> FoldedTurns: ...
    @property
    def models(self) -> ModelService: ...
    @property
    def workers(self) -> Pool: ...
    @property
    def tools(self) -> ToolRegistry: ...
    @property
    def skills(self) -> Library: ...
    @property
    def rules(self) -> RulesInForce: ...
    @property
    def details(self) -> ModelDetails: ...
    @property
    def completion(self) -> Completion: ...
    @property
    def inspection(self) -> Inspection: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def config(self) -> Config: ...
    @property
    def config_error(self) -> str: ...
    @property
    def log_warning(self) -> str:
        """Why the log is not what was anchored, or can't be anchored; empty where all is well."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a task runs or waits here."""
        ...

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
    ) -> Submitted:
        """A message becomes a turn under the settings of this moment; with the same `message_id`, once. Where it is not
        `attended`, nobody is there to be asked. With an `answer_schema`, its answer is JSON that fits it.

        Raises NotFound, InputError, or Conflict in a closed session.
        """
        ...

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
    ) -> Submitted:
        """Begin a run of a skill with an input as it was typed; with the same `message_id`, once. `text` is how it was
        asked for. Raises NotFound, SkillError, InputError, or Conflict in a closed session."""
        ...
