"""Pausing and resuming tasks, durably and across restarts."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ozzie_server_ext.domain.errors import Conflict, VersionConflict
from ozzie_server_ext.domain.events import (
    FINAL_TYPES,
    Event,
    EventBody,
    TaskCancelled,
    TaskFailed,
    TaskPaused,
    TaskPauseRequested,
    TaskResumed,
    TaskSucceeded,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import FINAL, TaskHeld, TaskStatus
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.shielded import expect_not_cancelled, shielded
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.rows import open_tasks, session_of, task_of, user_recorder
from ozzie_server_ext.tasks.service import TaskService

BY_YOU = "by you"
"""The default reason, in the words of a task's state line."""


class PauseRequest(NamedTuple):
    """The latest request to pause (`wanted`) or resume a task, at a `position` of the log. `is_done`: it has taken
    effect."""

    position: int
    wanted: bool
    by: str = ""
    reason: str = ""
    is_done: bool = False


def latest_request(events: Iterable[Event]) -> PauseRequest | None:
    """Return a task's latest request by its events; None if there was none since it last ended."""
    last: PauseRequest | None = None
    is_paused = False
    for event in events:
        match event.body:
            case TaskPauseRequested(by=by, reason=reason, wanted=wanted):
                last = PauseRequest(event.position, wanted, by, reason, is_done=not wanted)
            case TaskPaused():
                is_paused = True
                last = last and last._replace(is_done=True)
            case TaskResumed(by=by) if is_paused:  # otherwise a question was answered
                last, is_paused = PauseRequest(event.position, wanted=False, by=by, is_done=True), False
            case TaskSucceeded() | TaskFailed() | TaskCancelled():
                last, is_paused = None, False
            case _:
                pass
    return last


def pending_pause(events: Iterable[Event]) -> TaskPaused | None:
    """Return the pause to record if one was requested and has not taken effect."""
    request = latest_request(events)
    if request is None or not request.wanted or request.is_done:
        return None
    return TaskPaused(by=request.by, reason=request.reason or BY_YOU)


class PausePoints:
    """Follows the requested pauses, which take effect at points of turns and runs."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._requested: set[TaskId] = set()
        self._on_request: dict[TaskId, Callable[[], None]] = {}
        log.on_commit(self._follow, types={TaskPauseRequested.type, TaskPaused.type, *FINAL_TYPES})

    async def load(self) -> None:
        """Load the pauses requested under earlier gateways, before any task runs."""
        self._requested |= {task_of(row) for row in await open_tasks(self._log) if row["pause_by"]}

    def is_requested(self, task_id: TaskId) -> bool:
        return task_id in self._requested

    async def point(self, recorder: Recorder) -> None:
        """If a pause is requested, record it and raise TaskHeld."""
        if not self.is_requested(recorder.task_id):
            return
        while True:
            events = await self._log.read_stream(task_stream(recorder.task_id))
            paused = pending_pause(events)
            if paused is None:
                return
            try:
                await shielded(recorder.append(paused, actor="user", expected_version=events[-1].version))
            except VersionConflict:  # the task has changed meanwhile: check again
                expect_not_cancelled()
                continue
            except asyncio.CancelledError:
                raise TaskHeld from None  # it is recorded by now
            raise TaskHeld

    @contextmanager
    def notifying(self, task_id: TaskId, on_request: Callable[[], None]) -> Iterator[None]:
        """Inside of the `with`, call `on_request` when a pause of the task is requested."""
        self._on_request[task_id] = on_request
        try:
            yield
        finally:
            del self._on_request[task_id]

    def _follow(self, events: tuple[Event, ...]) -> None:
        for event in events:
            match event.body:
                case TaskPauseRequested(wanted=True) if event.task_id is not None:
                    self._requested.add(event.task_id)
                    if on_request := self._on_request.get(event.task_id):
                        on_request()
                case TaskPauseRequested() | TaskPaused() | TaskSucceeded() | TaskFailed() | TaskCancelled():
                    self._requested -= {event.task_id}
                case _:
                    pass


async def propagate_requests(log: EventLog, source: str) -> None:
    """Pass the latest request of each task on to the runs below it that have no later one. Call it before any task runs
    and before paused tasks are looked up."""
    for run in await open_tasks(log, mode="GRAPH"):  # a run comes before those that it has delegated
        if run["parent_id"] is not None:
            await _pass_on(log, run, source, await _request_of(log, run["parent_id"]))


async def pause_nested(log: EventLog, run: TaskId, source: str) -> None:
    """Pause the nested runs that were created while the pause of `run` was requested, and so missed it."""
    for inner in await open_tasks(log, mode="GRAPH", parent_id=run):
        request = await _request_of(log, run)
        if request is not None and request.wanted:
            with contextlib.suppress(Conflict):  # it has ended by now, or is paused
                await _pass_on(log, inner, source, request)


async def _request_of(log: EventLog, task: Json) -> PauseRequest | None:
    return latest_request(await log.read_stream(task_stream(TaskId(str(task)))))


async def _pass_on(log: EventLog, run: Row, source: str, request: PauseRequest | None) -> None:
    own = await _request_of(log, run["task_id"])
    if request is None or (own is not None and own.position > request.position):
        return
    if facts := _facts(run, request):
        recorder = Recorder(log=log, session_id=session_of(run), task_id=task_of(run), actor="user", source=source)
        await recorder.append(*facts)


def _facts(run: Row, request: PauseRequest) -> tuple[EventBody, ...]:
    """Return the events that make a run comply with a request; none if it does."""
    is_paused = run["status"] == TaskStatus.PAUSED
    if request.wanted:
        complies = is_paused or run["pause_by"]
        return () if complies else (TaskPauseRequested(by=request.by, reason=request.reason),)
    if is_paused:
        return (TaskResumed(by=request.by),)
    return (TaskPauseRequested(by=request.by, wanted=False),) if run["pause_by"] else ()


class Pauses:
    """Records requests to pause and resume. The driver follows them in the log."""

    def __init__(self, log: EventLog, tasks: TaskService) -> None:
        self._log = log
        self._tasks = tasks

    async def pause(self, task_id: TaskId, *, by: str, reason: str = "") -> None:
        """Pause a task: a turn before its next calls, a run before its next steps, with its nested runs. A waiting task
        is paused when it would go on.

        Raises NotFound, or Conflict if it has ended or is paused already.
        """
        while True:
            version, row = await self._read(task_id)
            status = TaskStatus(str(row["status"]))
            if status in FINAL:
                raise Conflict(f"The task has ended already: {status.lower()}.", code="task.ended")
            if status is TaskStatus.PAUSED or row["pause_by"]:
                raise Conflict(
                    "The task is paused already." if status is TaskStatus.PAUSED else "The task is about to pause.",
                    hint=f"Let it go on with: ozzie tasks resume {task_id}",
                    code="task.paused",
                )
            if await self._append(row, version, TaskPauseRequested(by=by, reason=reason)):
                break
        for inner in await self._nested(row):
            with contextlib.suppress(Conflict):  # it has ended by now, or is paused
                await self.pause(inner, by=by, reason=reason)

    async def resume(self, task_id: TaskId, *, by: str) -> None:
        """Resume a task that is paused or about to be. Raises NotFound, or Conflict if it is not."""
        while True:
            version, row = await self._read(task_id)
            if row["status"] == TaskStatus.PAUSED:
                facts: tuple[EventBody, ...] = (TaskResumed(by=by),)
            elif row["pause_by"]:
                facts = (TaskPauseRequested(by=by, wanted=False),)
            else:
                raise Conflict(
                    "The task is not paused.",
                    hint=f"See what it does: ozzie tasks show {task_id}",
                    code="task.not_paused",
                )
            if await self._append(row, version, *facts):
                break
        for inner in await self._nested(row):
            with contextlib.suppress(Conflict):
                await self.resume(inner, by=by)

    async def _read(self, task_id: TaskId) -> tuple[int, Row]:
        """Return the version of the task's stream, and its row, which is of that version or later."""
        version = await self._log.version(task_stream(task_id))
        return version, await self._tasks.get(task_id)

    async def _append(self, row: Row, version: int, *facts: EventBody) -> bool:
        """Append the facts; return False if the task has changed since `version`."""
        try:
            await user_recorder(self._log, session_of(row), task_of(row)).append(*facts, expected_version=version)
        except VersionConflict:
            return False
        return True

    async def _nested(self, row: Row) -> list[TaskId]:
        """Return the open runs that are steps of this run."""
        return [task_of(inner) for inner in await open_tasks(self._log, parent_id=row["task_id"], mode="GRAPH")]
