"""The project folders of a gateway: each has its own settings, rules, skills, models, tools and files. A session works
in one of them (docs/adr/0056-projects.md)."""

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.agent.conversations import Conversations
from ozzie_server_ext.agent.plan import TurnParts
from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.config.home import Home, shipped
from ozzie_server_ext.config.loader import Config
from ozzie_server_ext.domain.clock import Clock, IdSource
from ozzie_server_ext.domain.errors import InputError, PolicyError, Unavailable
from ozzie_server_ext.domain.events import Brief, Event, SessionMoved
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.execution.host_commands import Children
from ozzie_server_ext.execution.runner import JobRunner
from ozzie_server_ext.jupyter.documents import Jupyter
from ozzie_server_ext.jupyter.kernels import KernelsBelow
from ozzie_server_ext.models.chain import Health
from ozzie_server_ext.models.credentials import KnownSecrets, VaultSecrets
from ozzie_server_ext.models.driver import ModelChoice, ModelDriver, Models, ProviderAccess
from ozzie_server_ext.models.facts import FactBook
from ozzie_server_ext.models.foreign import ForeignWorkerDriver
from ozzie_server_ext.models.ledger import Ledger
from ozzie_server_ext.models.rates import Rates
from ozzie_server_ext.models.worker_client import KnownProviders, WorkerDriver
from ozzie_server_ext.planes.pool import Pool
from ozzie_server_ext.plugins.loading import Loading
from ozzie_server_ext.plugins.tool_host import ToolHost
from ozzie_server_ext.policy.decision import Caller
from ozzie_server_ext.policy.engine import Rulings
from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.skills.library import Library
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.feed import Feed
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.marks import FileMarks
from ozzie_server_ext.tasks.approvals import ApprovalCards, Approvals
from ozzie_server_ext.tasks.budgets import TaskBudgets, limits_under
from ozzie_server_ext.tasks.completion import Completion, Inspection, ProjectFiles
from ozzie_server_ext.tasks.concurrency import IdleTasks
from ozzie_server_ext.tasks.configuration import Configuration, SecretChanges
from ozzie_server_ext.tasks.driver import TaskDriver
from ozzie_server_ext.tasks.forks import Forks
from ozzie_server_ext.tasks.incidents import Incidents
from ozzie_server_ext.tasks.intake import Intake, Joining
from ozzie_server_ext.tasks.labels import Labels
from ozzie_server_ext.tasks.message_calls import MessageCalls
from ozzie_server_ext.tasks.models import LastModelCalls, ModelDetails, ModelKnowledge, ModelService
from ozzie_server_ext.tasks.pauses import PausePoints
from ozzie_server_ext.tasks.pictures import PictureIntake
from ozzie_server_ext.tasks.plugin_tools import PluginTools
from ozzie_server_ext.tasks.progress import Progress, StepProgress, TaskEnds
from ozzie_server_ext.tasks.reconciliation import Reconciler
from ozzie_server_ext.tasks.rules import RulesInForce
from ozzie_server_ext.tasks.server_completion import ServerCompletion
from ozzie_server_ext.tasks.server_tools import OwnServers, ServerTools
from ozzie_server_ext.tasks.service import TaskService
from ozzie_server_ext.tasks.session_tasks import TasksOfSession
from ozzie_server_ext.tasks.sessions import EarlierRuns, Sessions
from ozzie_server_ext.tasks.signals import SignalWaits
from ozzie_server_ext.tasks.spent import SpentToday
from ozzie_server_ext.tasks.times import TaskTimes
from ozzie_server_ext.tasks.turn_tools import SkillTools, TurnTools
from ozzie_server_ext.tasks.updates import UpdateIntake
from ozzie_server_ext.tasks.workflows.delegation import Delegation
from ozzie_server_ext.tasks.workflows.run_waits import RunWaits
from ozzie_server_ext.tasks.workflows.skill_starts import SkillStarts
from ozzie_server_ext.tools.base import Tool, ToolContext
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.index import ToolIndex
from ozzie_server_ext.tools.offering import FIND_ID, allowed
from ozzie_server_ext.tools.outcome import OutcomeWriter
from ozzie_server_ext.tools.permissions import Permissions
from ozzie_server_ext.tools.questions import Prompts
from ozzie_server_ext.tools.registry import ToolRegistry
from ozzie_server_ext.vault.scope import ProjectReader
from ozzie_server_ext.vault.vault import Vault
from ozzie_server_ext.web.reach import ErrandWeb

if TYPE_CHECKING:  # what only running tasks need is loaded with the first of them
    from ozzie_server_ext.tasks.turn_runner import TurnRunner
    from ozzie_server_ext.tasks.workflows.runner import TaskRunner
    from ozzie_server_ext.tasks.workflows.step_runner import StepParts
    from ozzie_server_ext.tools.broker import ToolBroker


_FOR_MODELS = frozenset({FIND_ID, "user.ask"})


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """What all projects of a gateway share: the log, the workers, the tasks, and what people are asked. `own` is the
    folder of the gateway's own project."""

    home: Home
    own: Path
    clock: Clock
    ids: IdSource
    jupyter: Jupyter
    log: EventLog
    feed: Feed
    blobs: BlobStore
    artifacts: ArtifactStore
    vault: Vault
    secrets: SecretChanges
    known_secrets: KnownSecrets
    offline: ModelDriver
    workers: Pool
    known_providers: KnownProviders
    facts: FactBook
    health: Health
    rates: Rates
    ledger: Ledger
    jobs: JobRunner
    commands: Children
    servers: OwnServers
    own_host: ToolHost
    incidents: Incidents
    tool_host: Callable[[str], ToolHost]
    sessions: Sessions
    conversations: Conversations
    approvals: Approvals
    spent: SpentToday
    progress: Progress
    times: TaskTimes
    idle: IdleTasks
    pauses: PausePoints
    run_waits: RunWaits
    driver: TaskDriver
    tasks: TaskService
    ends: TaskEnds
    steps: StepProgress
    signals: SignalWaits
    updates: UpdateIntake
    joining: Joining
    prompts: Prompts


class Project:
    """A project folder, and everything that depends on it. `root` is its absolute path."""

    def __init__(self, shared: Shared, root: Path) -> None:
        self.root = root
        self._shared = shared
        self._build_settings()
        self._build_models()
        self._build_tools()
        self._build_intake()
        self._build_views()

    @classmethod
    async def open(cls, shared: Shared, root: Path) -> "Project":
        """Return the project after reading its files: the configuration, then skills, then rules, which name tools.
        Invalid files are reported where they are used. Raises Unavailable if the folder overlaps Ozzie's own."""
        await asyncio.to_thread(expect_apart, shared, root)
        project = cls(shared, root)
        await project.configuration.refresh()
        await project._skill_tools.refresh()
        await project.server_tools.refresh()
        await project.plugin_tools.refresh()
        await project.rules.refresh()
        return project

    async def close(self) -> None:
        await self._foreign.close()
        await self.server_tools.close()
        await self.plugin_tools.close()
        await self._host.stop()

    @property
    def config(self) -> Config:
        return self.configuration.current

    def _build_settings(self) -> None:
        """Build the configuration, the skills and the rules."""
        shared, root = self._shared, self.root
        self.configuration = Configuration(shared.home, root, shared.log, shared.blobs)
        self.tools = ToolRegistry(builtin_tools())
        self.skills = Library(shared.home, root, shipped("skills"), lambda: self.config.settings)
        self._skill_tools = SkillTools(self.skills, self.tools)
        self._host = shared.tool_host(f"tool host of {root}")
        self.server_tools = ServerTools(
            shared.home, root, self.tools, shared.servers, self._host, shared.log, shared.blobs
        )
        self.plugin_tools = PluginTools(
            shared.home,
            root,
            self.tools,
            Loading(shared.home, root, shared.vault, shared.known_secrets.note_value, shared.jupyter.private),
            shared.own_host,
            self._host,
            shared.log,
            shared.blobs,
            shared.incidents,
            self.configuration,
        )
        self.rules = RulesInForce(shared.home, root, self.tools, shared.log, shared.blobs, shared.spent)

    def _build_models(self) -> None:
        """Build the drivers of models, with the keys and addresses of this project."""
        shared = self._shared
        worker = WorkerDriver(shared.workers, self._access, shared.blobs.get, known=shared.known_providers)
        self._foreign = ForeignWorkerDriver(self._access)
        self._drivers = Models(offline=shared.offline, worker=worker, foreign=self._foreign)
        self._last_calls = LastModelCalls(shared.log, shared.clock, cooling_s=shared.health.cooling_s)
        self.models = ModelService(
            self.configuration,
            shared.sessions,
            warm=worker.warm,
            last_calls=self._last_calls,
            config_file=shared.home.config_file,
            health=shared.health,
            secrets=VaultSecrets(shared.vault, ProjectReader.at(self.root)),
        )
        self._knowledge = ModelKnowledge(
            lambda: self.models.registry, shared.facts, is_ready=lambda: shared.workers.ready
        )

    def _build_tools(self) -> None:
        """Build the context of the tools, and what is asked of people before a call."""
        shared = self._shared
        self._permissions = Permissions(
            shared.artifacts,
            shared.clock,
            shared.ids,
            shared.approvals,
            expires_s=lambda: self.config.settings.approvals.expires_s,
            known_secrets=shared.known_secrets.values,
        )
        self._marks = FileMarks(shared.log, self.root)
        self._tool_context = ToolContext(
            self.root,
            shared.clock,
            jobs=shared.jobs,
            children=shared.commands,
            marks=self._marks,
            web=ErrandWeb(),
            jupyter=self._jupyter(),
            is_elsewhere=self.root != shared.own,
        )
        self._index = ToolIndex(self.tools)
        self._turn_tools = TurnTools(
            self._tool_context,
            shared.artifacts,
            self._index,
            self.rules,
            (self._skill_tools, self.server_tools, self.plugin_tools),
            lambda recorder: TasksOfSession(shared.log, shared.tasks, recorder.session_id, recorder.task_id),
        )
        self.cards = ApprovalCards(shared.log, shared.approvals, self.tools, self._turn_tools.context_of)
        self.reconciler = Reconciler(
            self.tools.may_be_repeated,
            lambda tool_id, effect: self._broker.happened(tool_id, effect, self._tool_context),
            self.tools.takes_key,
        )

    def _build_intake(self) -> None:
        """Build the intake of messages."""
        shared = self._shared
        self.starts = SkillStarts(
            self.skills,
            shared.blobs,
            self.tools,
            lambda: self.models.registry,
            lambda: limits_under(self.config.settings),
        )
        self.message_calls = MessageCalls(self.server_tools)
        self.pictures = PictureIntake(self.root, shared.blobs, self._marks.below)
        self.intake = Intake(
            self.configuration,
            shared.secrets,
            shared.sessions,
            shared.tasks,
            self.starts,
            shared.joining,
            self.message_calls,
        )

    def _build_views(self) -> None:
        """Build the views for clients."""
        shared = self._shared
        self.labels = Labels(shared.log, shared.sessions, shared.conversations, self.root, self._marks)
        self.earlier = EarlierRuns(shared.log, self.tools)
        self.forks = Forks(shared.log, shared.sessions, self.tools, self.root)
        self.details = ModelDetails(shared.log, shared.clock, self.models, self._knowledge, self._last_calls)
        files = ProjectFiles(self.root)
        self.completion = Completion(
            shared.sessions, self.models, files, self.skills, ServerCompletion(self.server_tools)
        )
        self.inspection = Inspection(shared.sessions, self.models, self.details, self.tools, files)

    async def client_tools(self, caller: Caller) -> tuple[Tool, ...]:
        """Return the tools that an MCP client may call: all that a turn could be offered, but those with which a model
        finds tools and asks the user, and those that are for clients."""
        settings = (await self.configuration.refresh()).settings
        may_delegate = settings.skills.max_delegations > 0
        offers = await self._turn_tools.offers(settings.tools, caller, Brief(), may_delegate=may_delegate)
        own = (tool for tool in self.tools.all() if tool.meta.for_clients and tool.meta.tool_id not in offers.denied)
        return (*(tool for tool in allowed(self.tools.all(), offers) if tool.meta.tool_id not in _FOR_MODELS), *own)

    @cached_property
    def runs(self) -> "TaskRunner":
        """The runner of tasks: of turns, and of skills."""
        from ozzie_server_ext.tasks.workflows.runner import TaskRunner

        runs = TaskRunner(self.turn_runner.run)
        runs.connect(self._step_parts(), self._shared.driver, self._shared.tasks)
        return runs

    @cached_property
    def turn_runner(self) -> "TurnRunner":
        """The runner of turns."""
        from ozzie_server_ext.tasks.turn_runner import PresentModels, TurnDelegation, TurnRunner

        shared = self._shared
        parts = TurnParts(
            models=self._drivers,
            health=shared.health,
            rates=shared.rates,
            ledger=shared.ledger,
            registry=self.tools,
            index=self._index,
            broker=self._broker,
            blobs=shared.blobs,
            feed=shared.feed,
            clock=shared.clock,
            ids=shared.ids,
            known_secrets=shared.known_secrets.values,
            leaving=lambda: shared.driver.stopping,
        )
        budgets = TaskBudgets(shared.log, shared.times, lambda: self.config.settings.budgets, self.root, shared.clock)
        return TurnRunner(
            parts,
            self.configuration,
            sessions=shared.sessions,
            conversations=shared.conversations,
            models=PresentModels(self.models, self._knowledge, shared.progress),
            budgets=budgets,
            tools=self._turn_tools,
            delegation=TurnDelegation(
                shared.log, shared.idle, lambda row, recorder, room: self.runs.delegates(row, recorder, room)
            ),
            pauses=shared.pauses,
        )

    @cached_property
    def _broker(self) -> "ToolBroker":
        return self._gate(self.rules)

    def _jupyter(self) -> Jupyter:
        """Return the access to Jupyter, whose server has the gateway's own folder as its root."""
        around, server = self._shared.jupyter, self._shared.own
        if self.root == server:
            return around
        return replace(around, kernels=KernelsBelow(around.kernels, server, self.root))

    def _gate(self, rulings: Rulings) -> "ToolBroker":
        from ozzie_server_ext.tools.broker import ToolBroker

        shared = self._shared
        outcomes = OutcomeWriter(shared.artifacts, shared.known_secrets.values)
        return ToolBroker(
            self.tools,
            rulings,
            self._permissions,
            outcomes,
            shared.artifacts,
            shared.clock,
            shared.ids,
            shared.feed.publish,
            shared.prompts,
        )

    def _step_parts(self) -> "StepParts":
        from ozzie_server_ext.tasks.workflows.quick_calls import QuickCalls, RecentRules
        from ozzie_server_ext.tasks.workflows.step_runner import StepParts

        shared = self._shared
        return StepParts(
            log=shared.log,
            blobs=shared.blobs,
            ids=shared.ids,
            delegation=Delegation(shared.log, shared.driver),
            ends=shared.ends,
            starts=self.starts,
            progress=shared.steps,
            pauses=shared.pauses,
            idle=shared.idle,
            signals=shared.signals,
            quick=QuickCalls(self._gate(RecentRules(self.rules, shared.clock)), self.tools.meta),
            times=shared.times,
            context_of=self._turn_tools.context_of,
            updates=shared.updates,
            waits=shared.run_waits,
        )

    def _access(self, choice: ModelChoice) -> ProviderAccess:
        """Return the access to a provider by the settings at the time of the call, not of the turn's start."""
        access = self.models.access(choice)
        self._shared.known_secrets.note(access)
        return access


_MOST_SESSIONS = 10_000
"""The size of the cache of `Projects`."""


class Projects:
    """The projects in use. One is opened when it is first needed, and stays open. `own` is the gateway's."""

    def __init__(
        self, own: Path, log: EventLog, sessions: Sessions, opener: Callable[[Path], Awaitable[Project]]
    ) -> None:
        self._own = own
        self._sessions = sessions
        self._opener = opener
        self._projects: dict[Path, Project] = {}
        self._of: dict[SessionId, Project] = {}
        """The projects of sessions that were looked up. That of a session that moves is forgotten."""
        self._moves = 0
        log.on_commit(self._forget, types={SessionMoved.type})
        # Two clients that need the same project at once must get the same one, and a slow disk holds up its own only.
        self._opening: dict[Path, asyncio.Lock] = {}

    @property
    def own(self) -> Project:
        """The project of the gateway's own folder, which `at` has opened."""
        return self._projects[self._own]

    @property
    def opened(self) -> tuple[Project, ...]:
        return tuple(self._projects.values())

    async def at(self, root: Path | None = None) -> Project:
        """Return the project of a folder; by default the gateway's own. Raises InputError if there is no such folder,
        PolicyError if tools could reach Ozzie's own files there."""
        if root is None:
            return await self._open(self._own)
        folder = await asyncio.to_thread(_existing, root)
        try:
            return await self._open(folder)
        except Unavailable as error:
            raise PolicyError(str(error), hint="Name another folder.", code=error.code) from None

    async def of(self, session_id: SessionId) -> Project:
        """Return the project of a session. Its folder may be gone, so that the tools find no files. Raises NotFound for
        an unknown session, Unavailable if tools could reach Ozzie's own files in the folder."""
        if (known := self._of.get(session_id)) is not None:
            return known
        before = self._moves
        recorded = str((await self._sessions.row(session_id))["project"])
        project = self._projects.get(Path(recorded)) if recorded else self.own
        if project is None:  # not remembered: a link on the way may lead elsewhere the next time
            return await self._open(await asyncio.to_thread(_real, Path(recorded)))
        if before == self._moves:  # else it may have moved meanwhile
            self._of[session_id] = project
            if len(self._of) > _MOST_SESSIONS:
                del self._of[next(iter(self._of))]
        return project

    def _forget(self, events: tuple[Event, ...]) -> None:
        self._moves += 1
        for event in events:
            if event.session_id is not None:
                self._of.pop(event.session_id, None)

    async def close(self) -> None:
        await asyncio.gather(*(project.close() for project in self.opened))

    async def _open(self, folder: Path) -> Project:
        async with self._opening.setdefault(folder, asyncio.Lock()):
            if folder not in self._projects:
                self._projects[folder] = await self._opener(folder)
        return self._projects[folder]


def expect_apart(shared: Shared, root: Path) -> None:
    """Raise Unavailable if tools could reach Ozzie's own folders, or those of running servers, through the project."""
    shared.home.expect_apart(root)
    for private in shared.jupyter.private:
        if root.is_relative_to(_real(private)):
            raise Unavailable(
                f"The project {visible_label(str(root))} lies in a folder with the keys of running servers.",
                hint="Work in another folder.",
                code="project.private",
            )


def _existing(root: Path) -> Path:
    """Return the path of a folder without links: two paths of one folder are one project. Raises InputError."""
    name = visible_label(str(root))
    if not root.is_absolute():
        raise InputError(
            f"{name} is no absolute path.", hint="Name the project's folder by its whole path.", code="project.path"
        )
    try:
        folder = _real(root)
        is_folder = stat.S_ISDIR(folder.stat().st_mode)
    except (OSError, ValueError) as error:  # a path with a null byte is no value
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(
            f"{name} can't be a project: {why}.", hint="Check its name and its rights.", code="project.path"
        ) from None
    if not is_folder:
        raise InputError(f"{name} is not a folder.", hint="Name the folder that it is in.", code="project.path")
    return folder


def _real(path: Path) -> Path:
    """Return the path without links. Of a circle of links, what it names stays."""
    return Path(os.path.realpath(path))
