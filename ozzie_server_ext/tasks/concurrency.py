"""How many tasks run at once, which is next, and which running tasks only wait for others."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from heapq import nsmallest
from itertools import islice

import msgspec

from ozzie_server_ext.config.settings import Settings
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.rows import find_task, session_of, task_of

MOST_NOTIFIED = 20
"""How many waiters are told their position after each change. Those behind them have time."""
MOST_KNOWN = 1000
"""The size of the cache of `TaskSlots`."""

OnAhead = Callable[[int], None]
"""Receives the number of waiters ahead."""


class _Waiter(msgspec.Struct, eq=False):
    on_ahead: OnAhead
    number: int
    granted: "asyncio.Future[None]" = msgspec.field(default_factory=lambda: asyncio.get_running_loop().create_future())
    ahead: int = -1


class FairSlots:
    """A semaphore that is fair between groups: the group with the fewest slots is next, and among those the one that
    came first. `most` returns the current number of slots."""

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Waiter]] = {}
        self._count = 0

    @asynccontextmanager
    async def slot(self, group: str, on_ahead: OnAhead = lambda ahead: None) -> AsyncIterator[None]:
        """Wait for a slot and hold it."""
        await self._acquire(group, on_ahead)
        try:
            yield
        finally:
            self._release(group)

    async def _acquire(self, group: str, on_ahead: OnAhead) -> None:
        self._count += 1
        waiter = _Waiter(on_ahead, self._count)
        self._waiting.setdefault(group, deque()).append(waiter)
        self._grant()
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.done() and not waiter.granted.cancelled():  # granted at the same moment
                self._release(group)
            else:
                self._forget(group, waiter)
                self._grant()
            raise

    def _release(self, group: str) -> None:
        self._held[group] -= 1
        if not self._held[group]:
            del self._held[group]
        self._grant()

    def _grant(self) -> None:
        while self._waiting and self._held.total() < max(self._most(), 1):
            group = min(self._waiting, key=lambda each: (self._held[each], self._waiting[each][0].number))
            waiter = self._waiting[group][0]
            self._forget(group, waiter)
            self._held[group] += 1
            waiter.granted.set_result(None)
        order = nsmallest(
            MOST_NOTIFIED,
            (
                (self._held[group] + index, waiter.number, waiter)
                for group, waiters in self._waiting.items()
                for index, waiter in enumerate(islice(waiters, MOST_NOTIFIED))
            ),
        )
        for ahead, (_, _, waiter) in enumerate(order):
            if waiter.ahead != ahead:
                waiter.ahead = ahead
                waiter.on_ahead(ahead)

    def _forget(self, group: str, waiter: _Waiter) -> None:
        self._waiting[group].remove(waiter)
        if not self._waiting[group]:
            del self._waiting[group]


class TaskSlots:
    """The slots of tasks: turns of sessions and steps of skills are limited separately; runs need none."""

    def __init__(
        self, log: EventLog, settings: Callable[[], Settings], on_ahead: Callable[[SessionId, TaskId, int], None]
    ) -> None:
        self._log = log
        self._turns = FairSlots(lambda: settings().tasks.max_running)
        self._steps = FairSlots(lambda: settings().skills.max_parallel_steps)
        self._on_ahead = on_ahead
        self._within_step: dict[str, bool] = {}

    @asynccontextmanager
    async def slot(self, row: Row) -> AsyncIterator[None]:
        """Wait for the slot of a task and hold it; return at once if it needs none."""
        task_id, session_id, parent = task_of(row), session_of(row), row["parent_id"]
        if row["mode"] == "GRAPH" or (parent is not None and await self._is_within_step(str(parent))):
            yield
            return
        slots, group = (self._turns, str(session_id)) if parent is None else (self._steps, str(parent))
        async with slots.slot(group, lambda ahead: self._on_ahead(session_id, task_id, ahead)):
            yield

    async def _is_within_step(self, task_id: str) -> bool:
        """Whether the task, or one above it, is a step that holds a slot."""
        if (known := self._within_step.get(task_id)) is None:
            row = await find_task(self._log, task_id)
            known = row is not None and row["parent_id"] is not None
            if row is not None and known and row["mode"] == "GRAPH":
                known = await self._is_within_step(str(row["parent_id"]))
            if len(self._within_step) >= MOST_KNOWN:
                del self._within_step[next(iter(self._within_step))]
            self._within_step[task_id] = known
        return known


class IdleTasks:
    """The running tasks that only wait, such as a run whose steps wait for a person."""

    def __init__(self) -> None:
        self._checks: dict[TaskId, Callable[[], bool]] = {}

    @contextmanager
    def track(self, task_id: TaskId, is_idle: Callable[[], bool]) -> Iterator[None]:
        """Use `is_idle` for the task inside of the `with`."""
        self._checks[task_id] = is_idle
        try:
            yield
        finally:
            del self._checks[task_id]

    def is_idle(self, task_id: TaskId) -> bool:
        check = self._checks.get(task_id)
        return check is not None and check()
