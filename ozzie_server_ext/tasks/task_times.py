"""How long tasks work, and their end once that is as long as their budgets say (MD-5).

A run of a skill works while one of the tasks below it does, or a call that its steps make at once; a turn besides while
it does something itself. What waits for a person, for an event outside or for a place, and what is paused, takes no
time; side by side, time passes once.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta

from ozzie_server_ext.agent.limits import OutOfTime
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.events import (
    Event,
    StepCompleted,
    StepFailed,
    TaskCreated,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.stretches import Stretch, stretches
from ozzie_server_ext.tasks.work import Work


class TaskTimes:
    """Hears of all that tasks do. What is kept in memory of one that goes on, the log says after a restart."""

    def __init__(self, log: EventLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._watches: dict[TaskId, _Watch] = {}
        log.on_commit(self._follow)

    @asynccontextmanager
    async def bounded(self, task_id: TaskId, limit_s: float | None) -> AsyncIterator[None]:
        """End what is within once the task has worked for so long, before a restart too; None does nothing.

        Raises OutOfTime, also at once.
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
        """How long a task has worked so far."""
        return await self._load(_Watch(task_id))

    @contextmanager
    def working(self, run: TaskId) -> Iterator[None]:
        """A call is made for a step of that run, without a task of its own."""
        watches = [watch for watch in self._watches.values() if run in watch.members]
        key = object()
        for watch in watches:
            watch.works(key)
        try:
            yield
        finally:
            for watch in watches:
                watch.rests(key)

    def passes(self, task_id: TaskId) -> bool:
        """Whether the time of a task that is bounded passes now."""
        return task_id in self._watches and bool(self._watches[task_id].working)

    async def _load(self, watch: "_Watch") -> timedelta:
        """How long the task has worked by the log; what works now, the watch knows then."""
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
    """One task, `root`, and those below it, by whether they are runs of skills; and what of all these works now."""

    def __init__(self, root: TaskId) -> None:
        self.root = root
        self.members: dict[TaskId, bool] = {root: False}
        self.working: set[object] = set()
        self._work: dict[TaskId, Work] = {}
        self._read: dict[TaskId, int] = {}
        self._early: list[Event] | None = []
        """What was heard of before all was read."""
        self._limit: asyncio.Timeout | None = None
        self._left_s = 0.0
        self._since = 0.0

    def read(self, task_id: TaskId, events: tuple[Event, ...]) -> list[Stretch]:
        """When the task worked. What is heard of it later may be among these."""
        for event in events:
            if isinstance(event.body, TaskCreated):
                self.members[task_id] = event.body.mode == "GRAPH"
            self._heard(task_id, event)
        if self.members[task_id]:
            return [call for event in events for call in _made(event)]
        return stretches(events)

    def begin(self, limit: asyncio.Timeout, left_s: float) -> None:
        """From here on, the time that passes is taken off."""
        self._limit, self._left_s = limit, left_s
        if self.working:
            self._start()
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
            self._heard(task_id, event)

    def _heard(self, task_id: TaskId, event: Event) -> None:
        """Time passes for a run by what is below it alone."""
        if self.members[task_id] or event.version <= self._read.get(task_id, 0):
            return
        self._read[task_id] = event.version
        work = self._work.setdefault(task_id, Work())
        work.take(event)
        if work.goes_on:
            self.works(task_id)
        else:
            self.rests(task_id)

    def works(self, key: object) -> None:
        is_first = not self.working
        self.working.add(key)
        if is_first:
            self._start()

    def rests(self, key: object) -> None:
        if key not in self.working:
            return
        self.working.discard(key)
        if not self.working and self._limit is not None:
            self._left_s -= asyncio.get_running_loop().time() - self._since
            self._set(None)

    def _start(self) -> None:
        if self._limit is not None:
            self._since = asyncio.get_running_loop().time()
            self._set(self._since + self._left_s)

    def _set(self, when: float | None) -> None:
        assert self._limit is not None
        with contextlib.suppress(RuntimeError):  # it has just come to its end
            self._limit.reschedule(when)


def _made(event: Event) -> Iterator[Stretch]:
    """The time of a call that was recorded with the end of its step (ADR 44)."""
    match event.body:
        case StepCompleted(call=call) | StepFailed(call=call) if call is not None:
            yield event.ts - timedelta(milliseconds=call.duration_ms), event.ts
        case _:
            return


def _union(found: Iterable[Stretch], now: datetime) -> timedelta:
    """How long all of these take together, counting once what lies side by side."""
    total, until = timedelta(), None
    for begin, end in sorted((begin, end or now) for begin, end in found):
        if until is not None:
            begin = max(begin, until)
        if end > begin:
            total += end - begin
        until = end if until is None else max(until, end)
    return total
