"""Which tasks are runs of skills: those are driven step by step, all others are turns."""

import contextlib
from collections.abc import Awaitable, Callable

from ozzie_server_ext.domain.errors import Conflict, NotFound
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.driver import TaskDriver
from ozzie_server_ext.tasks.service import TaskService
from ozzie_server_ext.tasks.workflows.delegates import Room, SkillDelegates
from ozzie_server_ext.tasks.workflows.runner import GraphRunner
from ozzie_server_ext.tasks.workflows.step_runner import StepParts

_CONNECTED = "runs are connected before anything is run"


class SkillRuns:
    """Runs the task of a row of `tasks`: a run of a skill step by step, anything else by `run_turn`. Steps are tasks
    too, so this is connected to the driver that calls it."""

    def __init__(self, run_turn: Callable[[Row, Recorder], Awaitable[int]]) -> None:
        self._run_turn = run_turn
        self.graphs: GraphRunner | None = None
        self._delegates: Callable[[Row, Recorder, Room], SkillDelegates] | None = None

    def connect(self, parts: StepParts, driver: TaskDriver, tasks: TaskService) -> None:
        """Set what steps work with, before the driver runs anything."""

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
