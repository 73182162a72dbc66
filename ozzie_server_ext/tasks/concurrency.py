"""How many tasks run at once, which is next, and which running tasks only wait for others."""

import asyncio
from bisect import insort
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

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
    """Who waits for a slot. `turn` is the number of slots that its group holds, and of its waiters that came earlier:
    the lowest is next."""

    group: str
    on_ahead: OnAhead
    turn: int
    number: int
    granted: "asyncio.Future[None]" = msgspec.field(default_factory=lambda: asyncio.get_running_loop().create_future())
    ahead: int = -1


def _place(waiter: _Waiter) -> tuple[int, int]:
    return waiter.turn, waiter.number


class FairSlots:
    """A semaphore that is fair between groups: the group with the fewest slots is next, and among those the one that
    came first. `most` returns the current number of slots."""

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._held: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._order: list[_Waiter] = []
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
        waiter = _Waiter(group, on_ahead, self._held[group] + self._waiting[group], self._count)
        insort(self._order, waiter, key=_place)
        self._waiting[group] += 1
        self._grant()
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.done() and not waiter.granted.cancelled():  # granted at the same moment
                self._release(group)
            else:
                self._order.remove(waiter)
                _count_down(self._waiting, group)
                self._advance(group, behind=waiter.number)
                self._grant()
            raise

    def _release(self, group: str) -> None:
        _count_down(self._held, group)
        self._advance(group)
        self._grant()

    def _grant(self) -> None:
        while self._order and self._held.total() < max(self._most(), 1):
            waiter = self._order.pop(0)  # the turns of those behind it stay: one waits less, and one holds a slot more
            _count_down(self._waiting, waiter.group)
            self._held[waiter.group] += 1
            waiter.granted.set_result(None)
        for ahead, waiter in enumerate(self._order[:MOST_NOTIFIED]):
            if waiter.ahead != ahead:
                waiter.ahead = ahead
                waiter.on_ahead(ahead)

    def _advance(self, group: str, behind: int = 0) -> None:
        """Let those of a group who came after number `behind` be earlier by one."""
        if self._waiting[group]:
            for waiter in self._order:
                if waiter.group == group and waiter.number > behind:
                    waiter.turn -= 1
            self._order.sort(key=_place)


def _count_down(counter: Counter[str], group: str) -> None:
    counter[group] -= 1
    if not counter[group]:
        del counter[group]


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
