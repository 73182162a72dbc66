"""The gateway of a replay: the real code of turns and runs over a log in memory, with nothing behind it that could act.

There is no model worker, no tool, no kernel, no sandbox and no network among its parts: whatever those gave is in the
record, and comes from there.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from ozzie_server_ext.agent.conversations import Conversations
from ozzie_server_ext.agent.plan import TurnParts
from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.tasks import HELD
from ozzie_server_ext.models.chain import Health
from ozzie_server_ext.models.rates import Rates
from ozzie_server_ext.models.registry import ModelRegistry
from ozzie_server_ext.observability.clock import UlidSource
from ozzie_server_ext.replay.changes import Changes
from ozzie_server_ext.replay.log import GatewayLog, StagedLog
from ozzie_server_ext.replay.loop import LoopClock
from ozzie_server_ext.replay.models import RecordedAnswers, RecordedLedger, RecordedModels
from ozzie_server_ext.replay.record import MissingFact, Record
from ozzie_server_ext.replay.settings import RecordedConfiguration, RecordedRules, Skills
from ozzie_server_ext.replay.stage import RUNNING, Stage
from ozzie_server_ext.replay.tools import (
    RecordedCalls,
    RecordedOutcomes,
    RecordedOutsideTools,
    RecordedQuickCalls,
    RecordedReconciler,
    RecordedTaskEnds,
    of_plugins,
    of_servers,
    recorded,
)
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.feed import Feed
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.shielded import Ended, eager_task
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks import plugin_tools, server_tools
from ozzie_server_ext.tasks.approvals import Approvals
from ozzie_server_ext.tasks.budgets import TaskBudgets, limits_under
from ozzie_server_ext.tasks.concurrency import IdleTasks
from ozzie_server_ext.tasks.driver import TaskDriver
from ozzie_server_ext.tasks.pauses import PausePoints
from ozzie_server_ext.tasks.progress import Progress, StepProgress
from ozzie_server_ext.tasks.rows import has_own_thread, open_tasks, session_of, task_of
from ozzie_server_ext.tasks.service import TaskService
from ozzie_server_ext.tasks.session_tasks import TasksOfSession
from ozzie_server_ext.tasks.sessions import Sessions
from ozzie_server_ext.tasks.signals import SignalWaits
from ozzie_server_ext.tasks.times import TaskTimes
from ozzie_server_ext.tasks.turn_runner import TurnDelegation, TurnRunner
from ozzie_server_ext.tasks.turn_tools import SkillTools, TurnTools
from ozzie_server_ext.tasks.updates import UpdateIntake
from ozzie_server_ext.tasks.workflows.delegation import Delegation
from ozzie_server_ext.tasks.workflows.run_waits import RunWaits
from ozzie_server_ext.tasks.workflows.runner import TaskRunner
from ozzie_server_ext.tasks.workflows.skill_starts import SkillStarts
from ozzie_server_ext.tasks.workflows.step_runner import StepParts
from ozzie_server_ext.tools.base import Tool, ToolContext
from ozzie_server_ext.tools.broker import ToolBroker
from ozzie_server_ext.tools.index import ToolIndex
from ozzie_server_ext.tools.permissions import Permissions
from ozzie_server_ext.tools.registry import ToolRegistry


class ReplayedGateway:
    """One gateway after the other, each from a start to an end of the record. See `replay.stage.Gateway`."""

    def __init__(
        self,
        record: Record,
        stage: Stage,
        log: StagedLog,
        blobs: BlobStore,
        clock: LoopClock,
        changes: Changes,
        skills: Skills,
        tools: Sequence[Tool],
    ) -> None:
        """Of `tools`, the contracts count."""
        self._log = log
        self._stage = stage
        self._ending: list[Ended[None] | asyncio.Task[None]] = []
        self._begin = partial(_Parts, record, stage, blobs, clock, changes, skills, tools)
        self._now = self._begin(GatewayLog(log, stage))

    async def open(self) -> None:
        """Take the settings of the beginning. Raises MissingFact."""
        await self._now.open()

    def enqueue(self, task_id: TaskId, session_id: SessionId, *, delegated: bool) -> None:
        self._now.driver.enqueue(task_id, session_id, delegated=delegated)

    def hold(self, task_id: TaskId, session_id: SessionId, *, delegated: bool) -> None:
        self._now.driver.hold(task_id, session_id, delegated=delegated)

    def interrupt(self, task_id: TaskId, by: str, reason: str) -> None:
        self._now.driver.interrupt(task_id, by, reason)

    def leave(self) -> None:
        self._ending.append(eager_task(self._now.driver.stop()))  # at once: what runs may be about to go on

    def restart(self) -> None:
        self._now.log.leave()
        self.leave()
        self._now = self._begin(GatewayLog(self._log, self._stage))

    def close(self) -> None:
        """End, outside of the loop. What runs records nothing more, and nothing else begins."""
        self._now.log.leave()
        self._ending.append(asyncio.ensure_future(self._now.driver.stop()))

    def resume(self) -> None:
        self._ending.append(asyncio.ensure_future(self._resume()))

    async def _resume(self) -> None:
        try:
            await self._now.resume()
        except MissingFact as missing:
            await self._stage.lacks(missing)
        except Exception as error:
            self._stage.broke(error)


class _Parts:
    """The objects of one gateway, as `app` and `tasks.projects` build them for a real one."""

    def __init__(
        self,
        record: Record,
        stage: Stage,
        blobs: BlobStore,
        clock: LoopClock,
        changes: Changes,
        skills: Skills,
        tools: Sequence[Tool],
        log: GatewayLog,
    ) -> None:
        self.log = log
        self._record = record
        self._stage = stage
        self._ids = UlidSource(clock)
        self._blobs = blobs
        self._clock = clock
        self._feed = Feed(log)
        self._calls = RecordedCalls(record, stage)
        self._artifacts = ArtifactStore(log, blobs, self._ids)
        self._sessions = Sessions(log, self._ids, record.project)
        self._progress = Progress(self._feed.publish)
        self._times, self._idle = TaskTimes(log, clock), IdleTasks()
        self._pauses, self._waits = PausePoints(log), RunWaits(log, blobs, clock)
        self.configuration = RecordedConfiguration(record, stage, log, blobs, changes)
        self._tools = ToolRegistry(recorded(tools, self._calls))
        self._outside = tuple(
            RecordedOutsideTools(record, stage, self._tools, self._calls, stream, made)
            for stream, made in ((server_tools.STREAM, of_servers), (plugin_tools.STREAM, of_plugins))
        )
        self._rules = RecordedRules(record, stage, self._tools, log, blobs, clock, changes)
        self._skills = skills
        self._library = skills.under(lambda: self.configuration.current.settings)
        self._reconciler = RecordedReconciler(
            self._tools.may_be_repeated, takes_key=self._tools.takes_key, calls=self._calls
        )
        self.driver = TaskDriver(
            log, self._ids, self._run_task, self._progress.step, self._progress.ahead, self._reconciler_of
        )
        self._tasks = TaskService(log, self._ids, self.driver)
        self._updates = UpdateIntake(log, self._tasks)
        self._build_turns(RecordedModels(record, stage, self._registry), RecordedAnswers(record, stage))
        self._build_runs()

    async def open(self) -> None:
        await self.configuration.refresh()
        for each in self._outside:
            await each.refresh()
        await self._rules.refresh()
        self._skills.use(self._stage.cursor.position)

    async def resume(self) -> None:
        """Hold the tasks that wait, and run those that were running or queued."""
        await self._pauses.load()
        await self._waits.load()
        await self.open()
        for row in await open_tasks(self.log):
            is_delegated = has_own_thread(row)
            if row["status"] in HELD:
                self.driver.hold(task_of(row), session_of(row), delegated=is_delegated)
        for row in await open_tasks(self.log):
            if row["status"] not in HELD:
                self.driver.enqueue(task_of(row), session_of(row), delegated=has_own_thread(row))
        await self._waits.recover()

    async def _run_task(self, row: Row, recorder: Recorder) -> int:
        RUNNING.set(recorder.task_id)
        try:
            await self.open()
        except MissingFact as missing:
            await self._stage.lacks(missing)
        return await self._runs.run(row, recorder)

    async def _reconciler_of(self, session_id: SessionId) -> RecordedReconciler:
        return self._reconciler

    def _registry(self) -> ModelRegistry:
        return ModelRegistry(self.configuration.current.settings.models, {})

    def _build_turns(self, models: RecordedModels, answers: RecordedAnswers) -> None:
        settings = self.configuration
        permissions = Permissions(
            self._artifacts,
            self._clock,
            self._ids,
            Approvals(self.log, self._clock),
            expires_s=lambda: settings.current.settings.approvals.expires_s,
        )
        self._broker = ToolBroker(
            self._tools,
            self._rules,
            permissions,
            RecordedOutcomes(self._artifacts),
            self._artifacts,
            self._clock,
            self._ids,
            self._feed.publish,
        )
        index = ToolIndex(self._tools)
        self._turn_tools = TurnTools(
            ToolContext(self._record.project, self._clock),
            self._artifacts,
            index,
            self._rules,
            (SkillTools(self._library, self._tools), *self._outside),
            lambda recorder: TasksOfSession(self.log, self._tasks, recorder.session_id, recorder.task_id),
        )
        parts = TurnParts(
            models=answers,
            health=Health(self._clock),
            rates=Rates(self._clock),
            ledger=RecordedLedger(self._record, self._stage),
            registry=self._tools,
            index=index,
            broker=self._broker,
            blobs=self._blobs,
            feed=self._feed,
            clock=self._clock,
            ids=self._ids,
            leaving=lambda: self.driver.stopping,
            find_misfit=answers.find_misfit,
        )
        self._turns = TurnRunner(
            parts,
            settings,
            sessions=self._sessions,
            conversations=Conversations(self.log),
            models=models,
            budgets=TaskBudgets(
                self.log, self._times, lambda: settings.current.settings.budgets, self._record.project, self._clock
            ),
            tools=self._turn_tools,
            delegation=TurnDelegation(
                self.log, self._idle, lambda row, recorder, room: self._runs.delegates(row, recorder, room)
            ),
            pauses=self._pauses,
        )

    def _build_runs(self) -> None:
        starts = SkillStarts(
            self._library,
            self._blobs,
            self._tools,
            self._registry,
            lambda: limits_under(self.configuration.current.settings),
        )
        parts = StepParts(
            log=self.log,
            blobs=self._blobs,
            ids=self._ids,
            delegation=Delegation(self.log, self.driver),
            ends=RecordedTaskEnds(self.log, self._record, self._stage),
            starts=starts,
            progress=StepProgress(self.log, self._progress.step),
            pauses=self._pauses,
            idle=self._idle,
            signals=SignalWaits(self.log),
            quick=RecordedQuickCalls(self._broker, self._tools.meta, self._calls),
            times=self._times,
            context_of=self._turn_tools.context_of,
            updates=self._updates,
            waits=self._waits,
        )
        self._runs = TaskRunner(self._turns.run)
        self._runs.connect(parts, self.driver, self._tasks, chance=lambda: 0.0)
