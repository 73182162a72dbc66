"""Carries tasks out: one at a time in a session; sessions, and what was delegated, side by side."""

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

import msgspec

from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.errors import Conflict, OzzieError, Unavailable, VersionConflict
from ozzie_server_ext.domain.events import (
    Event,
    EventBody,
    TaskCancelled,
    TaskFailed,
    TaskPaused,
    TaskQueued,
    TaskStarted,
    TaskSucceeded,
    TaskWaitingApproval,
    TaskWaitingInput,
    content_of,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.domain.tasks import Claim, TaskStatus, TurnHeld, UnreadUpdate
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.store.log import ClaimLost, EventLog, OwnerLost
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.delegated import with_delegated
from ozzie_server_ext.tasks.failures import failure
from ozzie_server_ext.tasks.reconciliation import (
    NO_RECONCILER,
    Reconciler,
    cut_off,
    end_of,
    not_again,
    unfinished,
    why_stopped,
)

log = logger(__name__)
T = TypeVar("T")

RunTurn = Callable[[Row, Recorder], Awaitable[int]]
"""Runs the turn of a task's row, recording through the recorder; returns its number of rounds."""

FindPlace = Callable[[Row], AbstractAsyncContextManager[None]]
"""The place that the task of a row runs at, for as long as it does."""

Thread: TypeAlias = SessionId | TaskId
"""What runs one after the other: the turns of a session. A delegated task is its own."""

Tell = Callable[[Recorder, str], None]
"""Tells whoever watches a task what it waits for."""

TellPlace = Callable[[SessionId, TaskId, int], None]
"""Tells whoever watches a queued task how many are before it."""

_ENDED = "The turn ended in the middle of it."
RETRY_S = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Pauses between attempts to write to a log that can't be written, as on a full disk; the last one repeats."""


@dataclass(slots=True)
class _Running:
    task_id: TaskId
    session_id: SessionId
    work: "asyncio.Task[None]"
    began: bool = False
    stopped_by: str = ""
    reason: str = ""


class TaskDriver:
    """Claims queued tasks and sees each to a final state, or leaves it for recovery when the gateway stops."""

    def __init__(
        self,
        log_: EventLog,
        ids: IdSource,
        run_turn: RunTurn,
        tell: Tell = lambda recorder, step: None,
        tell_place: TellPlace = lambda session_id, task_id, ahead: None,
        reconciler: Reconciler = NO_RECONCILER,
        place: FindPlace = lambda row: nullcontext(),
        rests: Callable[[TaskId], bool] = lambda task_id: False,
    ) -> None:
        """`place` is what a task needs to run, and waits for in the queue; `rests` tells of one that runs whether it
        only waits for others."""
        self._log = log_
        self._run_turn = run_turn
        self._tell = tell
        self._tell_place = tell_place
        self._reconciler = reconciler
        self._place = place
        self._rests = rests
        self._epoch = ids.new()
        self._waiting: dict[Thread, deque[TaskId]] = {}
        self._running: dict[Thread, _Running] = {}
        self._held: dict[Thread, TaskId] = {}
        self._delegated: set[TaskId] = set()
        self._stopping = False
        log_.on_commit(self._follow)

    @property
    def stopping(self) -> bool:
        """Whether what is cancelled now is let go of for the next gateway, and not stopped by anybody."""
        return self._stopping

    @property
    def busy(self) -> bool:
        """Whether anything runs, or waits for what runs; a gateway with an idle exit stays up while it does. What waits
        for a person waits in the log, and so does a run of which nothing else goes on."""
        return any(not self._rests(running.task_id) for running in self._running.values())

    def enqueue(self, task_id: TaskId, session_id: SessionId, *, delegated: bool = False) -> int:
        """See `tasks.service.Runner`."""
        thread = self._thread(task_id, session_id, delegated)
        queue = self._waiting.setdefault(thread, deque())
        ahead = len(queue) + (thread in self._running or thread in self._held)
        queue.append(task_id)
        self._next(thread, session_id)
        return ahead

    def hold(self, task_id: TaskId, session_id: SessionId, *, delegated: bool = False) -> None:
        """See `tasks.service.Runner`."""
        self._held[self._thread(task_id, session_id, delegated)] = task_id

    def interrupt(self, task_id: TaskId, by: str, reason: str) -> SessionId | None:
        """See `tasks.service.Runner`. The end is recorded by the task itself once it has let go."""
        for running in self._running.values():
            if running.task_id == task_id:
                if not running.stopped_by:
                    running.stopped_by, running.reason = by, reason
                    if running.began:  # what is cancelled before its first step could not even say so
                        running.work.cancel()
                return running.session_id
        return None

    async def stop(self) -> None:
        """Let go of everything at once. What was running stays RUNNING in the log; the next start recovers it."""
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
        """What waits for a person, and what waits no more, as the log has it: who recorded it may have gone since."""
        for event in events:
            task_id, session_id = event.task_id, event.session_id
            if task_id is None or session_id is None:
                continue
            thread = self._thread(task_id, session_id)
            match event.body:
                case TaskWaitingInput() | TaskWaitingApproval() | TaskPaused():
                    self._held[thread] = task_id
                case TaskQueued(reason="answered" | "resumed"):
                    self._held.pop(thread, None)
                    self._waiting.setdefault(thread, deque()).appendleft(task_id)
                    self._next(thread, session_id)
                case TaskCancelled() | TaskFailed() if self._held.get(thread) == task_id:
                    del self._held[thread]
                    self._next(thread, session_id)
                case _:
                    pass
            if isinstance(event.body, TaskSucceeded | TaskCancelled | TaskFailed):
                self._delegated.discard(task_id)

    def _next(self, thread: Thread, session_id: SessionId) -> None:
        queue = self._waiting.get(thread)
        if self._stopping or thread in self._running or thread in self._held or not queue:
            return
        task_id = queue.popleft()
        for ahead, waiting in enumerate(queue, 1):
            self._tell_place(session_id, waiting, ahead)
        if not queue:
            del self._waiting[thread]
        work = asyncio.create_task(self._drive(task_id, session_id, thread), name=f"task {task_id}")
        self._running[thread] = _Running(task_id, session_id, work)

    async def _drive(self, task_id: TaskId, session_id: SessionId, thread: Thread) -> None:
        recorder = Recorder(log=self._log, session_id=session_id, task_id=task_id, trace_id=task_id)
        running = self._running[thread]
        running.began = True
        try:
            if running.stopped_by:
                raise asyncio.CancelledError
            await self._claim_and_run(recorder)
        except TurnHeld:
            # That its session is held, and whether it is still, the log has told meanwhile.
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
        rows = await self._patiently(recorder, lambda: self._row(recorder))
        if rows:
            async with self._place(rows[0]):
                await self._claimed(recorder)

    async def _claimed(self, recorder: Recorder) -> None:
        row = await self._patiently(recorder, lambda: self._claim(recorder))
        if row is None:
            return  # cancelled while it waited
        claim = Claim(task_id=recorder.task_id, epoch=self._epoch, attempt=int(str(row["attempt"])))
        recorder = msgspec.structs.replace(recorder, claim=claim)
        while True:
            end = await self._run(row, recorder)
            try:
                return await self._patiently(recorder, partial(self._end, recorder, end))
            except UnreadUpdate:  # its model is asked once more, with what was said in the last moment
                continue

    async def _run(self, row: Row, recorder: Recorder) -> TaskSucceeded | TaskFailed:
        """How the task ends. Raises what there is nothing to say of: it is somebody else's, or waits and said so."""
        try:
            return TaskSucceeded(rounds=await self._run_turn(row, recorder))
        except (OwnerLost, ClaimLost, TurnHeld):
            raise
        except OzzieError as error:
            return failure(error)
        except Exception as error:
            log.exception("the turn broke", extra={"task_id": recorder.task_id})
            return _broken(error)

    async def _end(self, recorder: Recorder, end: TaskSucceeded | TaskFailed | TaskCancelled) -> None:
        """Record the end of a task, and of the calls that it left open: what those of models took is known to nobody,
        and yet it counts; of those of tools, the tool is asked whether it did what it was for."""
        actor = "user" if isinstance(end, TaskCancelled) else None
        if isinstance(end, TaskSucceeded):
            await recorder.append(*await with_delegated(self._log, recorder.task_id, [end]))
            return
        while True:
            events = await self._log.read_stream(task_stream(recorder.task_id))
            left = unfinished(events)
            ends: list[EventBody] = [cut_off(call, "cancelled", _ENDED) for call in left.models]
            done = {tool.call_id: await self._reconciler.was_done(tool) for tool in left.tools}
            for tool in left.tools:
                not_begun = isinstance(end, TaskCancelled) and not tool.started
                ends.append(end_of(tool, done[tool.call_id], why_stopped(tool) if not_begun else _ENDED))
            unknown = [*left.in_doubt, *(tool for tool in left.tools if done[tool.call_id] is None)]
            if unknown and isinstance(end, TaskFailed):
                end = not_again(unknown)
            telling = recorder.made_from(content_of(events))  # why it ended may quote anything that it read
            with contextlib.suppress(VersionConflict):  # somebody had something to say meanwhile: look again
                facts = await with_delegated(self._log, recorder.task_id, [*ends, end])
                await telling.append(*facts, actor=actor, expected_version=events[-1].version)
                return

    async def _claim(self, recorder: Recorder) -> Row | None:
        """Make the queued task this driver's own; its row, or None where it is queued no more."""
        rows = await self._row(recorder)
        if not rows or rows[0]["status"] != TaskStatus.QUEUED:
            return None
        # A retry has counted the attempt that it wants.
        attempt = int(str(rows[0]["attempt"])) + (rows[0]["reason"] != "retried")
        try:
            await recorder.append(TaskStarted(attempt=attempt, epoch=self._epoch))
        except Conflict:
            return None
        return rows[0] | {"attempt": attempt}

    async def _row(self, recorder: Recorder) -> list[Row]:
        return await self._log.rows("tasks", where={"task_id": recorder.task_id}, limit=1)

    async def _cancelled(self, recorder: Recorder, running: _Running) -> None:
        if not running.stopped_by:
            return  # the gateway stops: recovery goes on with it
        end = TaskCancelled(by=running.stopped_by, reason=running.reason)
        # A Conflict means that it had ended in the same moment, a lost log that its new owner sees to it.
        with contextlib.suppress(Conflict, OwnerLost, asyncio.CancelledError):
            await self._patiently(recorder, lambda: self._end(recorder, end))

    async def _patiently(self, recorder: Recorder, work: Callable[[], Awaitable[T]]) -> T:
        """The result of `work`, which needs the log, however long the log can't be used: a task whose end is not
        recorded would be running for ever. Ends when the driver stops."""
        for pause in itertools.chain(RETRY_S, itertools.repeat(RETRY_S[-1])):
            try:
                return await work()
            except OwnerLost:
                raise
            except Unavailable as error:
                log.error("the log can't be used: %s", error, extra={"task_id": recorder.task_id})
                self._tell(recorder, "waiting until the log can be written again")
                await asyncio.sleep(pause)
        raise AssertionError("an endless loop ended")


def _broken(error: Exception) -> TaskFailed:
    return TaskFailed(
        kind="system",
        code="bug",
        message=f"Ozzie made a mistake of its own ({type(error).__name__}). Your message is kept.",
        hint="Run the cell again. The folder logs/app has the details for a bug report.",
    )
