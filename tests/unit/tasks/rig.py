"""Tasks with everything real but the disk and the turn: a test decides what a turn does."""

import asyncio
from collections.abc import Awaitable, Callable

from ozzie_server_ext.domain.events import Event, EventBody, Limits, Origin
from ozzie_server_ext.domain.ids import MessageId, SessionId, TaskId, task_stream
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.driver import TaskDriver
from ozzie_server_ext.tasks.reconciliation import Reconciler, ReconcilerOf
from ozzie_server_ext.tasks.service import NewTurn, Submitted, TaskService

WAIT_S = 10


def always(reconciler: Reconciler) -> ReconcilerOf:
    """The same for the tasks of every session."""

    async def of(session_id: SessionId) -> Reconciler:
        return reconciler

    return of


ORIGIN = Origin(channel="test", sender_id="ann")


class TaskRig:
    """`turns` holds what the turn of each message does, by the message's title; without one it succeeds at once."""

    def __init__(self, log: InMemoryEventLog | None = None) -> None:
        self.ids = CountingIds()
        self.log = log or InMemoryEventLog(FakeClock(), self.ids)
        self.turns: dict[str, Callable[[Recorder], Awaitable[int]]] = {}
        self.began: list[str] = []
        self.driver = TaskDriver(self.log, self.ids, self._run_turn)
        self.service = TaskService(self.log, self.ids, self.driver)

    async def _run_turn(self, row: Row, recorder: Recorder) -> int:
        title = str(row["title"])
        self.began.append(title)
        turn = self.turns.get(title)
        return await turn(recorder) if turn else 1

    async def submit(self, text: str, session: str = "s1", *, message_id: MessageId | None = None) -> Submitted:
        return await self.service.submit(NewTurn(SessionId(session), text, ORIGIN, message_id=message_id), Limits())

    async def status(self, task_id: TaskId) -> str:
        return str((await self.service.get(task_id))["status"])

    async def reach(self, task_id: TaskId, *statuses: str) -> str:
        """The task's status once it is one of these."""
        changed = asyncio.Event()
        self.log.on_commit(lambda _: changed.set())
        async with asyncio.timeout(WAIT_S):
            while (status := await self.status(task_id)) not in statuses:
                await changed.wait()
                changed.clear()
        return status

    async def end(self, task_id: TaskId) -> str:
        return await self.reach(task_id, "SUCCEEDED", "FAILED", "CANCELLED")

    async def bodies(self, task_id: TaskId) -> list[EventBody]:
        return [event.body for event in await self.events(task_id)]

    async def events(self, task_id: TaskId) -> tuple[Event, ...]:
        return await self.log.read_stream(task_stream(task_id))


class Gate:
    """A turn that waits: `reached` once it runs, `go_on` to let it end."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self, recorder: Recorder) -> int:
        self.reached.set()
        await self.go_on.wait()
        return 1

    async def wait(self) -> None:
        await asyncio.wait_for(self.reached.wait(), WAIT_S)
