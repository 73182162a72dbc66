"""Holding a task, and letting it go on: durable, whatever it does at that moment, and over a restart."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ozzie_server_ext.domain.errors import Conflict, VersionConflict
from ozzie_server_ext.domain.events import (
    Draft,
    Event,
    EventBody,
    TaskCancelled,
    TaskFailed,
    TaskPaused,
    TaskPauseRequested,
    TaskQueued,
    TaskResumed,
    TaskSucceeded,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import FINAL, OPEN, TaskStatus, TurnHeld
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.shielded import uncut
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.service import TaskService

BY_YOU = "by you"
"""Why a task is paused, as the line of its state says it."""


class Wish(NamedTuple):
    """That a task is `held`, or goes on; `position` is where in the log that was said, and `has_come` whether it is
    so by now."""

    position: int
    held: bool
    by: str = ""
    reason: str = ""
    has_come: bool = False


def last_wish(events: Iterable[Event]) -> Wish | None:
    """The last one of a task of these events; None where there was none since it last ended."""
    last: Wish | None = None
    is_paused = False
    for event in events:
        match event.body:
            case TaskPauseRequested(by=by, reason=reason, wanted=wanted):
                last = Wish(event.position, wanted, by, reason, has_come=not wanted)
            case TaskPaused():
                is_paused = True
                last = last and last._replace(has_come=True)
            case TaskResumed(by=by) if is_paused:  # of what waited for an answer, it says nothing
                last, is_paused = Wish(event.position, held=False, by=by, has_come=True), False
            case TaskSucceeded() | TaskFailed() | TaskCancelled():
                last, is_paused = None, False
            case _:
                pass
    return last


def wished(events: Iterable[Event]) -> TaskPaused | None:
    """The pause that somebody asked for in a task of these events, and that has not come."""
    wish = last_wish(events)
    if wish is None or not wish.held or wish.has_come:
        return None
    return TaskPaused(by=wish.by, reason=wish.reason or BY_YOU)


class PausePoints:
    """Knows of which tasks that is wanted; the log says so to it."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._wished: set[TaskId] = set()
        self._wakes: dict[TaskId, Callable[[], None]] = {}
        log.on_commit(self._follow)

    async def load(self) -> None:
        """Find out what a gateway before was asked for. Before anything runs."""
        is_open: dict[str, Json] = {"status": [str(status) for status in OPEN]}
        for row in await self._log.rows("tasks", where=is_open):
            if row["pause_by"]:
                self._wished.add(TaskId(str(row["task_id"])))

    def is_wished(self, task_id: TaskId) -> bool:
        """Whether the task is to be held, as far as the log has said so."""
        return task_id in self._wished

    async def point(self, recorder: Recorder) -> None:
        """Raises TurnHeld where the task is to be held. That it is, is recorded then."""
        if not self.is_wished(recorder.task_id):
            return
        while True:
            events = await self._log.read_stream(task_stream(recorder.task_id))
            paused = wished(events)
            if paused is None:
                return
            try:
                await uncut(recorder.append(paused, actor="user", expected_version=events[-1].version))
            except VersionConflict:  # somebody had something to say meanwhile: look again
                continue
            except asyncio.CancelledError:
                raise TurnHeld from None  # it was recorded by then
            raise TurnHeld

    @contextmanager
    def telling(self, task_id: TaskId, wake: Callable[[], None]) -> Iterator[None]:
        """Meanwhile, `wake` is called once a pause is wished for."""
        self._wakes[task_id] = wake
        try:
            yield
        finally:
            del self._wakes[task_id]

    def _follow(self, events: tuple[Event, ...]) -> None:
        for event in events:
            match event.body:
                case TaskPauseRequested(wanted=True) if event.task_id is not None:
                    self._wished.add(event.task_id)
                    self._wakes.get(event.task_id, _nobody)()
                case TaskPauseRequested() | TaskPaused() | TaskSucceeded() | TaskFailed() | TaskCancelled():
                    self._wished -= {event.task_id}
                case _:
                    pass


def _nobody() -> None:
    """Where nothing waits that could be woken."""


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
        return () if is_held else (TaskPauseRequested(by=wanted.by, reason=wanted.reason),)
    if is_paused:
        return TaskResumed(by=wanted.by), TaskQueued(reason="recovered")
    return (TaskPauseRequested(by=wanted.by, wanted=False),) if run["pause_by"] else ()


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
            if await self._said(row, version, TaskPauseRequested(by=by, reason=reason)):
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
                facts = (TaskPauseRequested(by=by, wanted=False),)
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
