"""Drives runs of skills: starts the steps that are ready and records their outcomes until the run has ended.

`TaskRunner` runs every task: a run of a skill here, any other as a turn.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from ozzie_server_ext.agent.questions import EXCEEDED, TOO_LATE, budget_exceeded, limit_exceeded, time_overrun
from ozzie_server_ext.agent.rounds import LimitExceeded, OutOfTime
from ozzie_server_ext.domain.budget import Account, Budget
from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.errors import Conflict, NotFound, OzzieError
from ozzie_server_ext.domain.events import (
    CheckpointSaved,
    EventBody,
    MessageCompleted,
    SkillCompleted,
    SkillFailed,
    StepCompleted,
    StepFact,
    StepFailed,
    StepSkipped,
    StepStarted,
    ToolCallCompleted,
    ToolCallFailed,
    content_of,
)
from ozzie_server_ext.domain.ids import GATEWAY, ReplyId, TaskId, task_stream
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.tasks import TaskHeld
from ozzie_server_ext.skills.run import Begin, Broken, Done, Failed, FsmRun, Next, Skip
from ozzie_server_ext.skills.spec import RetryPolicy, Work
from ozzie_server_ext.skills.templates import Output, as_text
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.shielded import shielded
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.driver import TaskDriver
from ozzie_server_ext.tasks.failures import SkillFailedError, failed_steps
from ozzie_server_ext.tasks.pauses import pause_nested
from ozzie_server_ext.tasks.rows import find_task, limits_of, retried_with
from ozzie_server_ext.tasks.service import TaskService
from ozzie_server_ext.tasks.workflows.delegates import Room, SkillDelegates
from ozzie_server_ext.tasks.workflows.executor import (
    Attempt,
    Executor,
    Facts,
    FailedAttempt,
    InProcess,
    NotAtOnce,
    Pace,
    Succeeded,
)
from ozzie_server_ext.tasks.workflows.skill_log import LoadedRun, Rejection, addresses_given, kept, load_run
from ozzie_server_ext.tasks.workflows.step_ends import taken_in, tried_again
from ozzie_server_ext.tasks.workflows.step_runner import StepParts, StepRunner, Stop

MOST_NOTED = 256
"""The number of waiting facts from which `note` waits, too."""


class Journal:
    """Records the facts of one run in batches. `checkpoint` is recorded after each batch in which a step ended."""

    def __init__(self, recorder: Recorder, checkpoint: Callable[[str], CheckpointSaved]) -> None:
        self._recorder = recorder
        self._checkpoint = checkpoint
        self._noted: list[tuple[EventBody, Content]] = []
        self._settled = ""
        self._room = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    async def note(self, *facts: tuple[EventBody, Content], settles: str = "") -> None:
        """Queue facts for recording, in order, each with what it is made from. `settles` is the step that they end.
        Wait only while many are queued. Raises what an earlier append raised."""
        self.put(*facts, settles=settles)
        while len(self._noted) >= MOST_NOTED and not self._has_failed:
            self._room.clear()
            await self._room.wait()
        if self._has_failed:
            await self.flushed()

    def put(self, *facts: tuple[EventBody, Content], settles: str = "") -> None:
        """Like `note`, without waiting."""
        self._noted += facts
        self._settled = settles or self._settled
        if self._writing is None or (self._writing.done() and not self._has_failed):
            self._writing = asyncio.create_task(self._write(), name=f"journal {self._recorder.task_id}")

    async def flushed(self) -> None:
        """Wait until all queued facts are durable. Raises what an append raised."""
        if self._writing is not None:
            await shielded(_end_of(self._writing))

    @property
    def _has_failed(self) -> bool:
        writing = self._writing
        return writing is not None and writing.done() and (writing.cancelled() or writing.exception() is not None)

    async def _write(self) -> None:
        try:
            while self._noted:
                batch, self._noted = self._noted, []
                self._room.set()
                if self._settled:
                    batch.append((self._checkpoint(self._settled), batch[-1][1]))
                    self._settled = ""
                await self._recorder.append_each(batch)
        finally:
            self._room.set()


async def _end_of(writing: "asyncio.Task[None]") -> None:
    await writing


MOST_BACKOFF_S = 300.0
_KEPT = "Finished steps are kept."
TELL_AFTER_S = 0.05
"""The interval in which calls made at once are recorded as started and their progress is published."""


class GraphRunner:
    """Runs graphs. `leaving`: see `TurnParts`; `chance` returns the jitter of a delay, from 0 to 1."""

    def __init__(
        self, parts: StepParts, stop: Stop, *, leaving: Callable[[], bool], chance: Callable[[], float] = random.random
    ) -> None:
        self._parts = parts
        self._stop = stop
        self._leaving = leaving
        self._chance = chance
        self._pace = Pace()

    async def run(self, row: Row, recorder: Recorder) -> int:
        """Continue the run of a task until it has ended; return how many steps have.

        Raises SkillFailedError, LimitExceeded when its time is over, TaskHeld if it is paused or waits, or what a
        cancellation raises, after cancelling the delegated tasks.
        """
        try:
            return await self._run(row, recorder)
        except OutOfTime as error:
            raise await self._too_late(row, recorder, error.limit_s) from None

    async def _too_late(self, row: Row, recorder: Recorder, limit_s: float) -> LimitExceeded:
        """Record that the time of a run is over, and return the error that ends it."""
        limits = limits_of(row)
        budget = Budget(
            account=Account("task", recorder.task_id),
            skill=limits.skill,
            skill_bounds=limits.skill_bounds,
            is_part=row["parent_id"] is not None,
        )
        breach = time_overrun(budget, limit_s)
        await recorder.append(budget_exceeded(breach, "stop"))
        error = limit_exceeded(breach, alone=False)
        error.hint = f"{error.hint} {await _what_then(self._parts.log, recorder.task_id)}"
        return error

    async def _run(self, row: Row, recorder: Recorder) -> int:
        parts = self._parts
        loaded = await load_run(parts.log, parts.blobs, recorder.task_id)
        given = await addresses_given(parts.log, row, loaded)
        steps = StepRunner(parts, loaded, row, recorder, self._stop, given)
        executor = InProcess(steps.carry_out, self._pace)
        driving = _RunDriver(parts, loaded, executor, recorder, self._chance)

        def is_idle() -> bool:
            return 0 < executor.pending == steps.waiting

        try:
            limit_s = None if loaded.end else limits_of(row).deadline_s
            async with parts.times.bounded(recorder.task_id, limit_s):
                with (
                    parts.pauses.notifying(recorder.task_id, executor.wake),
                    parts.waits.notifying(recorder.task_id, executor.wake),
                    parts.idle.track(recorder.task_id, is_idle),
                ):
                    return await driving.run()
        except TaskHeld:  # delegated turns go on to their end, nested runs are paused
            await executor.close()
            with contextlib.suppress(OzzieError):  # otherwise the next gateway pauses them
                await pause_nested(parts.log, recorder.task_id, recorder.source)
            raise
        except BaseException:
            await executor.close()
            if not self._leaving():
                for step_id in loaded.run.running:
                    if task := loaded.run.records[step_id].task:
                        await shielded(self._stop(task))
            raise
        finally:
            await driving.settle()


class _RunDriver:
    """Drives one run."""

    def __init__(
        self,
        parts: StepParts,
        loaded: LoadedRun,
        executor: Executor,
        recorder: Recorder,
        chance: Callable[[], float],
    ) -> None:
        self._parts = parts
        self._skill = loaded.skill
        self._run = loaded.run
        self._recorded_end = loaded.end
        self._rejected = loaded.rejected
        self._executor = executor
        self._recorder = recorder
        self._chance = chance
        self._pauses: dict[str, float] = {}
        self._journal = Journal(recorder, self._checkpoint)
        self._begun_at_once: dict[str, StepStarted] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._published = (0, 0)

    async def run(self) -> int:
        """See `GraphRunner.run`."""
        run = self._run
        match self._recorded_end:
            case SkillCompleted():
                return run.settled
            case SkillFailed(message=message):
                raise await self._failed(message)
            case None:
                pass
        for step_id in run.running:  # started before a restart, or before the run waited
            attempt = Attempt(work=run.steps[step_id], record=run.records[step_id], is_resumed=True)
            self._executor.submit(attempt)
        pauses = self._parts.pauses
        while True:
            if pauses.is_requested(self._recorder.task_id):
                await self._journal.flushed()
                await pauses.point(self._recorder)
            begun = await self._start_ready_steps()
            for attempt in begun:
                self._executor.submit(attempt)
            if run.ended is not None:
                return await self._end(run.ended)
            if any(not attempt.at_once for attempt in begun):
                self._publish_progress()
            if self._parts.waits.may_wait(run):
                await self._journal.flushed()
                await self._parts.waits.point(run, self._recorder)
            for attempt, outcome in await self._executor.next():
                if isinstance(outcome, NotAtOnce):
                    await self._start_with_task(attempt)
                else:
                    await self._record(attempt, outcome)

    async def settle(self) -> None:
        """Record all queued facts before the run is left, unless the log fails."""
        if self._timer is not None:
            self._timer.cancel()
        with contextlib.suppress(OzzieError):
            await self._journal.flushed()

    async def _start_ready_steps(self) -> list[Attempt]:
        """Record in one append the steps that start or are skipped now, except those carried out at once."""
        facts: list[StepFact] = []
        begun: list[Attempt] = []
        waits = False
        for each in self._run.next():
            at_once = isinstance(each, Begin) and self._is_made_at_once(each)
            for fact in self._facts_of(each):
                self._run.apply(fact)
                if at_once and isinstance(fact, StepStarted):
                    self._begun_at_once[fact.step_id] = fact
                else:
                    facts.append(fact)
            if isinstance(each, Begin):
                step_id = each.work.id
                record = self._run.records[step_id]
                delay_s = self._pauses.pop(step_id, 0.0)
                begun.append(Attempt(work=each.work, record=record, delay_s=delay_s, at_once=at_once))
                waits = waits or not at_once
        if facts:  # the reason of a skip or a failure may quote results of other steps
            says_why = any(isinstance(fact, StepSkipped | StepFailed) for fact in facts)
            content = self._run.values.all_content if says_why else self._recorder.content
            await self._journal.note(*((fact, content) for fact in facts))
        if waits:  # steps with effects or their own tasks start when everything before is durable
            await self._journal.flushed()
        if self._begun_at_once and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TELL_AFTER_S, self._publish_begun)
        return begun

    def _is_made_at_once(self, begin: Begin) -> bool:
        is_new = begin.attempt == 1 and begin.work.id not in self._run.taken_up
        return is_new and self._parts.quick.fits(begin.work)

    def _publish_begun(self) -> None:
        """Publish the progress, and record the start of calls at once that take longer."""
        self._timer = None
        self._publish_progress()
        self._journal.put(*((fact, self._recorder.content) for fact in self._begun_at_once.values()))
        self._begun_at_once.clear()

    def _publish_progress(self) -> None:
        """Publish the progress if it has changed. Otherwise a later message stays, such as that a step waits."""
        now = self._run.settled, len(self._run.running)
        if now != self._published:
            self._published = now
            self._parts.progress.count(self._recorder, now[0], len(self._run.steps), now[1])

    async def _start_with_task(self, attempt: Attempt) -> None:
        """Start a step that can't be carried out at once."""
        started = self._begun_at_once.pop(attempt.work.id, None)
        if started is not None:
            await self._journal.note((started, self._recorder.content))
        await self._journal.flushed()
        self._executor.submit(replace(attempt, at_once=False))

    def _facts_of(self, each: Next) -> list[StepFact]:
        match each:
            case Begin(work=work, visit=visit, attempt=attempt):
                does = work.kinds and work.wait is None
                task = (self._run.taken_up.get(work.id) or TaskId(self._parts.ids.new())) if does else None
                return [StepStarted(step_id=work.id, visit=visit, attempt=attempt, task=task)]
            case Skip(step_id=step_id, visit=visit, reason=reason):
                return [StepSkipped(step_id=step_id, visit=visit, reason=reason)]
            case Broken(work=work, visit=visit, message=message):
                code = "skill.condition_values"
                broken = StepFailed(step_id=work.id, visit=visit, kind="business", code=code, message=message)
                return [StepStarted(step_id=work.id, visit=visit), broken]

    async def _record(self, attempt: Attempt, outcome: Succeeded | FailedAttempt) -> None:
        work, record = attempt.work, attempt.record
        outcome, to = taken_in(self._run, work, outcome)
        if isinstance(outcome, FailedAttempt):
            await self._record_failure(work, attempt, outcome, to)
            return
        shown, blob = await kept(outcome.value, self._parts.blobs)
        done = StepCompleted(
            step_id=work.id,
            output=shown,
            visit=record.visit,
            attempt=record.attempt,
            blob=blob,
            event=outcome.event,
            to=to,
            accepted=outcome.accepted,
            told=outcome.told,
            took_ms=_took_ms(outcome),
            summary=_summary(outcome),
        )
        self._run.apply(done, Output(outcome.value, outcome.content))
        await self._settle(attempt, outcome, done)

    async def _record_failure(self, work: Work, attempt: Attempt, outcome: FailedAttempt, to: str) -> None:
        record = attempt.record
        again_in_s: float | None = None
        if policy := tried_again(self._skill, work, record.attempt, outcome):
            again_in_s = self._pause(policy, record.attempt)
            self._pauses[work.id] = again_in_s
            self._rejected[work.id] = Rejection(outcome.message, outcome.content)
        failed = StepFailed(
            step_id=work.id,
            kind=outcome.kind,
            code=outcome.code,
            message=outcome.message,
            hint=outcome.hint,
            visit=record.visit,
            attempt=record.attempt,
            again_in_s=again_in_s,
            to=to if again_in_s is None else "",
            took_ms=_took_ms(outcome),
        )
        self._run.apply(failed)
        await self._settle(attempt, outcome, failed)

    async def _settle(
        self, attempt: Attempt, outcome: Succeeded | FailedAttempt, fact: StepCompleted | StepFailed
    ) -> None:
        """Record the end of an attempt, and wait until it is durable unless it was carried out at once. Then its start
        and its call are recorded with its end."""
        is_end = not (isinstance(fact, StepFailed) and fact.again_in_s is not None)
        ended = (fact, outcome.content | self._run.values.content)
        await self._journal.note(
            *self._begun(attempt), *outcome.facts, ended, settles=attempt.work.id if is_end else ""
        )
        if not attempt.at_once:
            await self._journal.flushed()

    def _begun(self, attempt: Attempt) -> Facts:
        """Return the start of an attempt that was carried out at once, unless it is recorded."""
        started = self._begun_at_once.pop(attempt.work.id, None)
        if started is None:
            return ()
        without_task = StepStarted(step_id=started.step_id, visit=started.visit, attempt=started.attempt)
        return ((without_task, self._recorder.content),)

    def _pause(self, policy: RetryPolicy, attempt: int) -> float:
        """Return the exponential backoff, with a jitter of 50 % so that many retries don't come at once."""
        pause = policy.backoff_ms / 1000 * 2 ** (attempt - 1) * (0.5 + self._chance())
        return round(min(pause, MOST_BACKOFF_S), 3)

    def _checkpoint(self, step_id: str) -> CheckpointSaved:
        run = self._run
        counts: JsonObject = {"settled": run.settled, "steps": len(run.steps)}
        state: JsonObject = {**counts, "running": list[Json](sorted(run.running))}
        if isinstance(run, FsmRun):
            state["current"] = run.current
        return CheckpointSaved(checkpoint_id=self._parts.ids.new(), node_id=step_id, state=state)

    async def _end(self, ended: Done | Failed) -> int:
        name = self._skill.name
        await self._journal.flushed()
        if isinstance(ended, Failed):
            read = content_of(await self._parts.log.read_stream(task_stream(self._recorder.task_id)))
            failed = SkillFailed(skill=name, message=ended.message, step_id=ended.step_id)
            await self._recorder.made_from(read).append(failed)
            raise await self._failed(ended.message)
        output = ended.output
        shown, blob = await kept(output.value, self._parts.blobs)
        said = MessageCompleted(
            reply_id=ReplyId(self._parts.ids.new()), text=as_text(output.value) or "Done.", finish="stop"
        )
        content = output.content | self._run.values.content
        await self._recorder.made_from(content).append(said, SkillCompleted(skill=name, output=shown, blob=blob))
        return self._run.settled

    async def _failed(self, message: str) -> SkillFailedError:
        task_id = self._recorder.task_id
        found = failed_steps(await self._parts.log.read_stream(task_stream(task_id)))
        hint = await _what_then(self._parts.log, task_id)
        by_budget = bool(found) and found[0].code in (EXCEEDED, TOO_LATE)
        if by_budget:  # the error of a nested run has the hint already
            hint = found[0].hint if _KEPT in found[0].hint else f"{found[0].hint} {hint}"
        return SkillFailedError(
            f"{self._skill.name} failed. {message}",
            hint=hint,
            kind=found[0].kind if found else "business",
            code=found[0].code if by_budget else None,
        )


async def _what_then(log: EventLog, task_id: TaskId) -> str:
    """Return a hint about what is left of a failed run, and how to retry it."""
    row = await find_task(log, task_id)
    assert row is not None, "it runs"
    again = await retried_with(log, row)
    return f"{_KEPT} Fix it, then run `ozzie tasks retry {again}`." if again else _KEPT


_CONNECTED = "runs are connected before anything is run"


class TaskRunner:
    """Runs a task: a run of a skill step by step, a turn with `run_turn`. Steps are tasks too, so this needs the driver
    that calls it."""

    def __init__(self, run_turn: Callable[[Row, Recorder], Awaitable[int]]) -> None:
        self._run_turn = run_turn
        self.graphs: GraphRunner | None = None
        self._delegates: Callable[[Row, Recorder, Room], SkillDelegates] | None = None

    def connect(
        self,
        parts: StepParts,
        driver: TaskDriver,
        tasks: TaskService,
        *,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Set the objects that steps need, before the driver runs anything; for `chance` see `GraphRunner`."""

        async def stop(task_id: TaskId) -> None:
            with contextlib.suppress(Conflict, NotFound):  # it has ended, or had not begun
                await tasks.cancel(task_id, by=GATEWAY, reason="The run that it was part of has ended.")

        def delegates(row: Row, recorder: Recorder, room: Room) -> SkillDelegates:
            return SkillDelegates(parts, row, recorder, room, stop, leaving=lambda: driver.stopping)

        self.graphs = GraphRunner(parts, stop, leaving=lambda: driver.stopping, chance=chance)
        self._delegates = delegates

    def delegates(self, row: Row, recorder: Recorder, room: Room) -> SkillDelegates:
        """Return the delegation by a turn."""
        assert self._delegates is not None, _CONNECTED
        return self._delegates(row, recorder, room)

    async def run(self, row: Row, recorder: Recorder) -> int:
        """See `tasks.driver.RunTask`."""
        if row["mode"] != "GRAPH":
            return await self._run_turn(row, recorder)
        assert self.graphs is not None, _CONNECTED
        return await self.graphs.run(row, recorder)


def _took_ms(outcome: Succeeded | FailedAttempt) -> float | None:
    """Return how long a call made at once took; None without one."""
    last = outcome.facts[-1][0] if outcome.facts else None
    return last.duration_ms if isinstance(last, ToolCallCompleted | ToolCallFailed) else None


def _summary(outcome: Succeeded) -> str:
    last = outcome.facts[-1][0] if outcome.facts else None
    return last.summary if isinstance(last, ToolCallCompleted) else ""
