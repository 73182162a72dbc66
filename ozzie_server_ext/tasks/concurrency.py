"""How many tasks run at once and who is next, and which of them only wait."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import islice

from ozzie_server_ext.config.settings import Settings
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row

MOST_TOLD = 20
"""Of those that wait, how many are told how many are before them, each time that somebody goes. Whoever waits behind
them has time."""
MOST_KNOWN = 1000
"""Tasks that delegate, of which it is remembered whether a step is above."""

Tell = Callable[[int], None]
"""Tells whoever waits how many are before it."""


@dataclass(eq=False, slots=True)
class _Waiter:
    tell: Tell
    number: int
    given: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    ahead: int = -1


class Places:
    """Those of one kind; `most` of them at once, as it is now. Of several groups that wait, the one that has the fewest
    is next, and of these the one that came first."""

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Waiter]] = {}
        self._count = 0

    @asynccontextmanager
    async def place(self, group: str, tell: Tell = lambda ahead: None) -> AsyncIterator[None]:
        """One of them, once there is one."""
        await self._take(group, tell)
        try:
            yield
        finally:
            self._leave(group)

    async def _take(self, group: str, tell: Tell) -> None:
        self._count += 1
        waiter = _Waiter(tell, self._count)
        self._waiting.setdefault(group, deque()).append(waiter)
        self._give()
        try:
            await waiter.given
        except asyncio.CancelledError:
            if waiter.given.done() and not waiter.given.cancelled():  # it was given in that very moment
                self._leave(group)
            else:
                self._forget(group, waiter)
                self._give()
            raise

    def _leave(self, group: str) -> None:
        self._held[group] -= 1
        if not self._held[group]:
            del self._held[group]
        self._give()

    def _give(self) -> None:
        while self._waiting and self._held.total() < max(self._most(), 1):
            group = min(self._waiting, key=lambda each: (self._held[each], self._waiting[each][0].number))
            waiter = self._waiting[group][0]
            self._forget(group, waiter)
            self._held[group] += 1
            waiter.given.set_result(None)
        order = nsmallest(
            MOST_TOLD,
            (
                (self._held[group] + index, waiter.number, waiter)
                for group, waiters in self._waiting.items()
                for index, waiter in enumerate(islice(waiters, MOST_TOLD))
            ),
        )
        for ahead, (_, _, waiter) in enumerate(order):
            if waiter.ahead != ahead:
                waiter.ahead = ahead
                waiter.tell(ahead)

    def _forget(self, group: str, waiter: _Waiter) -> None:
        self._waiting[group].remove(waiter)
        if not self._waiting[group]:
            del self._waiting[group]


class TaskPlaces:
    """Finds the place that a task needs."""

    def __init__(
        self, log: EventLog, settings: Callable[[], Settings], tell: Callable[[SessionId, TaskId, int], None]
    ) -> None:
        """`settings` are those of the moment; `tell` tells whoever watches a task how many are before it."""
        self._log = log
        self._turns = Places(lambda: settings().tasks.max_running)
        self._steps = Places(lambda: settings().skills.max_parallel_steps)
        self._tell = tell
        self._within_step: dict[str, bool] = {}

    @asynccontextmanager
    async def of(self, row: Row) -> AsyncIterator[None]:
        """The place of the task of that row, once there is one; nothing where it takes none."""
        task_id, session_id, parent = TaskId(str(row["task_id"])), str(row["session_id"]), row["parent_id"]
        if row["mode"] == "GRAPH" or (parent is not None and await self._is_within_step(str(parent))):
            yield
            return
        places, group = (self._turns, session_id) if parent is None else (self._steps, str(parent))
        async with places.place(group, lambda ahead: self._tell(SessionId(session_id), task_id, ahead)):
            yield

    async def _is_within_step(self, task_id: str) -> bool:
        """Whether that task, or one above it, is a step that has a place."""
        if (known := self._within_step.get(task_id)) is None:
            rows = await self._log.rows("tasks", where={"task_id": task_id}, limit=1)
            parent = rows[0]["parent_id"] if rows else None
            known = parent is not None and (rows[0]["mode"] != "GRAPH" or await self._is_within_step(str(parent)))
            if len(self._within_step) >= MOST_KNOWN:
                del self._within_step[next(iter(self._within_step))]
            self._within_step[task_id] = known
        return known


class Resting:
    """What such a task waits for counts by itself: a task that runs does, one that waits for a person does not."""

    def __init__(self) -> None:
        self._asked: dict[TaskId, Callable[[], bool]] = {}

    @contextmanager
    def where(self, task_id: TaskId, rests: Callable[[], bool]) -> Iterator[None]:
        """Within it, that task rests as long as `rests` says so."""
        self._asked[task_id] = rests
        try:
            yield
        finally:
            del self._asked[task_id]

    def rests(self, task_id: TaskId) -> bool:
        """Whether it does now."""
        rests = self._asked.get(task_id)
        return rests is not None and rests()
