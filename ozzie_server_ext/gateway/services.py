"""What the handlers need of Ozzie: the port that `app.py` fills."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ozzie_server_ext.artifacts.erasing import Eraser
from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.loader import Config
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.events import Origin
from ozzie_server_ext.domain.ids import MessageId, SessionId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.planes.pool import Pool
from ozzie_server_ext.skills.library import Library
from ozzie_server_ext.store.anchoring import Anchoring
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.checks import DailyCheck
from ozzie_server_ext.store.feed import Feed
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.troubles import Troubles
from ozzie_server_ext.tasks.answers import Answers
from ozzie_server_ext.tasks.approvals import Approvals, Cards
from ozzie_server_ext.tasks.budgets import TodaysUsage
from ozzie_server_ext.tasks.completion import Completion, Inspection
from ozzie_server_ext.tasks.configuration import SecretChanges
from ozzie_server_ext.tasks.control import TaskControl
from ozzie_server_ext.tasks.labels import Labels
from ozzie_server_ext.tasks.models import ModelDetails, ModelService
from ozzie_server_ext.tasks.rules import RulesInForce
from ozzie_server_ext.tasks.service import Submitted, TaskService
from ozzie_server_ext.tasks.sessions import EarlierRuns, Notebooks, Sessions
from ozzie_server_ext.tasks.views import FoldedTurns
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
    def anchoring(self) -> Anchoring: ...
    @property
    def daily_check(self) -> DailyCheck: ...
    @property
    def troubles(self) -> Troubles: ...

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
        content: Content = CLEAN,
    ) -> Submitted:
        """A message becomes a turn under the settings of this moment; with the same `message_id`, once. Where it is not
        `attended`, nobody is there to be asked. With an `answer_schema`, its answer is JSON that fits it. `content` is
        what of it is no person's own.

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
        content: Content = CLEAN,
    ) -> Submitted:
        """Begin a run of a skill with an input as it was typed; with the same `message_id`, once. `text` is how it was
        asked for. Raises NotFound, SkillError, InputError, or Conflict in a closed session."""
        ...
