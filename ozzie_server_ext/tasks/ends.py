"""Waiting for the end of a task, as the log has it."""

import asyncio

from ozzie_server_ext.domain.events import FINAL_TYPES, Event
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.domain.tasks import FINAL
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row


class Ends:
    """Tells whoever waits. It hears of every end, so a look at the table before waiting misses none."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._waiting: dict[TaskId, list[asyncio.Event]] = {}
        log.on_commit(self._follow)

    async def of(self, task_id: TaskId) -> Row:
        """The task's row once it has ended."""
        heard = asyncio.Event()
        self._waiting.setdefault(task_id, []).append(heard)
        try:
            while True:
                rows = await self._log.rows("tasks", where={"task_id": task_id}, limit=1)
                if rows and rows[0]["status"] in FINAL:
                    return rows[0]
                await heard.wait()
                heard.clear()
        finally:
            waiting = self._waiting[task_id]
            waiting.remove(heard)
            if not waiting:
                del self._waiting[task_id]

    def _follow(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if event.task_id is not None and event.type in FINAL_TYPES:
                for heard in self._waiting.get(event.task_id, ()):
                    heard.set()
