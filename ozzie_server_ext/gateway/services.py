"""What the handlers use of Ozzie; `app.py` provides it."""

from typing import TYPE_CHECKING, Protocol

from ozzie_server_ext.artifacts.erasing import Eraser
from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.toolmeta import Capability
from ozzie_server_ext.planes.pool import Pool
from ozzie_server_ext.replay.service import Replays
from ozzie_server_ext.store.anchor import Anchoring
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.checks import DailyCheck
from ozzie_server_ext.store.feed import Feed
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.troubles import Troubles
from ozzie_server_ext.tasks.answers import Answers
from ozzie_server_ext.tasks.approvals import Approvals
from ozzie_server_ext.tasks.budgets import TodaysUsage
from ozzie_server_ext.tasks.configuration import SecretChanges
from ozzie_server_ext.tasks.confirmations import Confirmations
from ozzie_server_ext.tasks.control import TaskControl
from ozzie_server_ext.tasks.erasures import Erasures
from ozzie_server_ext.tasks.incidents import Incidents
from ozzie_server_ext.tasks.pins import Pins
from ozzie_server_ext.tasks.projects import Projects
from ozzie_server_ext.tasks.search import Search
from ozzie_server_ext.tasks.service import NewTurn, Submitted, TaskService
from ozzie_server_ext.tasks.sessions import Notebooks, Sessions
from ozzie_server_ext.tasks.views import FoldedTurns
from ozzie_server_ext.tools.questions import Prompts

if TYPE_CHECKING:
    from ozzie_server_ext.export.service import Exports
    from ozzie_server_ext.gateway.mcp_plane import McpPlane


class Services(Protocol):
    """Ozzie without HTTP. `started_at` is in monotonic seconds."""

    @property
    def home(self) -> Home: ...
    @property
    def projects(self) -> Projects: ...
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
    def search(self) -> Search: ...
    @property
    def exports(self) -> "Exports": ...
    @property
    def replays(self) -> Replays: ...
    @property
    def pins(self) -> Pins: ...
    @property
    def prompts(self) -> Prompts: ...
    @property
    def notebooks(self) -> Notebooks: ...
    @property
    def secrets(self) -> SecretChanges: ...
    @property
    def tasks(self) -> TaskService: ...
    @property
    def control(self) -> TaskControl: ...
    @property
    def artifacts(self) -> ArtifactStore: ...
    @property
    def eraser(self) -> Eraser: ...
    @property
    def erasures(self) -> Erasures: ...
    @property
    def answers(self) -> Answers: ...
    @property
    def approvals(self) -> Approvals: ...
    @property
    def incidents(self) -> Incidents: ...

    @property
    def confirmations(self) -> Confirmations: ...
    @property
    def today(self) -> TodaysUsage: ...
    @property
    def turns(self) -> FoldedTurns: ...
    @property
    def workers(self) -> Pool: ...
    @property
    def mcp(self) -> "McpPlane": ...
    @property
    def clock(self) -> Clock: ...
    @property
    def anchoring(self) -> Anchoring: ...
    @property
    def daily_check(self) -> DailyCheck: ...
    @property
    def troubles(self) -> Troubles: ...

    @property
    def busy(self) -> bool:
        """Whether a task makes progress here; see `TaskDriver.busy`."""
        ...

    def problem_of(self, capability: Capability) -> str:
        """Return why a capability is not there, and what to do; "" if it is."""
        ...

    async def submit(self, turn: NewTurn) -> Submitted:
        """See `tasks.intake.Intake`."""
        ...
