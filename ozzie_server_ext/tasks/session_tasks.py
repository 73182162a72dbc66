"""The tasks of one session, for the tools of a task in it."""

from collections.abc import Sequence

from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.errors import Conflict, NotFound
from ozzie_server_ext.domain.events import MessageCompleted, content_of
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.tasks import FINAL, OPEN
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.rows import above, find_task, task_of
from ozzie_server_ext.tasks.service import TaskService
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.builtin.tasks import STOPPING, own_task

MOST_STEPS = 50
BY = "Ozzie"
"""Who stopped a task, if a model did with a tool."""


class TasksOfSession:
    """See `tools.base.SessionTasks`. `task_id` is the calling task, which can stop neither itself nor those above."""

    def __init__(self, log: EventLog, tasks: TaskService, session_id: SessionId, task_id: TaskId) -> None:
        self._log = log
        self._tasks = tasks
        self._session_id = session_id
        self._task_id = task_id

    async def list(self, most: int, *, open_only: bool) -> tuple[Sequence[JsonObject], Content]:
        """See `SessionTasks`."""
        statuses = sorted(OPEN) if open_only else ()
        rows = await self._tasks.list(limit=most, session_id=self._session_id, statuses=statuses)
        return [self._short(row) for row in rows], await self._content(rows)

    async def show(self, task_id: TaskId) -> tuple[JsonObject, Content]:
        """See `SessionTasks`."""
        row = await self._row(task_id)
        events = await self._log.read_stream(task_stream(task_id))
        answers = [event.body.text for event in events if isinstance(event.body, MessageCompleted)]
        steps = await self._tasks.list(limit=MOST_STEPS, parent=task_id)
        listed: list[Json] = [self._short(step) for step in reversed(steps)]
        is_above = task_id in await self._above()
        shown = self._short(row) | {"is_above": is_above, "answer": answers[-1] if answers else None, "steps": listed}
        if row["error_code"]:
            shown["error"] = {"code": row["error_code"], "message": row["error_message"]}
        return shown, content_of(events) | await self._content(steps)

    async def cancel(self, task_id: TaskId, reason: str) -> None:
        """See `SessionTasks`."""
        if task_id in (self._task_id, *await self._above()):
            raise own_task()
        await self._row(task_id)
        try:
            await self._tasks.cancel(task_id, by=BY, reason=reason)
        except Conflict as error:  # it has ended meanwhile
            raise ToolFailed(str(error), code=error.code) from None

    async def _above(self) -> Sequence[TaskId]:
        """Return the tasks that the calling task is a part of."""
        own = await find_task(self._log, self._task_id)
        up = {} if own is None else await above(self._log, [own])
        return [task_of(row) for rows in up.values() for row in rows]

    async def _row(self, task_id: TaskId) -> Row:
        row = await find_task(self._log, task_id)
        if row is None or row["session_id"] != self._session_id:
            raise NotFound("There is no such task in this session.", code="task.unknown")
        return row

    async def _content(self, rows: Sequence[Row]) -> Content:
        """Return the provenance of titles and reasons, which may quote anything that the tasks read."""
        return Content.of_all([content_of(await self._log.read_stream(task_stream(task_of(row)))) for row in rows])

    def _short(self, row: Row) -> JsonObject:
        return {
            "task_id": row["task_id"],
            "title": row["title"],
            "status": STOPPING if row["stop_by"] else row["status"],
            "ended": row["status"] in FINAL,
            "kind": "run" if row["mode"] == "GRAPH" else "turn",
            "parent_id": row["parent_id"],
            "created_at": row["created_at"],
            "is_this": row["task_id"] == self._task_id,
        }
