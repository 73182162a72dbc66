"""The composition root: builds every object once, wires the seams, starts and stops in order."""

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from ozzie_server_ext.agent.conversation import Conversations
from ozzie_server_ext.agent.plan import TurnParts
from ozzie_server_ext.artifacts.erasing import Eraser, Sweep
from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.config.home import Home, anchor_key_file, key_folder, shipped
from ozzie_server_ext.config.loader import Config
from ozzie_server_ext.config.settings import ArtifactsSettings
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.execution.bubblewrap import BubblewrapRunner
from ozzie_server_ext.jupyter.documents import Jupyter
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
from ozzie_server_ext.store.anchor import AnchorFiles
from ozzie_server_ext.store.anchoring import Anchoring
from ozzie_server_ext.store.blobs import FileBlobs
from ozzie_server_ext.store.checks import DailyCheck
from ozzie_server_ext.store.feed import Feed
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.marks import FileMarks
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.store.troubles import Troubles
from ozzie_server_ext.store.writer import OwnerWatch
from ozzie_server_ext.tasks.answers import Answers
from ozzie_server_ext.tasks.approvals import Approvals, Cards, Expiry
from ozzie_server_ext.tasks.budgets import TodaysUsage, limits_under, standing_of
from ozzie_server_ext.tasks.completion import Completion, Inspection, ProjectFiles
from ozzie_server_ext.tasks.concurrency import Resting, TaskPlaces
from ozzie_server_ext.tasks.configuration import Configuration, SecretChanges
from ozzie_server_ext.tasks.control import TaskControl
from ozzie_server_ext.tasks.driver import TaskDriver
from ozzie_server_ext.tasks.intake import Intake, PictureIntake
from ozzie_server_ext.tasks.labels import Labels
from ozzie_server_ext.tasks.models import LastCalls, ModelDetails, ModelKnowledge, ModelService
from ozzie_server_ext.tasks.pauses import PausePoints
from ozzie_server_ext.tasks.reconciliation import Fates
from ozzie_server_ext.tasks.recovery import WorkerRecord, recover
from ozzie_server_ext.tasks.rules import RulesInForce
from ozzie_server_ext.tasks.service import TaskService
from ozzie_server_ext.tasks.sessions import EarlierRuns, Notebooks, Sessions
from ozzie_server_ext.tasks.times import TaskTimes
from ozzie_server_ext.tasks.turn_runner import Progress, SkillTools, TurnRunner
from ozzie_server_ext.tasks.views import FoldedTurns
from ozzie_server_ext.tasks.watchdog import Watchdog
from ozzie_server_ext.tasks.workflows.quick_calls import QuickCalls, RecentRules
from ozzie_server_ext.tasks.workflows.skill_runs import SkillRuns
from ozzie_server_ext.tasks.workflows.skill_starts import SkillStarts
from ozzie_server_ext.tools.broker import ToolBroker
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.index import ToolIndex
from ozzie_server_ext.tools.outcome import Telling
from ozzie_server_ext.tools.permissions import Permissions
from ozzie_server_ext.tools.registry import ToolRegistry
from ozzie_server_ext.vault.scope import ProjectReader
from ozzie_server_ext.vault.vault import Vault
from ozzie_server_ext.web.reach import ErrandWeb

log = logger(__name__)

MODEL_PLANE = "model"
HOST_PLANE = "host command"


class Ozzie:
    """The gateway without HTTP. `project` is the root of the user's project folder, `jupyter` what tools reach of the
    server around it."""

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
        """Told, once, that another gateway has taken over: whoever hosts this one stops it."""

    @classmethod
    async def start(cls, home: Home, project: Path, jupyter: Jupyter | None = None) -> "Ozzie":
        """Open the store, take up what was unfinished, and be ready. The caller holds the owner's lock.

        Raises OzzieError where the store can't be used; nothing is left behind then.
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
        self._closing.callback(stop_logging, self._log_handler)
        self.log: EventLog = await SqliteEventLog.open(
            self.home.database, clock=self.clock, ids=self.ids, troubles=self.troubles
        )
        self.feed = Feed(self.log)
        self.anchoring = Anchoring(self.log, AnchorFiles.of(self.home, anchor_key_file()))
        self._closing.push_async_callback(self._close_log)
        await self.anchoring.start()  # Ozzie runs without an anchor too, and says so
        self.blobs = FileBlobs(self.home.blobs, self.troubles)
        self.artifacts = ArtifactStore(self.log, self.blobs, self.ids)  # before anything is put
        self.eraser = Eraser(self.log, self.blobs, self.artifacts)
        self.configuration = Configuration(self.home, self.project, self.log, self.blobs)
        await self.configuration.refresh()
        sweep = Sweep(self.artifacts, self.eraser, self.clock, self._kept)
        self._closing.push_async_callback(sweep.ended)
        self._worker_record = WorkerRecord(self.log, MODEL_PLANE)
        self.workers = Pool(self._worker, limit=lambda: self.config.settings.models.workers or usual_limit())
        registry = ToolRegistry(builtin_tools())
        self.tools = registry
        self.skills = Library(self.home, self.project, shipped("skills"), lambda: self.config.settings)
        skill_tools = SkillTools(self.skills, registry)
        await skill_tools.refresh()
        self.rules = RulesInForce(self.home, self.project, registry, self.log, self.blobs)
        await self.rules.refresh()
        self._closing.push_async_callback(self._stop_workers)
        commands = WorkerRecord(self.log, HOST_PLANE)
        self._closing.push_async_callback(commands.settle)
        jobs = BubblewrapRunner(self.ids, self.jupyter.private)
        self._closing.push_async_callback(jobs.close)
        foreign = ForeignWorkerDriver(self._access)
        self._closing.push_async_callback(foreign.close)
        worker = WorkerDriver(self.workers, self._access, self.blobs.get)
        vault = Vault(self.home.secrets, key_folder, self.clock)
        health = Health(self.clock)

        async def forget() -> None:
            health.forget()
            if vault.locked:
                self._known_secrets.forget()
            await worker.forget()

        self.secrets = SecretChanges(vault, self.log, forget)
        await self.secrets.refresh(patiently=True)
        self.approvals = Approvals(self.log, self.clock)
        telling = Telling(self.artifacts, self._known_secrets.values)
        permissions = Permissions(
            self.artifacts,
            self.clock,
            self.ids,
            self.approvals,
            expires_s=lambda: self.config.settings.approvals.expires_s,
            known_secrets=self._known_secrets.values,
        )

        def gate(rules: Rulings) -> ToolBroker:
            return ToolBroker(
                registry, rules, permissions, telling, self.artifacts, self.clock, self.ids, self.feed.publish
            )

        self._ledger = Ledger(lambda account: standing_of(self.log, account))
        parts = TurnParts(
            models=Models(offline=self.offline, worker=worker, foreign=foreign),
            health=health,
            rates=Rates(self.clock),
            ledger=self._ledger,
            registry=registry,
            index=ToolIndex(registry),
            broker=gate(self.rules),
            blobs=self.blobs,
            feed=self.feed,
            clock=self.clock,
            ids=self.ids,
            known_secrets=self._known_secrets.values,
        )
        self.sessions = Sessions(self.log, self.ids)
        self.notebooks = Notebooks(self.sessions)
        conversations = Conversations(self.log)
        marks = FileMarks(self.log, self.project)
        self.labels = Labels(self.log, self.sessions, conversations, self.project, marks)
        self.earlier = EarlierRuns(self.log, registry)
        self.today = TodaysUsage(self.log, self.clock)
        last_calls = LastCalls(self.log, self.clock, cooling_s=health.cooling_s)
        self.models = ModelService(
            self.configuration,
            self.sessions,
            warm=worker.warm,
            last_calls=last_calls,
            config_file=self.home.config_file,
            health=health,
            secrets=VaultSecrets(vault, ProjectReader.at(self.project)),
        )
        self._knowledge = ModelKnowledge(
            lambda: self.models.registry, FactBook(self.workers.channel), is_ready=lambda: self.workers.ready
        )
        self.details = ModelDetails(self.log, self.clock, self.models, self._knowledge, last_calls)
        files = ProjectFiles(self.project)
        self.completion = Completion(self.sessions, self.models, files)
        self.inspection = Inspection(self.sessions, self.models, self.details, registry, files)
        progress = Progress(self.feed.publish)
        self.times, resting = TaskTimes(self.log, self.clock), Resting()
        pauses = PausePoints(self.log)
        await pauses.load()
        self._runner = TurnRunner(
            parts,
            self.log,
            self.project,
            configuration=self.configuration,
            sessions=self.sessions,
            conversations=conversations,
            marks=marks,
            rules=self.rules,
            models=self.models,
            knowledge=self._knowledge,
            artifacts=self.artifacts,
            progress=progress,
            jobs=jobs,
            children=commands,
            web=ErrandWeb(),
            jupyter=self.jupyter,
            skill_tools=skill_tools,
            delegates=lambda row, recorder, room: self.runs.delegates(row, recorder, room),
            pauses=pauses,
            times=self.times,
            resting=resting,
            worker_ready=lambda: self.workers.ready,
            leaving=lambda: self.driver.stopping,
        )
        self.cards = Cards(self.log, self.approvals, registry, self._runner.context_of)
        fates = Fates(registry.may_be_repeated, self._runner.happened, registry.takes_key)
        self._starts = SkillStarts(
            self.skills, self.blobs, registry, lambda: self.models.registry, lambda: limits_under(self.config.settings)
        )
        self.runs = SkillRuns(
            self.log,
            self.blobs,
            self.ids,
            self._starts,
            self._runner.run,
            progress.step,
            pauses,
            self.clock,
            QuickCalls(gate(RecentRules(self.rules, self.clock)), registry.meta),
            self._runner.context_of,
            self.times,
            resting,
        )
        places = TaskPlaces(self.log, lambda: self.config.settings, progress.place)
        self.driver = TaskDriver(
            self.log,
            self.ids,
            self.runs.run,
            progress.step,
            progress.place,
            fates,
            places.of,
            rests=resting.rests,
        )
        self._closing.push_async_callback(self.driver.stop)
        self.turns = FoldedTurns(self.log)
        pictures = PictureIntake(self.project, self.blobs, marks.below)
        self.tasks = TaskService(self.log, self.ids, self.driver, pictures.of)
        self.runs.connect(self.driver, self.tasks)
        intake = Intake(self.configuration, self.secrets, self.sessions, self.tasks, self._starts)
        self.submit = intake.submit
        self.control = TaskControl(
            self.log,
            self.blobs,
            self.tasks,
            self.sessions,
            self.driver,
            self._starts,
            self.times,
        )
        self.answers = Answers(self.log, self.tasks, self._ledger, self.clock)
        await self.control.updates.hand_on_the_rest()
        taken = await recover(
            self.log,
            self.driver,
            ids=self.ids,
            fates=fates,
            publish=self.feed.publish,
        )
        log.info("started with %d unfinished tasks", taken)
        watchdog = Watchdog(self.log, self.tasks, self.clock, lambda: self.config.settings, self.models.cheaper)
        watchdog.start(self.feed)
        self._closing.callback(watchdog.stop)
        expiry = Expiry(self.log, self.approvals)
        expiry.start()
        self._closing.callback(expiry.stop)
        sweep.start()
        self._closing.callback(sweep.stop)
        self.daily_check = DailyCheck(self.home, anchor_key_file(), self.clock)
        await self.daily_check.start()
        self._closing.push_async_callback(self.daily_check.stop)
        watch = OwnerWatch(self.log, self._replaced)
        watch.start()
        self._closing.callback(watch.stop)

    async def stop(self) -> None:
        """Let go of everything, in the opposite order. Running tasks stay in the log and go on at the next start."""
        await self._closing.aclose()

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

    @property
    def busy(self) -> bool:
        return self.driver.busy

    async def _kept(self) -> ArtifactsSettings | None:
        """How long artifacts are kept; None as long as a configuration is refused: what is erased stays so."""
        config = await self.configuration.refresh()
        return None if self.config_error else config.settings.artifacts

    def _access(self, choice: ModelChoice) -> ProviderAccess:
        """By the settings of the moment of a call, whatever they were when its turn began."""
        access = self.models.access(choice)
        self._known_secrets.note(access)
        return access

    def _replaced(self, error: OzzieError) -> None:
        self.anchoring.abandon()
        self.on_replaced(error)
