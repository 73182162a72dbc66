"""Holding a task, and letting it go on (TK-1): durable, whatever it does at that moment, and over a restart."""

import contextlib

from ozzie_server_ext.domain.errors import Conflict, VersionConflict
from ozzie_server_ext.domain.events import Draft, EventBody, TaskPausing, TaskQueued, TaskResumed
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import FINAL, OPEN, TaskStatus
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.service import TaskService


class Pauses:
    """Takes the wishes in. Whoever carries tasks out hears of them from the log."""

    def __init__(self, log: EventLog, tasks: TaskService) -> None:
        self._log = log
        self._tasks = tasks

    async def pause(self, task_id: TaskId, *, by: str, reason: str = "") -> None:
        """Hold a task: a turn before its next calls, a run before its next steps, with the runs within it. What waits,
        for its turn or for a person, is held once it would go on.

        Raises NotFound, or Conflict for one that has ended or is held already.
        """
        while True:
            version, row = await self._look(task_id)
            status = TaskStatus(str(row["status"]))
            if status in FINAL:
                raise Conflict(f"The task has ended already: {status.lower()}.", code="task.ended")
            if status is TaskStatus.PAUSED or row["pause_by"]:
                raise Conflict(
                    "The task is paused already." if status is TaskStatus.PAUSED else "The task is about to pause.",
                    hint=f"Let it go on with: ozzie tasks resume {task_id}",
                    code="task.paused",
                )
            if await self._said(row, version, TaskPausing(by=by, reason=reason)):
                break
        for inner in await self._runs_within(row):
            with contextlib.suppress(Conflict):  # it has ended by now, or is held
                await self.pause(inner, by=by, reason=reason)

    async def resume(self, task_id: TaskId, *, by: str) -> None:
        """Let a task go on that is held, or is about to be. Raises NotFound, or Conflict for one that is not."""
        while True:
            version, row = await self._look(task_id)
            if row["status"] == TaskStatus.PAUSED:
                facts: tuple[EventBody, ...] = (TaskResumed(by=by), TaskQueued(reason="resumed"))
            elif row["pause_by"]:
                facts = (TaskPausing(by=by, wanted=False),)
            else:
                raise Conflict(
                    "The task is not paused.",
                    hint=f"What it does says: ozzie tasks show {task_id}",
                    code="task.not_paused",
                )
            if await self._said(row, version, *facts):
                break
        for inner in await self._runs_within(row):
            with contextlib.suppress(Conflict):
                await self.resume(inner, by=by)

    async def _look(self, task_id: TaskId) -> tuple[int, Row]:
        """The version of the task's stream, and its row, which is not older."""
        version = await self._log.version(task_stream(task_id))
        return version, await self._tasks.get(task_id)

    async def _said(self, row: Row, version: int, *facts: EventBody) -> bool:
        """Whether that could be said before anybody else had something to say of the task."""
        task_id, session_id = TaskId(str(row["task_id"])), SessionId(str(row["session_id"]))
        drafts = [
            Draft(body=fact, actor="user", source="hub", session_id=session_id, task_id=task_id) for fact in facts
        ]
        try:
            await self._log.append(task_stream(task_id), drafts, expected_version=version)
        except VersionConflict:
            return False
        return True

    async def _runs_within(self, row: Row) -> list[TaskId]:
        """The runs that are steps of the run of that row, and have not ended."""
        is_open: list[Json] = [str(status) for status in OPEN]
        rows = await self._log.rows("tasks", where={"parent_id": row["task_id"], "mode": "GRAPH", "status": is_open})
        return [TaskId(str(inner["task_id"])) for inner in rows]
