"""Builds what all projects share, starts what runs, and stops it in the opposite order."""

import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ozzie_server_ext.agent.conversations import Conversations
from ozzie_server_ext.artifacts.erasing import Eraser, Sweep
from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.config.home import Home, anchor_key_file, key_folder
from ozzie_server_ext.config.settings import ArtifactsSettings, Settings
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.events import PromptAnswered
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.domain.messages import MentionedPictures
from ozzie_server_ext.domain.toolmeta import Capability
from ozzie_server_ext.execution.box import find_programs
from ozzie_server_ext.execution.bubblewrap import BubblewrapRunner
from ozzie_server_ext.gateway.mcp_plane import PLANE_ARGV, McpPlane
from ozzie_server_ext.jupyter.documents import Jupyter
from ozzie_server_ext.jupyter.kernels import NoKernels
from ozzie_server_ext.models.chain import Health
from ozzie_server_ext.models.credentials import KnownSecrets
from ozzie_server_ext.models.driver import ModelDriver
from ozzie_server_ext.models.facts import FactBook
from ozzie_server_ext.models.ledger import Ledger
from ozzie_server_ext.models.offline import OfflineDriver
from ozzie_server_ext.models.rates import Rates
from ozzie_server_ext.models.worker_client import WORKER_ARGV, KnownProviders
from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.observability.logs import log_to, logger, stop_logging
from ozzie_server_ext.planes.pool import Pool, usual_limit
from ozzie_server_ext.planes.supervisor import Supervisor
from ozzie_server_ext.plugins.tool_host import HOST_ARGV, ToolHost
from ozzie_server_ext.replay.service import Replays
from ozzie_server_ext.store.anchor import AnchorFiles, Anchoring, read_key
from ozzie_server_ext.store.blobs import FileBlobs
from ozzie_server_ext.store.checks import DailyCheck
from ozzie_server_ext.store.contents import DatabaseBlobs
from ozzie_server_ext.store.feed import Feed
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.readable import ReadableFiles
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.snapshots import SignedSnapshots
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.store.texts import ArtifactTexts
from ozzie_server_ext.store.troubles import Troubles
from ozzie_server_ext.store.writer import OwnerWatch
from ozzie_server_ext.tasks.activity import Activity
from ozzie_server_ext.tasks.answers import Answers
from ozzie_server_ext.tasks.approvals import Approvals, Expiry
from ozzie_server_ext.tasks.budgets import TodaysUsage, balance_of
from ozzie_server_ext.tasks.client_calls import ClientCalls
from ozzie_server_ext.tasks.concurrency import IdleTasks, TaskSlots
from ozzie_server_ext.tasks.configuration import SecretChanges
from ozzie_server_ext.tasks.confirmations import Confirmations
from ozzie_server_ext.tasks.control import Retries, TaskControl
from ozzie_server_ext.tasks.driver import TaskDriver
from ozzie_server_ext.tasks.erasures import Erasures
from ozzie_server_ext.tasks.incidents import Incidents
from ozzie_server_ext.tasks.intake import Joining
from ozzie_server_ext.tasks.pauses import PausePoints, Pauses
from ozzie_server_ext.tasks.pins import Pins
from ozzie_server_ext.tasks.progress import Progress, StepProgress, TaskEnds
from ozzie_server_ext.tasks.projects import Project, Projects, Shared
from ozzie_server_ext.tasks.reconciliation import Reconciler
from ozzie_server_ext.tasks.recovery import WorkerRecord, recover
from ozzie_server_ext.tasks.search import Search
from ozzie_server_ext.tasks.server_tools import OwnServers
from ozzie_server_ext.tasks.service import NewTurn, Submitted, TaskService
from ozzie_server_ext.tasks.sessions import Notebooks, Sessions
from ozzie_server_ext.tasks.signals import SignalIntake, SignalWaits
from ozzie_server_ext.tasks.spent import SpentToday
from ozzie_server_ext.tasks.times import TaskTimes
from ozzie_server_ext.tasks.updates import UpdateIntake
from ozzie_server_ext.tasks.views import FoldedTurns
from ozzie_server_ext.tasks.watchdog import Watchdog
from ozzie_server_ext.tasks.workflows.run_waits import RunWaits
from ozzie_server_ext.tasks.workflows.skill_starts import SkillStarts
from ozzie_server_ext.tools.questions import Prompts
from ozzie_server_ext.vault.vault import Vault

if TYPE_CHECKING:
    from ozzie_server_ext.export.service import Exports

log = logger(__name__)

MODEL_PLANE = "model"
HOST_PLANE = "host command"
TOOLS_PLANE = "tools"
MCP_PLANE = "mcp"


class Ozzie:
    """The gateway without HTTP. `project` is the root of the user's project folder, `jupyter` the access of tools to
    the surrounding Jupyter server."""

    def __init__(self, home: Home, project: Path, jupyter: Jupyter) -> None:
        self.home = home
        self.project = project.resolve()
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
        await self._build_workers()
        await self._build_sessions()
        self._build_tasks()
        self._shared = self._what_projects_share()
        await self.projects.at()
        await self._resume()

    async def _build_store(self) -> None:
        """Build the log and its feed, blobs and artifacts."""
        self._closing.callback(stop_logging, self._log_handler)
        self._texts = ArtifactTexts(self.home.blobs)
        self._store = store = await SqliteEventLog.open(
            self.home.database, clock=self.clock, ids=self.ids, troubles=self.troubles, texts=self._texts
        )
        self.log: EventLog = store
        self.feed = Feed(self.log)
        self.anchoring = Anchoring(self.log, AnchorFiles.of(self.home, anchor_key_file()))
        self._closing.push_async_callback(self._close_log)
        await self.anchoring.start()  # without an anchor, Ozzie runs and reports it
        self.blobs = DatabaseBlobs(store, FileBlobs(self.home.blobs, self.troubles))
        self.artifacts = ArtifactStore(self.log, self.blobs, self.ids)  # before any blob is put
        self.eraser = Eraser(self.log, self.blobs, self.artifacts)
        self._sweep = Sweep(self.artifacts, self.eraser, self.clock, self._kept)
        self._closing.push_async_callback(self._sweep.ended)

    async def _build_workers(self) -> None:
        """Build the pool of model workers, which start when they are needed, and the vault with their keys."""
        self._worker_record = WorkerRecord(self.log, MODEL_PLANE)
        self.workers = Pool(self._worker, limit=lambda: self._settings.models.workers or usual_limit())
        self._closing.push_async_callback(self._stop_workers)
        self._vault = Vault(self.home.secrets, key_folder, self.clock)
        self._health = Health(self.clock)
        self._known_providers = KnownProviders()

        async def forget() -> None:
            self._health.forget()
            for project in self.projects.opened:
                project.server_tools.end_connections()
                project.plugin_tools.end_connections()
            if self._vault.locked:
                self._known_secrets.forget()
            await self._known_providers.forget()

        self.secrets = SecretChanges(self._vault, self.log, forget)
        await self.secrets.refresh(patiently=True)
        self._ledger = Ledger(lambda account: balance_of(self.log, account))
        self._commands = WorkerRecord(self.log, HOST_PLANE)
        self._closing.push_async_callback(self._commands.settle)
        self._host_record = WorkerRecord(self.log, TOOLS_PLANE)
        self._closing.push_async_callback(self._host_record.settle)
        self._own_host = self._tool_host("tool host")
        self._closing.push_async_callback(self._own_host.stop)
        self.servers = OwnServers(self.home, self._own_host, self._vault, self._known_secrets.note_value)
        self._closing.push_async_callback(self.servers.close)
        self._jobs = BubblewrapRunner(self.ids, self.jupyter.private)
        self._closing.push_async_callback(self._jobs.close)

    async def _build_sessions(self) -> None:
        """Build the sessions and their projects, and what is known of their tasks."""
        self.sessions = Sessions(self.log, self.ids, self.project)
        self.notebooks = Notebooks(self.sessions)
        self.search = Search(self.log, self.project, self._texts)
        self.replays = Replays(self.home)
        self.projects = Projects(self.project, self.log, self.sessions, lambda root: Project.open(self._shared, root))
        self._closing.push_async_callback(self.projects.close)
        self._activity = Activity(self.log)
        self._conversations = Conversations(self.log, SignedSnapshots(self._store, anchor_key_file))
        self._closing.push_async_callback(self._conversations.close)
        self.pins = Pins(self.log, self.ids, self.sessions, self._conversations)
        self._progress = Progress(self.feed.publish)
        self.times, self._idle = TaskTimes(self.log, self.clock), IdleTasks()
        self.prompts = Prompts(self.ids)
        self.log.on_commit(self.prompts.answered, types={PromptAnswered.type})
        self._pauses, self._run_waits = PausePoints(self.log), RunWaits(self.log, self.blobs, self.clock)
        await self._activity.load()
        await self._pauses.load()
        await self._run_waits.load()
        self.approvals = Approvals(self.log, self.clock, self.home)
        self.confirmations = Confirmations(self.log, self.clock)
        self.incidents = Incidents(self.log, self.ids)
        self.today = TodaysUsage(self.log, self.clock)
        self.turns = FoldedTurns(self.log)

    @property
    def exports(self) -> "Exports":
        from ozzie_server_ext.export.service import Exports  # few sessions are exported

        return Exports(self.log, self.blobs, self.sessions, self.clock, partial(read_key, anchor_key_file()))

    def _build_tasks(self) -> None:
        """Build the driver and the control of tasks. Each task runs with what belongs to its session's project."""
        slots = TaskSlots(self.log, lambda: self._settings, self._progress.ahead)
        self.driver = TaskDriver(
            self.log,
            self.ids,
            self._run_task,
            self._progress.step,
            self._progress.ahead,
            self._reconciler_of,
            slots.slot,
            is_idle=self._idle.is_idle,
        )
        self._closing.push_async_callback(self.driver.stop)
        self._closing.push_async_callback(self._run_waits.stop)
        self.tasks = TaskService(self.log, self.ids, self.driver, self._pictures)
        self.control = TaskControl(
            Pauses(self.log, self.tasks),
            SignalIntake(self.log, self.tasks),
            UpdateIntake(self.log, self.tasks),
            Retries(self.log, self.blobs, self.tasks, self.sessions, self.driver, self._starts_of, self.times),
        )
        self.answers = Answers(self.log, self.tasks, self._ledger, self.clock)
        self._client_calls = ClientCalls(
            self.log,
            self.feed,
            self.ids,
            self.projects,
            self.sessions,
            self.artifacts,
            self.tasks,
            self.driver,
            self.submit,
            leaving=lambda: self.driver.stopping,
        )
        self._clients_record = WorkerRecord(self.log, MCP_PLANE)
        self.mcp = McpPlane(self._mcp_process(), self._client_calls)
        self._closing.push_async_callback(self._stop_mcp)

    def _what_projects_share(self) -> Shared:
        return Shared(
            home=self.home,
            own=self.project,
            clock=self.clock,
            ids=self.ids,
            jupyter=self.jupyter,
            log=self.log,
            feed=self.feed,
            blobs=self.blobs,
            artifacts=self.artifacts,
            vault=self._vault,
            secrets=self.secrets,
            known_secrets=self._known_secrets,
            offline=self.offline,
            workers=self.workers,
            known_providers=self._known_providers,
            facts=FactBook(self.workers.channel),
            health=self._health,
            rates=Rates(self.clock),
            ledger=self._ledger,
            jobs=self._jobs,
            commands=self._commands,
            servers=self.servers,
            own_host=self._own_host,
            incidents=self.incidents,
            tool_host=self._tool_host,
            sessions=self.sessions,
            conversations=self._conversations,
            approvals=self.approvals,
            spent=SpentToday(self.log, self.clock),
            progress=self._progress,
            times=self.times,
            idle=self._idle,
            pauses=self._pauses,
            run_waits=self._run_waits,
            driver=self.driver,
            tasks=self.tasks,
            ends=TaskEnds(self.log),
            steps=StepProgress(self.log, self._progress.step),
            signals=SignalWaits(self.log),
            updates=self.control.updates,
            joining=Joining(self.log, self.ids, self.answers, self.control.updates),
            prompts=self.prompts,
        )

    async def _resume(self) -> None:
        """Recover unfinished tasks, then start the background work."""
        await self._client_calls.end_left()
        await self.control.updates.forward_missed()
        count = await recover(
            self.log, self.driver, ids=self.ids, reconciler_of=self._reconciler_of, publish=self.feed.publish
        )
        await self._run_waits.recover()
        log.info("started with %d unfinished tasks", count)
        watchdog = Watchdog(self.log, self.tasks, self.clock, self._settings_of, self._cheaper_of)
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
        self.erasures = Erasures(self._store, self.blobs, self._readable)
        self.erasures.start()
        self._closing.push_async_callback(self.erasures.stop)
        watch = OwnerWatch(self.log, self._replaced)
        watch.start()
        self._closing.callback(watch.stop)

    async def stop(self) -> None:
        """Stop everything in the opposite order. Running tasks stay in the log and go on at the next start."""
        await self._closing.aclose()

    async def submit(self, turn: NewTurn) -> Submitted:
        """See `tasks.intake.Intake`."""
        project = await self.projects.of(turn.session_id)
        if project is not self.projects.own:
            await self.projects.own.configuration.refresh()  # it has the limits of the whole gateway
        return await project.intake.submit(turn)

    async def _run_task(self, row: Row, recorder: Recorder) -> int:
        return await (await self.projects.of(recorder.session_id)).runs.run(row, recorder)

    async def _pictures(self, turn: NewTurn) -> MentionedPictures:
        return await (await self.projects.of(turn.session_id)).pictures.of(turn.text, turn.pictures, turn.named)

    async def _starts_of(self, session_id: SessionId) -> SkillStarts:
        return (await self.projects.of(session_id)).starts

    async def _settings_of(self, session_id: SessionId) -> Settings:
        return (await self.projects.of(session_id)).config.settings

    async def _cheaper_of(self, session_id: SessionId) -> object | None:
        return (await self.projects.of(session_id)).models.cheaper()

    async def _reconciler_of(self, session_id: SessionId) -> Reconciler:
        try:
            return (await self.projects.of(session_id)).reconciler
        except Exception:  # one project's trouble must not stop the recovery of all tasks
            log.exception("the project of session %s can't be opened", session_id)
            own = self.projects.own.tools
            return Reconciler(own.may_be_repeated, takes_key=own.takes_key)

    def _worker(self, number: int) -> Supervisor:
        name = "model worker" if number == 1 else f"model worker {number}"
        return Supervisor(
            name,
            WORKER_ARGV,
            log_file=self.home.app_logs / f"{name.replace(' ', '-')}.log",
            on_started=self._worker_record.started,
            on_lost=self._worker_record.lost,
        )

    def _tool_host(self, name: str) -> ToolHost:
        """Return a process for servers of tools, which starts when it is needed."""
        return ToolHost(
            Supervisor(
                name,
                HOST_ARGV,
                log_file=self.home.app_logs / "tool-host.log",
                on_started=self._host_record.started,
                on_lost=self._host_record.lost,
            )
        )

    def _mcp_process(self) -> Supervisor:
        return Supervisor(
            "process for MCP clients",
            PLANE_ARGV,
            log_file=self.home.app_logs / "mcp-server.log",
            on_started=self._clients_record.started,
            on_lost=self._clients_record.lost,
        )

    async def _stop_mcp(self) -> None:
        await self.mcp.stop()
        await self._clients_record.settle()

    async def _stop_workers(self) -> None:
        await self.workers.stop()
        await self._worker_record.settle()

    async def _close_log(self) -> None:
        self.feed.close()
        await self.log.close()
        await self.anchoring.close()
        log.info("stopped")

    @property
    def _settings(self) -> Settings:
        """The settings that count for the whole gateway: those of its own project."""
        return self.projects.own.config.settings

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
        configuration = self.projects.own.configuration
        config = await configuration.refresh()
        return None if configuration.error else config.settings.artifacts

    def _replaced(self, error: OzzieError) -> None:
        self.anchoring.abandon()
        self._readable.abandon()
        self.on_replaced(error)
