"""After a restart: what was running goes back to the queue, what was queued runs, nothing is lost (TK-2, S4 §6.3.3).

A turn goes on from what the log says was done. Today's tools only read, so running one again does no harm.
"""

from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.events import TaskFailed, TaskQueued
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import TaskStatus
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tasks.service import Runner

log = logger(__name__)

MAX_ATTEMPTS = 3
"""A turn that was running at each of so many deaths of the gateway may be what kills it."""


async def recover(event_log: EventLog, runner: Runner) -> int:
    """Take up every unfinished task, in the order in which they were created; returns how many."""
    taken = 0
    unfinished: list[Json] = [TaskStatus.CREATED, TaskStatus.QUEUED, TaskStatus.RUNNING]
    for row in await event_log.rows("tasks", where={"status": unfinished}, order_by="task_id"):
        status = TaskStatus(str(row["status"]))
        recorder = Recorder(
            log=event_log,
            session_id=SessionId(str(row["session_id"])),
            task_id=TaskId(str(row["task_id"])),
            source="recovery",
        )
        try:
            if status is TaskStatus.RUNNING and int(str(row["attempt"])) >= MAX_ATTEMPTS:
                await recorder.append(_given_up())
                continue
            if status is not TaskStatus.QUEUED:
                await recorder.append(TaskQueued(reason="recovered"))
        except Conflict:
            log.warning("a task changed while it was recovered", extra={"task_id": recorder.task_id})
            continue
        runner.enqueue(recorder.task_id, recorder.session_id)
        taken += 1
    return taken


def _given_up() -> TaskFailed:
    return TaskFailed(
        kind="system",
        code="task.interrupted",
        message=f"This turn was interrupted by a restart {MAX_ATTEMPTS} times and was not taken up again.",
        hint="Run the cell again. Your message is kept.",
    )
