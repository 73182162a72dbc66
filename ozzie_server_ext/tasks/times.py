"""Working times of tasks, and the end of a task when its time budget is used up."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta

from ozzie_server_ext.agent.rounds import OutOfTime
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.events import (
    Event,
    PromptAnswered,
    PromptRequested,
    StepCompleted,
    StepFailed,
    TaskCancelled,
    TaskCreated,
    TaskFailed,
    TaskPaused,
    TaskQueued,
    TaskStarted,
    TaskSucceeded,
    TaskWaitingApproval,
    TaskWaitingInput,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import CallId, TaskId, task_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.toolmeta import SKILLS
from ozzie_server_ext.store.log import EventLog

RECOVERY = "recovery"
"""The source of events that recovery records, long after a task was cut off."""

_PAUSES = (
    TaskWaitingInput,
    TaskWaitingApproval,
    TaskPaused,
    TaskSucceeded,
    TaskFailed,
    TaskCancelled,
    TaskQueued,
)
_CALL_ENDS = (ToolCallCompleted, ToolCallFailed, ToolCallCancelled, ToolCallUncertain)


class Work:
    """Whether a task works, folded from its events."""

    def __init__(self) -> None:
        self._runs = self._asks = False
        self._open: set[CallId] = set()
        self._delegating: set[CallId] = set()

    @property
    def goes_on(self) -> bool:
        """False while the task only waits for delegated tasks, or for a person whom a server asks."""
        return self._runs and not self._asks and not (self._open and self._open <= self._delegating)

    def take(self, event: Event) -> None:
        match event.body:
            case TaskStarted():
                self._runs, self._asks = True, False
            case PromptRequested(kind="server"):
                self._asks = True
            case PromptAnswered():
                self._asks = False
            case body if isinstance(body, _PAUSES):
                self._runs = False
                self._open.clear()  # repeated calls start again
            case ToolCallRequested(call_id=call_id, tool_id=tool_id) if tool_id.startswith(SKILLS):
                self._delegating.add(call_id)
            case ToolCallStarted(call_id=call_id):
                self._open.add(call_id)
            case ToolCallCancelled(call_id=call_id) if call_id in self._delegating:
                pass  # the turn itself is stopped, so it does not go on from here
            case body if isinstance(body, _CALL_ENDS):
                self._open.discard(body.call_id)
            case _:
                pass


Stretch = tuple[datetime, datetime | None]
"""Begin and end of a period of work; None while it goes on."""


def worked(events: Iterable[Event], now: datetime) -> timedelta:
    """Return how long a task has worked until now, by its events."""
    return sum(((end or now) - begin for begin, end in stretches(events)), timedelta())


def stretches(events: Iterable[Event]) -> list[Stretch]:
    """Return the periods in which a task has worked, by its events. If a gateway's end cut it off, a period ends with
    the last event that the task recorded."""
    found: list[Stretch] = []
    work = Work()
    since, last = None, None
    for event in events:
        work.take(event)
        is_late = event.source == RECOVERY  # recorded long after the task was cut off
        if since is None and work.goes_on and not is_late:
            since = event.ts
        elif since and not work.goes_on:
            found.append((since, last if is_late and last else event.ts))
            since = None
        if not is_late:
            last = event.ts
    return found if since is None else [*found, (since, None)]


class TaskTimes:
    """The working times of tasks. Running clocks are in memory, and can be restored from the log after a restart."""

    def __init__(self, log: EventLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._watches: dict[TaskId, _Watch] = {}
        log.on_commit(self._follow)

    @asynccontextmanager
    async def bounded(self, task_id: TaskId, limit_s: float | None) -> AsyncIterator[None]:
        """Limit the task's total working time, including earlier attempts, inside of the `async with`; None is no
        limit.

        Raises OutOfTime, possibly at once.
        """
        if limit_s is None:
            yield
            return
        watch = self._watches[task_id] = _Watch(task_id)
        limit = asyncio.timeout(None)
        try:
            left_s = limit_s - (await self._load(watch)).total_seconds()
            if left_s <= 0:
                raise OutOfTime(limit_s)
            async with limit:
                watch.begin(limit, left_s)
                yield
        except TimeoutError:
            if limit.expired():
                raise OutOfTime(limit_s) from None
            raise
        finally:
            del self._watches[task_id]

    async def spent(self, task_id: TaskId) -> timedelta:
        """Return how long a task has worked so far."""
        return await self._load(_Watch(task_id))

    @contextmanager
    def working(self, run: TaskId) -> Iterator[None]:
        """Count the time inside of the `with` as work of a run, for a call without its own task."""
        watches = [watch for watch in self._watches.values() if run in watch.members]
        key = object()
        for watch in watches:
            watch.start(key)
        try:
            yield
        finally:
            for watch in watches:
                watch.pause(key)

    def passes(self, task_id: TaskId) -> bool:
        """Whether the clock of a bounded task runs now."""
        return task_id in self._watches and bool(self._watches[task_id].working)

    async def _load(self, watch: "_Watch") -> timedelta:
        """Return how long the task has worked by the log, and load what works now into the watch."""
        found: list[Stretch] = []
        pending = [watch.root]
        while pending:
            for task_id in pending:
                events = await self._log.read_stream(task_stream(task_id))
                found += watch.read(task_id, events)
            rows = await self._log.rows("tasks", where={"parent_id": list[Json](pending)})
            watch.members |= {TaskId(str(row["task_id"])): row["mode"] == "GRAPH" for row in rows}
            pending = [TaskId(str(row["task_id"])) for row in rows]
        return _union(found, self._clock.now())

    def _follow(self, events: tuple[Event, ...]) -> None:
        for watch in self._watches.values():
            for event in events:
                watch.take(event)


class _Watch:
    """The clock of a task, `root`. `members` are it and the tasks below it, by whether they are runs of skills;
    `working` are those that work now."""

    def __init__(self, root: TaskId) -> None:
        self.root = root
        self.members: dict[TaskId, bool] = {root: False}
        self.working: set[object] = set()
        self._work: dict[TaskId, Work] = {}
        self._read: dict[TaskId, int] = {}
        self._early: list[Event] | None = []
        """Events that arrived before the log was read."""
        self._limit: asyncio.Timeout | None = None
        self._left_s = 0.0
        self._since = 0.0

    def read(self, task_id: TaskId, events: tuple[Event, ...]) -> list[Stretch]:
        """Return the periods of work in a task's events."""
        for event in events:
            if isinstance(event.body, TaskCreated):
                self.members[task_id] = event.body.mode == "GRAPH"
            self._apply(task_id, event)
        if self.members[task_id]:
            return [call for event in events for call in _calls_at_once(event)]
        return stretches(events)

    def begin(self, limit: asyncio.Timeout, left_s: float) -> None:
        """Start the clock with the remaining time."""
        self._limit, self._left_s = limit, left_s
        if self.working:
            self._resume()
        early, self._early = self._early or [], None
        for event in early:
            self.take(event)

    def take(self, event: Event) -> None:
        task_id = event.task_id
        if self._early is not None:
            self._early.append(event)
            return
        if task_id is None:
            return
        if isinstance(event.body, TaskCreated) and event.body.parent in self.members:
            self.members.setdefault(task_id, event.body.mode == "GRAPH")
        if task_id in self.members:
            self._apply(task_id, event)

    def _apply(self, task_id: TaskId, event: Event) -> None:
        # A run works only while tasks below it work; and an event may arrive after it was read.
        if self.members[task_id] or event.version <= self._read.get(task_id, 0):
            return
        self._read[task_id] = event.version
        work = self._work.setdefault(task_id, Work())
        work.take(event)
        if work.goes_on:
            self.start(task_id)
        else:
            self.pause(task_id)

    def start(self, key: object) -> None:
        is_first = not self.working
        self.working.add(key)
        if is_first:
            self._resume()

    def pause(self, key: object) -> None:
        if key not in self.working:
            return
        self.working.discard(key)
        if not self.working and self._limit is not None:
            self._left_s -= asyncio.get_running_loop().time() - self._since
            self._set(None)

    def _resume(self) -> None:
        if self._limit is not None:
            self._since = asyncio.get_running_loop().time()
            self._set(self._since + self._left_s)

    def _set(self, when: float | None) -> None:
        assert self._limit is not None
        with contextlib.suppress(RuntimeError):  # the timeout has just expired
            self._limit.reschedule(when)


def _calls_at_once(event: Event) -> Iterator[Stretch]:
    """Yield the period of a call that a step of a run made at once (ADR 44); earlier versions recorded it in the end
    of the step."""
    match event.body:
        case ToolCallCompleted(duration_ms=duration_ms) | ToolCallFailed(duration_ms=duration_ms):
            yield event.ts - timedelta(milliseconds=duration_ms), event.ts
        case StepCompleted(call=call) | StepFailed(call=call) if call is not None:
            yield event.ts - timedelta(milliseconds=call.duration_ms), event.ts
        case _:
            return


def _union(found: Iterable[Stretch], now: datetime) -> timedelta:
    """Return the total length of the union of periods."""
    total, until = timedelta(), None
    for begin, end in sorted((begin, end or now) for begin, end in found):
        if until is not None:
            begin = max(begin, until)
        if end > begin:
            total += end - begin
        until = end if until is None else max(until, end)
    return total
