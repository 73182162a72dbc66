"""Carries tasks out: one at a time in a session, sessions side by side (DESIGN §2.3, SE-5)."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ozzie_server_ext.agent.limits import LimitExceeded
from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.errors import Conflict, OzzieError
from ozzie_server_ext.domain.events import TaskCancelled, TaskFailed, TaskStarted, TaskSucceeded
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.tasks import TaskStatus
from ozzie_server_ext.models.driver import ModelError
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row

log = logger(__name__)

RunTurn = Callable[[Row, Recorder], Awaitable[int]]
"""Runs the turn of a task's row, recording through the recorder; returns its number of rounds."""


@dataclass(slots=True)
class _Running:
    task_id: TaskId
    work: "asyncio.Task[None]"
    began: bool = False
    stopped_by: str = ""
    reason: str = ""


class TaskDriver:
    """Claims queued tasks and sees each to a final state, or leaves it for recovery when the gateway stops."""

    def __init__(self, log_: EventLog, ids: IdSource, run_turn: RunTurn) -> None:
        self._log = log_
        self._run_turn = run_turn
        self._epoch = ids.new()
        self._waiting: dict[SessionId, deque[TaskId]] = {}
        self._running: dict[SessionId, _Running] = {}
        self._stopping = False

    @property
    def busy(self) -> bool:
        """Whether anything runs or waits here; a gateway with an idle exit stays up while it does."""
        return bool(self._running)

    def enqueue(self, task_id: TaskId, session_id: SessionId) -> int:
        """See `tasks.service.Runner`."""
        queue = self._waiting.setdefault(session_id, deque())
        ahead = len(queue) + (session_id in self._running)
        queue.append(task_id)
        self._next(session_id)
        return ahead

    def interrupt(self, task_id: TaskId, by: str, reason: str) -> bool:
        """See `tasks.service.Runner`. The end is recorded by the task itself once it has let go."""
        for running in self._running.values():
            if running.task_id == task_id:
                if not running.stopped_by:
                    running.stopped_by, running.reason = by, reason
                    if running.began:  # what is cancelled before its first step could not even say so
                        running.work.cancel()
                return True
        return False

    async def stop(self) -> None:
        """Let go of everything at once. What was running stays RUNNING in the log; the next start recovers it."""
        self._stopping = True
        works = [running.work for running in self._running.values()]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)

    def _next(self, session_id: SessionId) -> None:
        queue = self._waiting.get(session_id)
        if self._stopping or session_id in self._running or not queue:
            return
        task_id = queue.popleft()
        if not queue:
            del self._waiting[session_id]
        work = asyncio.create_task(self._drive(task_id, session_id), name=f"task {task_id}")
        self._running[session_id] = _Running(task_id, work)

    async def _drive(self, task_id: TaskId, session_id: SessionId) -> None:
        recorder = Recorder(log=self._log, session_id=session_id, task_id=task_id, trace_id=task_id)
        running = self._running[session_id]
        running.began = True
        try:
            if running.stopped_by:
                raise asyncio.CancelledError
            await self._claim_and_run(recorder)
        except asyncio.CancelledError:
            await self._cancelled(recorder)
        except Exception:
            log.exception("the task could not be driven", extra={"task_id": task_id})
        finally:
            del self._running[session_id]
            self._next(session_id)

    async def _claim_and_run(self, recorder: Recorder) -> None:
        rows = await self._log.rows("tasks", where={"task_id": recorder.task_id}, limit=1)
        if not rows or rows[0]["status"] != TaskStatus.QUEUED:
            return  # cancelled while it waited
        attempt = int(str(rows[0]["attempt"])) + 1
        try:
            await recorder.append(TaskStarted(attempt=attempt, epoch=self._epoch))
        except Conflict:
            return
        try:
            rounds = await self._run_turn(rows[0] | {"attempt": attempt}, recorder)
        except OzzieError as error:
            await recorder.append(_failure(error))
        except Exception as error:
            log.exception("the turn broke", extra={"task_id": recorder.task_id})
            await recorder.append(_broken(error))
        else:
            await recorder.append(TaskSucceeded(rounds=rounds))

    async def _cancelled(self, recorder: Recorder) -> None:
        running = self._running[recorder.session_id]
        if not running.stopped_by:
            return  # the gateway stops: recovery goes on with it
        try:
            await recorder.append(TaskCancelled(by=running.stopped_by, reason=running.reason), actor="user")
        except Conflict:
            pass  # it had ended in the same moment
        except OzzieError:
            log.exception("the end of a stopped task was not recorded", extra={"task_id": recorder.task_id})


def _failure(error: OzzieError) -> TaskFailed:
    kind = "model" if isinstance(error, ModelError) or error.code.startswith(("provider.", "model.")) else "system"
    if isinstance(error, LimitExceeded):
        kind = "business"
    return TaskFailed(kind=kind, code=error.code, message=str(error), hint=error.hint)


def _broken(error: Exception) -> TaskFailed:
    return TaskFailed(
        kind="system",
        code="bug",
        message=f"Ozzie made a mistake of its own ({type(error).__name__}). Your message is kept.",
        hint="Run the cell again. The folder logs/app has the details for a bug report.",
    )
