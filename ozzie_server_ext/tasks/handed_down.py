"""A run that is asked to pause, or to go on, concerns the runs within it, each of which is told in an append of its
own. A gateway that died between these leaves it to the next one to tell the others (TK-1, TK-2)."""

import contextlib
from collections.abc import Iterable
from typing import NamedTuple

from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.events import (
    Event,
    EventBody,
    TaskCancelled,
    TaskFailed,
    TaskPaused,
    TaskPausing,
    TaskQueued,
    TaskResumed,
    TaskSucceeded,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import OPEN, TaskStatus
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row


class Wish(NamedTuple):
    """What was wanted of a task last: that it is held, or goes on; and at which position of the log."""

    position: int
    held: bool
    by: str = ""
    reason: str = ""


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


def last_wish(events: Iterable[Event]) -> Wish | None:
    """The one of a task of these events; None where there was none since it last ended."""
    last: Wish | None = None
    paused = False
    for event in events:
        match event.body:
            case TaskPausing(by=by, reason=reason, wanted=wanted):
                last = Wish(event.position, wanted, by, reason)
            case TaskPaused():
                paused = True
            case TaskResumed(by=by) if paused:  # of what waited for an answer, it says nothing
                last, paused = Wish(event.position, held=False, by=by), False
            case TaskSucceeded() | TaskFailed() | TaskCancelled():
                last, paused = None, False
            case _:
                pass
    return last


def _facts(run: Row, wanted: Wish) -> tuple[EventBody, ...]:
    """What is to be said to that run, if it is not as it is wanted."""
    is_paused = run["status"] == TaskStatus.PAUSED
    if wanted.held:
        is_held = is_paused or run["pause_by"]
        return () if is_held else (TaskPausing(by=wanted.by, reason=wanted.reason),)
    if is_paused:
        return TaskResumed(by=wanted.by), TaskQueued(reason="recovered")
    return (TaskPausing(by=wanted.by, wanted=False),) if run["pause_by"] else ()
