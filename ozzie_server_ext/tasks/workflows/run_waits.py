"""Runs that wait: if every open step of a run waits for a person or for a signal, the run waits itself.

Nothing drives such a run. It is resumed when a step can go on, when a step's time is over, or when it is to be paused;
then a driver continues it from the log (docs/adr/0053).
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec

from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.errors import Conflict, VersionConflict
from ozzie_server_ext.domain.events import (
    FINAL_TYPES,
    Event,
    StepFailed,
    StepStarted,
    TaskCancelled,
    TaskFailed,
    TaskPauseRequested,
    TaskResumed,
    TaskSignalled,
    TaskSucceeded,
    TaskWaitingApproval,
    TaskWaitingInput,
)
from ozzie_server_ext.domain.ids import GATEWAY, SessionId, TaskId, task_stream
from ozzie_server_ext.domain.tasks import TaskHeld
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.skills.run import FsmRun, WorkflowRun
from ozzie_server_ext.skills.spec import Work
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog, OwnerLost, patiently
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.shielded import expect_not_cancelled, shielded
from ozzie_server_ext.tasks.pauses import pending_pause
from ozzie_server_ext.tasks.rows import WAITING, open_tasks, session_of, task_of
from ozzie_server_ext.tasks.signals import pending_signals
from ozzie_server_ext.tasks.workflows.skill_log import load_run

log = logger(__name__)

MOST_NAMED = 3
"""The number of steps that a waiting run names."""

_LATER = timedelta(days=1)
_CHANGES = FINAL_TYPES | {
    fact.type for fact in (TaskWaitingApproval, TaskWaitingInput, TaskResumed, TaskSignalled, TaskPauseRequested)
}
"""What may let a waiting run go on."""

WaitFact: TypeAlias = TaskWaitingApproval | TaskWaitingInput


class _WaitingRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that nothing drives: the signals that its steps wait for, and the timer of the step whose time ends
    first."""

    session_id: SessionId
    signals: frozenset[str]
    timer: asyncio.TimerHandle | None


class RunWaits:
    """Records that runs wait, and resumes them."""

    def __init__(self, event_log: EventLog, blobs: BlobStore, clock: Clock) -> None:
        self._log = event_log
        self._blobs = blobs
        self._clock = clock
        self._waits: dict[TaskId, WaitFact] = {}
        """What each waiting task waits for."""
        self._runs: dict[TaskId, TaskId] = {}
        """The runs of delegated tasks, while they are open."""
        self._wakes: dict[TaskId, Callable[[], None]] = {}
        self._waiting: dict[TaskId, _WaitingRun] = {}
        self._resumed_by: dict[TaskId, str] = {}
        """For each run whose wait is being recorded: who has done since what it waits for."""
        self._resumes: set[asyncio.Task[None]] = set()
        event_log.on_commit(self._follow, types=_CHANGES)

    async def load(self) -> None:
        """Load what tasks wait for since earlier gateways. Call it before any task is recovered."""
        for row in await open_tasks(self._log):
            if row["status"] in WAITING:
                for event in await self._log.read_stream(task_stream(task_of(row))):
                    self._note(event)

    async def recover(self) -> None:
        """Take up the runs that waited under earlier gateways. Call it once the driver holds them."""
        for row in await open_tasks(self._log, mode="GRAPH"):
            if row["status"] not in WAITING:
                continue
            run_id, session_id = task_of(row), session_of(row)
            try:
                events = await self._log.read_stream(task_stream(run_id))
                run = (await load_run(self._log, self._blobs, run_id)).run
                self._hold(run_id, session_id, run, events)
                if self._wait_of(run, events) is None:
                    self._resume(run_id, GATEWAY)
            except Exception:  # its driver fails it in words; the gateway has to start
                log.exception("a run that waits can't be read", extra={"task_id": run_id})
                self._waiting[run_id] = _WaitingRun(session_id=session_id, signals=frozenset(), timer=None)
                self._resume(run_id, GATEWAY)

    async def stop(self) -> None:
        """Stop resuming. What waits stays in the log."""
        for waiting in self._waiting.values():
            if waiting.timer is not None:
                waiting.timer.cancel()
        for work in self._resumes:
            work.cancel()
        await asyncio.gather(*self._resumes, return_exceptions=True)

    def watch(self, task_id: TaskId, run: TaskId) -> None:
        """Follow the task of a step until it ends."""
        self._runs[task_id] = run

    @contextmanager
    def notifying(self, run: TaskId, wake: Callable[[], None]) -> Iterator[None]:
        """Inside of the `with`, call `wake` when a step of the run begins to wait."""
        self._wakes[run] = wake
        try:
            yield
        finally:
            del self._wakes[run]

    def may_wait(self, run: WorkflowRun | FsmRun) -> bool:
        """Whether every open step of a run waits, as far as can be told without reading the log."""
        return bool(run.running) and all(
            run.steps[step_id].wait is not None or run.records[step_id].task in self._waits for step_id in run.running
        )

    async def point(self, run: WorkflowRun | FsmRun, recorder: Recorder) -> None:
        """If every open step of a driven run waits, record that the run does, and raise TaskHeld."""
        run_id, stream = recorder.task_id, task_stream(recorder.task_id)
        while True:
            events = await self._log.read_stream(stream)
            wait = self._wait_of(run, events)
            if wait is None:
                return
            self._resumed_by[run_id] = GATEWAY
            try:
                if not await _is_recorded(recorder, wait, events[-1].version):
                    continue
                self._hold(run_id, recorder.session_id, run, events)
                if self._wait_of(run, await self._log.read_stream(stream)) is None:  # it came while this was recorded
                    self._resume(run_id, self._resumed_by[run_id])
                raise TaskHeld
            finally:
                del self._resumed_by[run_id]

    async def left_s(self, run_id: TaskId, work: Work) -> float | None:
        """Return the remaining time of a step's attempt, even if it began under another gateway; None without a
        limit."""
        limit_s = time_limit(work)
        if limit_s is None:
            return None
        began = _beginnings(await self._log.read_stream(task_stream(run_id)))
        return max((began[work.id] - self._clock.now()).total_seconds() + limit_s, 0.0)

    def _wait_of(self, run: WorkflowRun | FsmRun, events: Sequence[Event]) -> WaitFact | None:
        """Return what a run of these events waits for; None if it has something to do: a step that can go on or whose
        time is over, or a pause."""
        if not self.may_wait(run) or pending_pause(events):
            return None
        if min(_ends(run, events), default=self._clock.now() + _LATER) <= self._clock.now():
            return None
        signalled = {signal.name for signal in pending_signals(events)}
        sentences: list[str] = []
        approval: TaskWaitingApproval | None = None
        for step_id in sorted(run.running):
            work, task = run.steps[step_id], run.records[step_id].task
            if work.wait is not None:
                if work.wait.event in signalled:
                    return None
                sentences.append(f'The step "{work.name}" waits for the event "{work.wait.event}".')
                continue
            wait = self._waits[task] if task is not None else None
            if isinstance(wait, TaskWaitingApproval):
                approval = approval or wait
            sentences.append(f'The step "{work.name}" waits for your answer.')
        return approval or TaskWaitingInput(question=" ".join(sentences[:MOST_NAMED]))

    def _hold(self, run_id: TaskId, session_id: SessionId, run: WorkflowRun | FsmRun, events: Sequence[Event]) -> None:
        self._runs |= {task: run_id for step_id in run.running if (task := run.records[step_id].task) is not None}
        ends = _ends(run, events)
        timer = self._at(min(ends), run_id) if ends else None
        signals = frozenset(wait.event for step_id in run.running if (wait := run.steps[step_id].wait) is not None)
        self._waiting[run_id] = _WaitingRun(session_id=session_id, signals=signals, timer=timer)

    def _at(self, moment: datetime, run_id: TaskId) -> asyncio.TimerHandle:
        left_s = max((moment - self._clock.now()).total_seconds(), 0.0)
        return asyncio.get_running_loop().call_later(left_s, self._resume, run_id, GATEWAY)

    def _follow(self, events: tuple[Event, ...]) -> None:
        for event in events:
            task_id = event.task_id
            if task_id is None:
                continue
            self._note(event)
            run = self._runs.get(task_id)
            match event.body:
                case TaskWaitingApproval() | TaskWaitingInput():
                    if run is not None and (wake := self._wakes.get(run)):
                        wake()
                case TaskResumed(by=by) if run is not None:
                    self._resume(run, by)
                case TaskSucceeded() | TaskFailed() | TaskCancelled():
                    self._runs.pop(task_id, None)
                    self._forget(task_id)
                    if run is not None:
                        self._resume(run, GATEWAY)
                case TaskSignalled(event=signal, by=by):
                    waiting = self._waiting.get(task_id)
                    if waiting is None or signal in waiting.signals:
                        self._resume(task_id, by)
                case TaskPauseRequested(wanted=True, by=by):
                    self._resume(task_id, by)
                case _:
                    pass

    def _note(self, event: Event) -> None:
        if event.task_id is None:
            return
        match event.body:
            case TaskWaitingApproval() | TaskWaitingInput() as wait:
                self._waits[event.task_id] = wait
            case TaskResumed() | TaskSucceeded() | TaskFailed() | TaskCancelled():
                self._waits.pop(event.task_id, None)
            case _:
                pass

    def _forget(self, run_id: TaskId) -> _WaitingRun | None:
        waiting = self._waiting.pop(run_id, None)
        if waiting is not None and waiting.timer is not None:
            waiting.timer.cancel()
        return waiting

    def _resume(self, run_id: TaskId, by: str) -> None:
        """Resume a run if it waits and nothing drives it. One that is about to wait goes on once that is recorded."""
        waiting = self._forget(run_id)
        if waiting is None:
            if run_id in self._resumed_by:
                self._resumed_by[run_id] = by
            return
        recorder = Recorder(log=self._log, session_id=waiting.session_id, task_id=run_id, source="skill")
        work = asyncio.create_task(self._record(recorder, TaskResumed(by=by)), name=f"resume {run_id}")
        self._resumes.add(work)
        work.add_done_callback(self._resumes.discard)

    async def _record(self, recorder: Recorder, resumed: TaskResumed) -> None:
        try:
            with contextlib.suppress(Conflict, OwnerLost):  # it was stopped, or the next gateway resumes it
                await patiently(lambda: recorder.append(resumed), lambda error: None)
        except Exception:
            log.exception("a run could not be resumed", extra={"task_id": recorder.task_id})


async def _is_recorded(recorder: Recorder, wait: WaitFact, version: int) -> bool:
    """Record that a run waits; return False if a signal or a request has come since this version of its stream."""
    try:
        await shielded(recorder.append(wait, expected_version=version))
    except VersionConflict:
        expect_not_cancelled()
        return False
    except asyncio.CancelledError:
        raise TaskHeld from None  # it is recorded by now
    return True


def _ends(run: WorkflowRun | FsmRun, events: Sequence[Event]) -> list[datetime]:
    """Return when the time of each open step that has a limit is over."""
    limits = {step_id: limit for step_id in run.running if (limit := time_limit(run.steps[step_id])) is not None}
    if not limits:
        return []
    began = _beginnings(events)
    return [began[step_id] + timedelta(seconds=limit_s) for step_id, limit_s in limits.items()]


def _beginnings(events: Iterable[Event]) -> dict[str, datetime]:
    """Return when the latest attempt at each step began, by its run's events."""
    began: dict[str, datetime] = {}
    pauses: dict[str, timedelta] = {}
    for event in events:
        match event.body:
            case StepFailed(step_id=step_id, again_in_s=again_in_s):
                pauses[step_id] = timedelta(seconds=again_in_s or 0)
            case StepStarted(step_id=step_id):
                began[step_id] = event.ts + pauses.pop(step_id, timedelta())
            case _:
                pass
    return began


def time_limit(work: Work) -> float | None:
    """Return how many seconds an attempt at a step may take; None without a limit."""
    limits = [limit for limit in (work.timeout_s, work.wait and work.wait.timeout_s) if limit is not None]
    return min(limits, default=None)
