"""Which tasks are runs of skills: those are driven step by step, all others are turns."""

import contextlib
from collections.abc import Awaitable, Callable

from ozzie_server_ext.domain.clock import Clock, IdSource
from ozzie_server_ext.domain.errors import Conflict, NotFound
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.concurrency import Resting
from ozzie_server_ext.tasks.driver import TaskDriver
from ozzie_server_ext.tasks.pauses import PausePoints
from ozzie_server_ext.tasks.service import TaskService
from ozzie_server_ext.tasks.signals import OutsideEvents, Updates
from ozzie_server_ext.tasks.times import TaskTimes
from ozzie_server_ext.tasks.workflows.delegates import Room, SkillDelegates
from ozzie_server_ext.tasks.workflows.delegation import Delegation
from ozzie_server_ext.tasks.workflows.quick_calls import QuickCalls
from ozzie_server_ext.tasks.workflows.runner import GraphRunner
from ozzie_server_ext.tasks.workflows.skill_starts import SkillStarts
from ozzie_server_ext.tasks.workflows.step_runner import Ends, StepNews, StepParts, Tell
from ozzie_server_ext.tools.base import ToolContext

_CONNECTED = "runs are connected before anything is run"


class SkillRuns:
    """`run_turn` runs what is no run; `tell` tells whoever watches a task how far it is. Steps are tasks themselves, so
    it is connected to what carries tasks out."""

    def __init__(
        self,
        log: EventLog,
        blobs: BlobStore,
        ids: IdSource,
        starts: SkillStarts,
        run_turn: Callable[[Row, Recorder], Awaitable[int]],
        tell: Tell,
        pauses: PausePoints,
        clock: Clock,
        quick: QuickCalls,
        context_of: Callable[[Row, Recorder], ToolContext],
        times: TaskTimes,
        resting: Resting,
    ) -> None:
        self._log = log
        self._blobs = blobs
        self._ids = ids
        self._starts = starts
        self._run_turn = run_turn
        self._ends = Ends(log)
        self._resting = resting
        self._pauses = pauses
        self._quick = quick
        self._context_of = context_of
        self._outside = OutsideEvents(log, clock)
        self._times = times
        self._news = StepNews(log, tell)
        self.graphs: GraphRunner | None = None
        self._delegates: Callable[[Row, Recorder, Room], SkillDelegates] | None = None

    def connect(self, driver: TaskDriver, tasks: TaskService) -> None:
        """Before anything is run."""
        parts = StepParts(
            log=self._log,
            blobs=self._blobs,
            ids=self._ids,
            delegation=Delegation(self._log, driver),
            ends=self._ends,
            starts=self._starts,
            news=self._news,
            pauses=self._pauses,
            resting=self._resting,
            outside=self._outside,
            quick=self._quick,
            times=self._times,
            context_of=self._context_of,
            updates=Updates(self._log, tasks),
        )

        async def stop(task_id: TaskId) -> None:
            with contextlib.suppress(Conflict, NotFound):  # it has ended, or had not begun
                await tasks.cancel(task_id, by="kernel", reason="The run that it was part of has ended.")

        def delegates(row: Row, recorder: Recorder, room: Room) -> SkillDelegates:
            return SkillDelegates(parts, row, recorder, room, stop, leaving=lambda: driver.stopping)

        self.graphs = GraphRunner(parts, stop, leaving=lambda: driver.stopping)
        self._delegates = delegates

    def delegates(self, row: Row, recorder: Recorder, room: Room) -> SkillDelegates:
        """What an agent hands over to skills, of that task."""
        assert self._delegates is not None, _CONNECTED
        return self._delegates(row, recorder, room)

    async def run(self, row: Row, recorder: Recorder) -> int:
        """See `tasks.driver.RunTurn`."""
        if row["mode"] != "GRAPH":
            return await self._run_turn(row, recorder)
        assert self.graphs is not None, _CONNECTED
        return await self.graphs.run(row, recorder)
