"""Builds every object of the gateway once, starts the running ones, and stops them in the opposite order."""

import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from ozzie_server_ext.agent.conversations import Conversations
from ozzie_server_ext.agent.plan import TurnParts
from ozzie_server_ext.artifacts.erasing import Eraser, Sweep
from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.config.home import Home, anchor_key_file, key_folder, shipped
from ozzie_server_ext.config.loader import Config
from ozzie_server_ext.config.settings import ArtifactsSettings
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.toolmeta import Capability
from ozzie_server_ext.execution.box import find_programs
from ozzie_server_ext.execution.bubblewrap import BubblewrapRunner
from ozzie_server_ext.jupyter.documents import Jupyter
from ozzie_server_ext.jupyter.kernels import NoKernels
from ozzie_server_ext.models.chain import Health
from ozzie_server_ext.models.credentials import KnownSecrets, VaultSecrets
from ozzie_server_ext.models.driver import ModelChoice, ModelDriver, Models, ProviderAccess
from ozzie_server_ext.models.facts import FactBook
from ozzie_server_ext.models.foreign import ForeignWorkerDriver
from ozzie_server_ext.models.ledger import Ledger
from ozzie_server_ext.models.offline import OfflineDriver
from ozzie_server_ext.models.rates import Rates
from ozzie_server_ext.models.worker_client import WORKER_ARGV, WorkerDriver
from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.observability.logs import log_to, logger, stop_logging
from ozzie_server_ext.planes.pool import Pool, usual_limit
from ozzie_server_ext.planes.supervisor import Supervisor
from ozzie_server_ext.policy.engine import Rulings
from ozzie_server_ext.skills.library import Library
from ozzie_server_ext.store.anchor import AnchorFiles, Anchoring
from ozzie_server_ext.store.blobs import FileBlobs
from ozzie_server_ext.store.checks import DailyCheck
from ozzie_server_ext.store.feed import Feed
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.marks import FileMarks
from ozzie_server_ext.store.readable import ReadableFiles
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.store.troubles import Troubles
from ozzie_server_ext.store.writer import OwnerWatch
from ozzie_server_ext.tasks.activity import Activity
from ozzie_server_ext.tasks.answers import Answers
from ozzie_server_ext.tasks.approvals import ApprovalCards, Approvals, Expiry
from ozzie_server_ext.tasks.budgets import TaskBudgets, TodaysUsage, balance_of, limits_under
from ozzie_server_ext.tasks.completion import Completion, Inspection, ProjectFiles
from ozzie_server_ext.tasks.concurrency import IdleTasks, TaskSlots
from ozzie_server_ext.tasks.configuration import Configuration, SecretChanges
from ozzie_server_ext.tasks.control import Retries, TaskControl
from ozzie_server_ext.tasks.driver import TaskDriver
from ozzie_server_ext.tasks.intake import Intake, Joining, PictureIntake
from ozzie_server_ext.tasks.labels import Labels
from ozzie_server_ext.tasks.models import LastModelCalls, ModelDetails, ModelKnowledge, ModelService
from ozzie_server_ext.tasks.pauses import PausePoints, Pauses
from ozzie_server_ext.tasks.reconciliation import Reconciler
from ozzie_server_ext.tasks.recovery import WorkerRecord, recover
from ozzie_server_ext.tasks.rules import RulesInForce
from ozzie_server_ext.tasks.service import TaskService
from ozzie_server_ext.tasks.session_tasks import TasksOfSession
from ozzie_server_ext.tasks.sessions import EarlierRuns, Notebooks, Sessions
from ozzie_server_ext.tasks.signals import SignalIntake, SignalWaits, UpdateIntake
from ozzie_server_ext.tasks.times import TaskTimes
from ozzie_server_ext.tasks.turn_runner import (
    Progress,
    SkillTools,
    TurnDelegation,
    TurnModels,
    TurnRunner,
    TurnTools,
)
from ozzie_server_ext.tasks.views import FoldedTurns
from ozzie_server_ext.tasks.watchdog import Watchdog
from ozzie_server_ext.tasks.workflows.delegation import Delegation
from ozzie_server_ext.tasks.workflows.quick_calls import QuickCalls, RecentRules
from ozzie_server_ext.tasks.workflows.run_waits import RunWaits
from ozzie_server_ext.tasks.workflows.runner import SkillRuns
from ozzie_server_ext.tasks.workflows.skill_starts import SkillStarts
from ozzie_server_ext.tasks.workflows.step_runner import StepParts, StepProgress, TaskEnds
from ozzie_server_ext.tools.base import ToolContext
from ozzie_server_ext.tools.broker import ToolBroker
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.index import ToolIndex
from ozzie_server_ext.tools.outcome import OutcomeWriter
from ozzie_server_ext.tools.permissions import Permissions
from ozzie_server_ext.tools.registry import ToolRegistry
from ozzie_server_ext.vault.scope import ProjectReader
from ozzie_server_ext.vault.vault import Vault
from ozzie_server_ext.web.reach import ErrandWeb

log = logger(__name__)

MODEL_PLANE = "model"
HOST_PLANE = "host command"


class Ozzie:
    """The gateway without HTTP. `project` is the root of the user's project folder, `jupyter` the access of tools to
    the surrounding Jupyter server."""

    def __init__(self, home: Home, project: Path, jupyter: Jupyter) -> None:
        self.home = home
        self.project = project
        self.jupyter = jupyter
        self.started_at = time.monotonic()
        self.clock = SystemClock()
        self.ids = UlidSource(self.clock)
        self.offline: ModelDriver = OfflineDriver()
        self._known_secrets = KnownSecrets()
        self._log_handler = log_to(home.app_logs, "gateway", self._known_secrets.values)
        self.troubles = Troubles()
        self._closing = AsyncExitStack()
        self.on_replaced: Callable[[OzzieError], None] = lambda error: None
        """Called once when another gateway has taken over, so that the host stops this one."""

    @classmethod
    async def start(cls, home: Home, project: Path, jupyter: Jupyter | None = None) -> "Ozzie":
        """Open the store, recover unfinished tasks, and be ready. The caller holds the owner's lock.

        Raises OzzieError if the store can't be used, after stopping everything that was started.
        """
        home.expect_apart(project)
        ozzie = cls(home, project, jupyter or Jupyter())
        try:
            await ozzie._open()
        except BaseException:
            await ozzie.stop()
            raise
        return ozzie

    async def _open(self) -> None:
        """Build from the bottom up. Each builder registers how to stop its objects; `stop` does that backwards."""
        await self._build_store()
        await self._build_settings()
        await self._build_models()
        self._build_tools()
        await self._build_turns()
        self._build_tasks()
        self._build_views()
        await self._resume()

    async def _build_store(self) -> None:
        """Build the log and its feed, blobs and artifacts."""
        self._closing.callback(stop_logging, self._log_handler)
        self.log: EventLog = await SqliteEventLog.open(
            self.home.database, clock=self.clock, ids=self.ids, troubles=self.troubles
        )
        self.feed = Feed(self.log)
        self.anchoring = Anchoring(self.log, AnchorFiles.of(self.home, anchor_key_file()))
        self._closing.push_async_callback(self._close_log)
        await self.anchoring.start()  # without an anchor, Ozzie runs and reports it
        self.blobs = FileBlobs(self.home.blobs, self.troubles)
        self.artifacts = ArtifactStore(self.log, self.blobs, self.ids)  # before any blob is put
        self.eraser = Eraser(self.log, self.blobs, self.artifacts)
        self._sweep = Sweep(self.artifacts, self.eraser, self.clock, self._kept)
        self._closing.push_async_callback(self._sweep.ended)

    async def _build_settings(self) -> None:
        """Read the configuration, skills, and rules, which name tools."""
        self.configuration = Configuration(self.home, self.project, self.log, self.blobs)
        await self.configuration.refresh()
        self.tools = ToolRegistry(builtin_tools())
        self.skills = Library(self.home, self.project, shipped("skills"), lambda: self.config.settings)
        self._skill_tools = SkillTools(self.skills, self.tools)
        await self._skill_tools.refresh()
        self.rules = RulesInForce(self.home, self.project, self.tools, self.log, self.blobs)
        await self.rules.refresh()

    async def _build_models(self) -> None:
        """Build the drivers of models, their keys and capabilities. Workers start when they are needed."""
        self._worker_record = WorkerRecord(self.log, MODEL_PLANE)
        self.workers = Pool(self._worker, limit=lambda: self.config.settings.models.workers or usual_limit())
        self._closing.push_async_callback(self._stop_workers)
        foreign = ForeignWorkerDriver(self._access)
        self._closing.push_async_callback(foreign.close)
        worker = WorkerDriver(self.workers, self._access, self.blobs.get)
        self._drivers = Models(offline=self.offline, worker=worker, foreign=foreign)
        vault = Vault(self.home.secrets, key_folder, self.clock)
        self._health = Health(self.clock)

        async def forget() -> None:
            self._health.forget()
            if vault.locked:
                self._known_secrets.forget()
            await worker.forget()

        self.secrets = SecretChanges(vault, self.log, forget)
        await self.secrets.refresh(patiently=True)
        self._ledger = Ledger(lambda account: balance_of(self.log, account))
        self.sessions = Sessions(self.log, self.ids)
        self._last_calls = LastModelCalls(self.log, self.clock, cooling_s=self._health.cooling_s)
        self.models = ModelService(
            self.configuration,
            self.sessions,
            warm=worker.warm,
            last_calls=self._last_calls,
            config_file=self.home.config_file,
            health=self._health,
            secrets=VaultSecrets(vault, ProjectReader.at(self.project)),
        )
        self._knowledge = ModelKnowledge(
            lambda: self.models.registry, FactBook(self.workers.channel), is_ready=lambda: self.workers.ready
        )

    def _build_tools(self) -> None:
        """Build the gate to the tools, and their context."""
        self.approvals = Approvals(self.log, self.clock)
        self._permissions = Permissions(
            self.artifacts,
            self.clock,
            self.ids,
            self.approvals,
            expires_s=lambda: self.config.settings.approvals.expires_s,
            known_secrets=self._known_secrets.values,
        )
        self._broker = self._gate(self.rules)
        commands = WorkerRecord(self.log, HOST_PLANE)
        self._closing.push_async_callback(commands.settle)
        jobs = BubblewrapRunner(self.ids, self.jupyter.private)
        self._closing.push_async_callback(jobs.close)
        self._marks = FileMarks(self.log, self.project)
        self._tool_context = ToolContext(
            self.project,
            self.clock,
            jobs=jobs,
            children=commands,
            marks=self._marks,
            web=ErrandWeb(),
            jupyter=self.jupyter,
        )
        self._index = ToolIndex(self.tools)
        self._turn_tools = TurnTools(
            self._tool_context,
            self.artifacts,
            self._index,
            self.rules,
            self._skill_tools,
            lambda recorder: TasksOfSession(self.log, self.tasks, recorder.session_id, recorder.task_id),
        )
        self.cards = ApprovalCards(self.log, self.approvals, self.tools, self._turn_tools.context_of)

    async def _build_turns(self) -> None:
        """Build the runner of turns."""
        Activity(self.log)
        self._conversations = Conversations(self.log)
        self._progress = Progress(self.feed.publish)
        self.times, self._idle = TaskTimes(self.log, self.clock), IdleTasks()
        self._pauses, self._run_waits = PausePoints(self.log), RunWaits(self.log, self.blobs, self.clock)
        await self._pauses.load()
        await self._run_waits.load()
        parts = TurnParts(
            models=self._drivers,
            health=self._health,
            rates=Rates(self.clock),
            ledger=self._ledger,
            registry=self.tools,
            index=self._index,
            broker=self._broker,
            blobs=self.blobs,
            feed=self.feed,
            clock=self.clock,
            ids=self.ids,
            known_secrets=self._known_secrets.values,
            leaving=lambda: self.driver.stopping,
        )
        self._runner = TurnRunner(
            parts,
            self.configuration,
            sessions=self.sessions,
            conversations=self._conversations,
            models=TurnModels(self.models, self._knowledge, self._progress),
            budgets=TaskBudgets(self.log, self.times, lambda: self.config.settings.budgets, self.project, self.clock),
            tools=self._turn_tools,
            delegation=TurnDelegation(
                self.log, self._idle, lambda row, recorder, room: self.runs.delegates(row, recorder, room)
            ),
            pauses=self._pauses,
        )

    def _build_tasks(self) -> None:
        """Build the intake, the driver and the control of tasks."""
        self._reconciler = Reconciler(
            self.tools.may_be_repeated,
            lambda tool_id, effect: self._broker.happened(tool_id, effect, self._tool_context),
            self.tools.takes_key,
        )
        self.runs = SkillRuns(self._runner.run)
        slots = TaskSlots(self.log, lambda: self.config.settings, self._progress.position)
        self.driver = TaskDriver(
            self.log,
            self.ids,
            self.runs.run,
            self._progress.step,
            self._progress.position,
            self._reconciler,
            slots.slot,
            is_idle=self._idle.is_idle,
        )
        self._closing.push_async_callback(self.driver.stop)
        self._closing.push_async_callback(self._run_waits.stop)
        pictures = PictureIntake(self.project, self.blobs, self._marks.below)
        self.tasks = TaskService(self.log, self.ids, self.driver, pictures.of)
        starts = SkillStarts(
            self.skills,
            self.blobs,
            self.tools,
            lambda: self.models.registry,
            lambda: limits_under(self.config.settings),
        )
        self.control = TaskControl(
            Pauses(self.log, self.tasks),
            SignalIntake(self.log, self.tasks),
            UpdateIntake(self.log, self.tasks),
            Retries(self.log, self.blobs, self.tasks, self.sessions, self.driver, starts, self.times),
        )
        self.runs.connect(self._step_parts(starts), self.driver, self.tasks)
        self.answers = Answers(self.log, self.tasks, self._ledger, self.clock)
        joining = Joining(self.log, self.ids, self.answers, self.control.updates)
        self.submit = Intake(self.configuration, self.secrets, self.sessions, self.tasks, starts, joining).submit

    def _build_views(self) -> None:
        """Build the views for clients."""
        self.notebooks = Notebooks(self.sessions)
        self.labels = Labels(self.log, self.sessions, self._conversations, self.project, self._marks)
        self.earlier = EarlierRuns(self.log, self.tools)
        self.today = TodaysUsage(self.log, self.clock)
        self.turns = FoldedTurns(self.log)
        self.details = ModelDetails(self.log, self.clock, self.models, self._knowledge, self._last_calls)
        files = ProjectFiles(self.project)
        self.completion = Completion(self.sessions, self.models, files)
        self.inspection = Inspection(self.sessions, self.models, self.details, self.tools, files)

    async def _resume(self) -> None:
        """Recover unfinished tasks, then start the background work."""
        await self.control.updates.forward_missed()
        count = await recover(
            self.log, self.driver, ids=self.ids, reconciler=self._reconciler, publish=self.feed.publish
        )
        await self._run_waits.recover()
        log.info("started with %d unfinished tasks", count)
        watchdog = Watchdog(self.log, self.tasks, self.clock, lambda: self.config.settings, self.models.cheaper)
        watchdog.start(self.feed)
        self._closing.callback(watchdog.stop)
        for background in (Expiry(self.log, self.approvals), self._sweep):
            background.start()
            self._closing.callback(background.stop)
        self.daily_check = DailyCheck(self.home, anchor_key_file(), self.clock)
        await self.daily_check.start()
        self._closing.push_async_callback(self.daily_check.stop)
        self._readable = ReadableFiles(self.log, self.home.root)
        self._readable.start()
        self._closing.push_async_callback(self._readable.stop)
        watch = OwnerWatch(self.log, self._replaced)
        watch.start()
        self._closing.callback(watch.stop)

    async def stop(self) -> None:
        """Stop everything in the opposite order. Running tasks stay in the log and go on at the next start."""
        await self._closing.aclose()

    def _gate(self, rulings: Rulings) -> ToolBroker:
        outcomes = OutcomeWriter(self.artifacts, self._known_secrets.values)
        return ToolBroker(
            self.tools, rulings, self._permissions, outcomes, self.artifacts, self.clock, self.ids, self.feed.publish
        )

    def _step_parts(self, starts: SkillStarts) -> StepParts:
        return StepParts(
            log=self.log,
            blobs=self.blobs,
            ids=self.ids,
            delegation=Delegation(self.log, self.driver),
            ends=TaskEnds(self.log),
            starts=starts,
            progress=StepProgress(self.log, self._progress.step),
            pauses=self._pauses,
            idle=self._idle,
            signals=SignalWaits(self.log),
            quick=QuickCalls(self._gate(RecentRules(self.rules, self.clock)), self.tools.meta),
            times=self.times,
            context_of=self._turn_tools.context_of,
            updates=self.control.updates,
            waits=self._run_waits,
        )

    def _worker(self, number: int) -> Supervisor:
        name = "model worker" if number == 1 else f"model worker {number}"
        return Supervisor(
            name,
            WORKER_ARGV,
            log_file=self.home.app_logs / f"{name.replace(' ', '-')}.log",
            on_started=self._worker_record.started,
            on_lost=self._worker_record.lost,
        )

    async def _stop_workers(self) -> None:
        await self.workers.stop()
        await self._worker_record.settle()

    async def _close_log(self) -> None:
        self.feed.close()
        await self.log.close()
        await self.anchoring.close()
        log.info("stopped")

    @property
    def config(self) -> Config:
        return self.configuration.current

    @property
    def config_error(self) -> str:
        return self.configuration.error

    def problem_of(self, capability: Capability) -> str:
        """See `gateway.services`."""
        match capability:
            case Capability.SANDBOX:
                try:
                    find_programs(root=os.geteuid() == 0)
                except Unavailable as error:
                    return f"{error} {error.hint}".rstrip()
            case Capability.KERNELS if isinstance(self.jupyter.kernels, NoKernels):
                return "No Jupyter Server hosts this gateway."
            case _:
                pass
        return ""

    @property
    def busy(self) -> bool:
        return self.driver.busy

    async def _kept(self) -> ArtifactsSettings | None:
        """Return how long artifacts are kept; None while the configuration is invalid, because erasing is final."""
        config = await self.configuration.refresh()
        return None if self.config_error else config.settings.artifacts

    def _access(self, choice: ModelChoice) -> ProviderAccess:
        """Return the access to a provider by the settings at the time of the call, not of the turn's start."""
        access = self.models.access(choice)
        self._known_secrets.note(access)
        return access

    def _replaced(self, error: OzzieError) -> None:
        self.anchoring.abandon()
        self._readable.abandon()
        self.on_replaced(error)
