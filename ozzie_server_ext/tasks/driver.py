"""Carries out tasks: one at a time per session; sessions and delegated tasks in parallel."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import TypeAlias, TypeVar

import msgspec

from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.errors import Conflict, OzzieError, Unavailable, VersionConflict
from ozzie_server_ext.domain.events import (
    FINAL_TYPES,
    Event,
    EventBody,
    TaskCancelled,
    TaskFailed,
    TaskPaused,
    TaskResumed,
    TaskStarted,
    TaskSucceeded,
    TaskWaitingApproval,
    TaskWaitingInput,
    content_of,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.domain.tasks import Claim, TaskHeld, UnreadUpdate
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.store.log import ClaimLost, EventLog, OwnerLost, patiently
from ozzie_server_ext.store.projections.tasks import task_from
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.failures import failure
from ozzie_server_ext.tasks.reconciliation import (
    ReconcilerOf,
    cut_off,
    end_of,
    not_again,
    nothing_is_known,
    unfinished,
    why_stopped,
)
from ozzie_server_ext.tasks.rows import find_task, with_delegated
from ozzie_server_ext.tasks.times import RECOVERY

log = logger(__name__)
T = TypeVar("T")

RunTask = Callable[[Row, Recorder], Awaitable[int]]
"""Runs a task, recording through the recorder; returns how many rounds of a turn, or steps of a run, it took.

`app.py` gives `Ozzie._run_task`, which calls `TaskRunner.run` of the session's project (`tasks.workflows.runner`); that
passes turns on to `TurnRunner.run` (`tasks.turn_runner`), which makes the `agent.turn.Turn`.
"""

Thread: TypeAlias = SessionId | TaskId
"""Tasks with the same thread run one after another: a session's turns. A delegated task is its own thread."""

_ENDED = "The task ended in the middle of it."
_BLOCKING_TYPES = FINAL_TYPES | {fact.type for fact in (TaskWaitingInput, TaskWaitingApproval, TaskPaused, TaskResumed)}
"""What blocks and unblocks threads."""


class _Running(msgspec.Struct):
    task_id: TaskId
    session_id: SessionId
    work: "asyncio.Task[None]"
    began: bool = False
    stopped_by: str = ""
    reason: str = ""


class TaskDriver:
    """Claims queued tasks and runs each until it ends or waits, or leaves it for recovery when the gateway stops."""

    def __init__(
        self,
        log_: EventLog,
        ids: IdSource,
        run_task: RunTask,
        on_wait: Callable[[Recorder, str], None] = lambda recorder, step: None,
        on_ahead: Callable[[SessionId, TaskId, int], None] = lambda session_id, task_id, ahead: None,
        reconciler_of: ReconcilerOf = nothing_is_known,
        slot: Callable[[Row], AbstractAsyncContextManager[None]] = lambda row: nullcontext(),
        is_idle: Callable[[TaskId], bool] = lambda task_id: False,
    ) -> None:
        """`on_wait` receives what a task waits for, `on_ahead` the number of tasks ahead of a queued one. `slot`
        limits the number of running tasks; `is_idle`: whether a running task only waits for others."""
        self._log = log_
        self._run_task = run_task
        self._on_wait = on_wait
        self._on_ahead = on_ahead
        self._reconciler_of = reconciler_of
        self._slot = slot
        self._is_idle = is_idle
        self._ids = ids
        self._queues: dict[Thread, deque[TaskId]] = {}
        self._running: dict[Thread, _Running] = {}
        self._held: dict[Thread, TaskId] = {}
        self._delegated: set[TaskId] = set()
        self._stopping = False
        log_.on_commit(self._follow, types=_BLOCKING_TYPES)

    @property
    def stopping(self) -> bool:
        """Whether tasks are cancelled because the gateway stops; the next gateway continues them."""
        return self._stopping

    @property
    def busy(self) -> bool:
        """Whether any task makes progress, so that a gateway with an idle exit must stay up. Tasks that wait for a
        person don't count, nor do runs whose steps all wait for one."""
        return any(not self._is_idle(running.task_id) for running in self._running.values())

    def enqueue(self, task_id: TaskId, session_id: SessionId, *, delegated: bool = False) -> int:
        """See `tasks.service.TaskQueue`."""
        thread = self._thread(task_id, session_id, delegated)
        queue = self._queues.setdefault(thread, deque())
        ahead = len(queue) + (thread in self._running or thread in self._held)
        queue.append(task_id)
        self._next(thread, session_id)
        return ahead

    def hold(self, task_id: TaskId, session_id: SessionId, *, delegated: bool = False) -> None:
        """See `tasks.service.TaskQueue`."""
        self._held[self._thread(task_id, session_id, delegated)] = task_id

    def interrupt(self, task_id: TaskId, by: str, reason: str) -> SessionId | None:
        """See `tasks.service.TaskQueue`. The end is recorded once the work has stopped."""
        for running in self._running.values():
            if running.task_id == task_id:
                if not running.stopped_by:
                    running.stopped_by, running.reason = by, reason
                    if running.began:  # a coroutine that is cancelled before its first step can't record its end
                        running.work.cancel()
                return running.session_id
        return None

    async def stop(self) -> None:
        """Stop all work. Running tasks stay RUNNING in the log; the next start recovers them."""
        self._stopping = True
        works = [running.work for running in self._running.values()]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)

    def _thread(self, task_id: TaskId, session_id: SessionId, delegated: bool = False) -> Thread:
        if delegated:
            self._delegated.add(task_id)
        return task_id if task_id in self._delegated else session_id

    def _follow(self, events: tuple[Event, ...]) -> None:
        """Block and unblock threads by what the log says, whoever recorded it."""
        for event in events:
            task_id, session_id = event.task_id, event.session_id
            if task_id is None or session_id is None:
                continue
            thread = self._thread(task_id, session_id)
            match event.body:
                case TaskWaitingInput() | TaskWaitingApproval() | TaskPaused():
                    self._held[thread] = task_id
                case TaskResumed() if event.source != RECOVERY:  # recovery queues what it resumes
                    self._held.pop(thread, None)
                    self._queues.setdefault(thread, deque()).appendleft(task_id)
                    self._next(thread, session_id)
                case TaskCancelled() | TaskFailed() if self._held.get(thread) == task_id:
                    del self._held[thread]
                    self._next(thread, session_id)
                case _:
                    pass
            if isinstance(event.body, TaskSucceeded | TaskCancelled | TaskFailed):
                self._delegated.discard(task_id)

    def _next(self, thread: Thread, session_id: SessionId) -> None:
        queue = self._queues.get(thread)
        if self._stopping or thread in self._running or thread in self._held or not queue:
            return
        task_id = queue.popleft()
        for ahead, waiting in enumerate(queue, 1):
            self._on_ahead(session_id, waiting, ahead)
        if not queue:
            del self._queues[thread]
        work = asyncio.create_task(self._drive(task_id, session_id, thread), name=f"task {task_id}")
        self._running[thread] = _Running(task_id, session_id, work)

    async def _drive(self, task_id: TaskId, session_id: SessionId, thread: Thread) -> None:
        recorder = Recorder(log=self._log, session_id=session_id, task_id=task_id)
        running = self._running[thread]
        running.began = True
        try:
            if running.stopped_by:
                raise asyncio.CancelledError
            await self._claim_and_run(recorder)
        except TaskHeld:  # `_follow` has blocked its thread
            if running.stopped_by:
                await self._cancelled(recorder, running)
        except asyncio.CancelledError:
            await self._cancelled(recorder, running)
        except (OwnerLost, ClaimLost) as error:
            log.warning("the task goes on elsewhere: %s", error, extra={"task_id": task_id})
        except Exception:
            log.exception("the task could not be driven", extra={"task_id": task_id})
        finally:
            del self._running[thread]
            self._next(thread, session_id)

    async def _claim_and_run(self, recorder: Recorder) -> None:
        queued = await self._patiently(recorder, lambda: find_task(self._log, recorder.task_id))
        if queued is None:
            return
        async with self._slot(queued):
            row = await self._patiently(recorder, lambda: self._claim(recorder))
            if row is None:
                return  # cancelled while it waited
            claim = Claim(task_id=recorder.task_id, epoch=str(row["epoch"]), attempt=int(str(row["attempt"])))
            source = "skill" if row["mode"] == "GRAPH" else "agent"
            recorder = msgspec.structs.replace(recorder, claim=claim, source=source)
            while True:
                end = await self._run(row, recorder)
                try:
                    return await self._patiently(recorder, partial(self._end, recorder, end))
                except UnreadUpdate:  # call the model again, with the update that came at the last moment
                    continue

    async def _run(self, row: Row, recorder: Recorder) -> TaskSucceeded | TaskFailed:
        """Run the task, and return how it ended. Raises OwnerLost or ClaimLost if others have it now, TaskHeld if it
        waits."""
        try:
            return TaskSucceeded(rounds=await self._run_task(row, recorder))
        except (OwnerLost, ClaimLost, TaskHeld):
            raise
        except OzzieError as error:
            return failure(error)
        except Exception as error:
            log.exception("the task broke", extra={"task_id": recorder.task_id})
            return _broken(error)

    async def _end(self, recorder: Recorder, end: TaskSucceeded | TaskFailed | TaskCancelled) -> None:
        """Record the end, unless a turn's last answer was recorded with it (`ModelCaller`)."""
        if isinstance(end, TaskSucceeded):
            row = await find_task(self._log, recorder.task_id)
            if row is not None and task_from(row).is_open:
                await recorder.append(*await with_delegated(self._log, recorder.task_id, [end]))
        else:
            await self._end_early(recorder, end)

    async def _end_early(self, recorder: Recorder, end: TaskFailed | TaskCancelled) -> None:
        """Record a failure or a stop, and the ends of open calls. An open model call is charged its full reservation;
        for an open tool call, the tool is asked whether it took effect."""
        actor = "user" if isinstance(end, TaskCancelled) else None
        while True:
            events = await self._log.read_stream(task_stream(recorder.task_id))
            left = unfinished(events)
            ends: list[EventBody] = [cut_off(call, "cancelled", _ENDED) for call in left.models]
            reconciler = await self._reconciler_of(recorder.session_id)
            done = {tool.call_id: await reconciler.was_done(tool) for tool in left.tools}
            for tool in left.tools:
                not_begun = isinstance(end, TaskCancelled) and not tool.started
                ends.append(end_of(tool, done[tool.call_id], why_stopped(tool) if not_begun else _ENDED))
            unresolved = [*left.to_repeat, *(tool for tool in left.tools if done[tool.call_id] is None)]
            if unresolved and isinstance(end, TaskFailed):
                end = not_again(unresolved)
            labelled = recorder.made_from(content_of(events))  # the reason may quote anything that the task read
            with contextlib.suppress(VersionConflict):  # the task has changed meanwhile: check again
                facts = await with_delegated(self._log, recorder.task_id, [*ends, end])
                await labelled.append(*facts, actor=actor, expected_version=events[-1].version)
                return

    async def _claim(self, recorder: Recorder) -> Row | None:
        """Claim the task; return its row, or None if it no longer waits to be run."""
        row = await find_task(self._log, recorder.task_id)
        if row is None or not task_from(row).is_unclaimed:
            return None
        # Only a retry begins another attempt; its event has raised the number already.
        started = TaskStarted(attempt=int(str(row["attempt"])) or 1, epoch=self._ids.new())
        try:
            await recorder.append(started)
        except Conflict:
            return None
        return row | {"attempt": started.attempt, "epoch": started.epoch}

    async def _cancelled(self, recorder: Recorder, running: _Running) -> None:
        if not running.stopped_by:
            return  # the gateway stops: recovery continues the task
        end = TaskCancelled(by=running.stopped_by, reason=running.reason)
        # After a Conflict it ended at the same moment; the new owner of a lost log ends it.
        with contextlib.suppress(Conflict, OwnerLost, asyncio.CancelledError):
            await self._patiently(recorder, lambda: self._end(recorder, end))

    async def _patiently(self, recorder: Recorder, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `work`, and repeat it as long as the log is unavailable: a task whose end is not
        recorded would run forever. Ends when the driver stops."""

        def failed(error: Unavailable) -> None:
            log.error("the log can't be used: %s", error, extra={"task_id": recorder.task_id})
            self._on_wait(recorder, "waiting until the log can be written again")

        return await patiently(work, failed)


def _broken(error: Exception) -> TaskFailed:
    return TaskFailed(
        kind="system",
        code="bug",
        message=f"Ozzie made a mistake of its own ({type(error).__name__}). Your message is kept.",
        hint="Run the cell again. The folder logs/app has the details for a bug report.",
    )
