"""A run that is asked to pause, or to go on, concerns the runs within it, each of which is told in an append of its
own. A gateway that died between these leaves it to the next one to tell the others (TK-1, TK-2)."""

import contextlib

from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.events import (
    EventBody,
    TaskPausing,
    TaskQueued,
    TaskResumed,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import OPEN, TaskStatus
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.wishes import Wish, last_wish


async def hand_down(log: EventLog, source: str) -> None:
    """Have each run held, or go on, where that was last wanted of what it is a part of, and it was not told since.
    Before anything runs, and before what is held is looked for."""
    for run in await _open_runs(log):  # what a run has begun comes behind it
        if run["parent_id"] is not None:
            await _tell(log, run, source, await _wish_of(log, run["parent_id"]))


async def hold_within(log: EventLog, run: TaskId, source: str) -> None:
    """Have the runs held that a run had begun in the moment in which it was asked to pause: who asked could not see
    them."""
    for inner in await _open_runs(log, parent_id=run):
        wanted = await _wish_of(log, run)
        if wanted is not None and wanted.held:
            with contextlib.suppress(Conflict):  # it has ended by now, or is held
                await _tell(log, inner, source, wanted)


async def _open_runs(log: EventLog, **where: Json) -> list[Row]:
    is_open: list[Json] = [str(status) for status in OPEN]
    return await log.rows("tasks", where={"mode": "GRAPH", "status": is_open, **where}, order_by="task_id")


async def _wish_of(log: EventLog, task: Json) -> Wish | None:
    return last_wish(await log.read_stream(task_stream(TaskId(str(task)))))


async def _tell(log: EventLog, run: Row, source: str, wanted: Wish | None) -> None:
    told = await _wish_of(log, run["task_id"])
    if wanted is None or (told is not None and told.position > wanted.position):
        return
    if facts := _facts(run, wanted):
        session_id, task_id = SessionId(str(run["session_id"])), TaskId(str(run["task_id"]))
        recorder = Recorder(log=log, session_id=session_id, task_id=task_id, source=source)
        await recorder.append(*facts, actor="user")


def _facts(run: Row, wanted: Wish) -> tuple[EventBody, ...]:
    """What is to be said to that run, if it is not as it is wanted."""
    is_paused = run["status"] == TaskStatus.PAUSED
    if wanted.held:
        is_held = is_paused or run["pause_by"]
        return () if is_held else (TaskPausing(by=wanted.by, reason=wanted.reason),)
    if is_paused:
        return TaskResumed(by=wanted.by), TaskQueued(reason="recovered")
    return (TaskPausing(by=wanted.by, wanted=False),) if run["pause_by"] else ()
