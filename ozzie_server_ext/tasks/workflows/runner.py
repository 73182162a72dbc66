"""Drives runs of skills: begins what is ready, records what came of it, until each has ended.

`SkillRuns` decides which tasks are runs; all others are turns.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

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
    content_of,
)
from ozzie_server_ext.domain.ids import ReplyId, TaskId, task_stream
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.tasks import TurnHeld
from ozzie_server_ext.skills.run import Begin, Broken, Done, Failed, FsmRun, Next, Skip
from ozzie_server_ext.skills.spec import RetryPolicy, Work
from ozzie_server_ext.skills.templates import Output, as_text
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.shielded import uncut
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.delegated import retried_with
from ozzie_server_ext.tasks.driver import TaskDriver
from ozzie_server_ext.tasks.failures import SkillFailedError, failed_steps
from ozzie_server_ext.tasks.pauses import hold_within
from ozzie_server_ext.tasks.service import TaskService, limits_of
from ozzie_server_ext.tasks.workflows.delegates import Room, SkillDelegates
from ozzie_server_ext.tasks.workflows.executor import (
    Attempt,
    Executor,
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
"""Facts that wait. Then whoever notes one waits, too."""


class Journal:
    """Of one run. `checkpoint` is recorded behind each batch in which a step came to its end."""

    def __init__(self, recorder: Recorder, checkpoint: Callable[[str], CheckpointSaved]) -> None:
        self._recorder = recorder
        self._checkpoint = checkpoint
        self._noted: list[tuple[EventBody, Content]] = []
        self._settled = ""
        self._writing: asyncio.Task[None] | None = None

    async def note(self, *facts: EventBody, content: Content, settles: str = "") -> None:
        """Have facts recorded, in the order in which they are noted; `settles` is the step whose end they are. It waits
        only where many wait already. Raises what an append before raised."""
        self.put(*facts, content=content, settles=settles)
        if len(self._noted) >= MOST_NOTED or self._has_failed:
            await self.flushed()

    def put(self, *facts: EventBody, content: Content, settles: str = "") -> None:
        """As `note`, without waiting."""
        self._noted += [(fact, content) for fact in facts]
        self._settled = settles or self._settled
        if self._writing is None or (self._writing.done() and not self._has_failed):
            self._writing = asyncio.create_task(self._write(), name=f"journal {self._recorder.task_id}")

    async def flushed(self) -> None:
        """Wait until all that was noted is durable. Raises what an append raised."""
        if self._writing is not None:
            await uncut(_end_of(self._writing))

    @property
    def _has_failed(self) -> bool:
        writing = self._writing
        return writing is not None and writing.done() and (writing.cancelled() or writing.exception() is not None)

    async def _write(self) -> None:
        while self._noted:
            batch, self._noted = self._noted, []
            if self._settled:
                batch.append((self._checkpoint(self._settled), batch[-1][1]))
                self._settled = ""
            await self._recorder.append_each(batch)


async def _end_of(writing: "asyncio.Task[None]") -> None:
    await writing


MOST_BACKOFF_S = 300.0
_KEPT = "Finished steps are kept."
TELL_AFTER_S = 0.05
"""A call that is made at once and takes longer than that is told of meanwhile; many short ones, so often."""


class GraphRunner:
    """`leaving`: see `TurnParts`; `chance` gives the jitter of a pause, from 0 to 1."""

    def __init__(
        self, parts: StepParts, stop: Stop, *, leaving: Callable[[], bool], chance: Callable[[], float] = random.random
    ) -> None:
        self._parts = parts
        self._stop = stop
        self._leaving = leaving
        self._chance = chance
        self._pace = Pace()

    async def run(self, row: Row, recorder: Recorder) -> int:
        """Go on with the run of that row of `tasks` until it has ended; returns how many steps have.

        Raises SkillFailedError, LimitExceeded once it has worked for all of its time, TurnHeld where it is to be held,
        or what a cancellation raises: then what it had delegated is stopped, too.
        """
        try:
            return await self._run(row, recorder)
        except OutOfTime as error:
            raise await self._too_late(row, recorder, error.limit_s) from None

    async def _too_late(self, row: Row, recorder: Recorder, limit_s: float) -> LimitExceeded:
        """The end of a run that its time is over for, which is told first."""
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
        driving = Driving(parts, loaded, executor, recorder, self._chance)

        def rests() -> bool:
            return 0 < executor.pending == steps.waiting

        try:
            limit_s = None if loaded.end else limits_of(row).deadline_s
            async with parts.times.bounded(recorder.task_id, limit_s):
                with (
                    parts.pauses.telling(recorder.task_id, executor.wake),
                    parts.resting.where(recorder.task_id, rests),
                ):
                    return await driving.run()
        except TurnHeld:  # what it had delegated goes on to its end, but for runs
            await executor.close()
            with contextlib.suppress(OzzieError):  # else the next gateway has them held
                await hold_within(parts.log, recorder.task_id, recorder.source)
            raise
        except BaseException:
            await executor.close()
            if not self._leaving():
                for step_id in loaded.run.running:
                    if task := loaded.run.records[step_id].task:
                        await uncut(self._stop(task))
            raise
        finally:
            await driving.settle()


class Driving:
    """One run while it is driven."""

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
        self._telling: asyncio.TimerHandle | None = None
        self._progress = (0, 0)

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
        for step_id in run.running:  # what was begun before a restart
            self._executor.submit(Attempt(work=run.steps[step_id], record=run.records[step_id]))
        pauses = self._parts.pauses
        while True:
            if pauses.is_wished(self._recorder.task_id):
                await self._journal.flushed()
                await pauses.point(self._recorder)
            begun = await self._begin_what_is_ready()
            for attempt in begun:
                self._executor.submit(attempt)
            if run.ended is not None:
                return await self._end(run.ended)
            if any(not attempt.at_once for attempt in begun):
                self._tell_progress()
            for attempt, outcome in await self._executor.next():
                if isinstance(outcome, NotAtOnce):
                    await self._begin_after_all(attempt)
                else:
                    await self._record(attempt, outcome)

    async def settle(self) -> None:
        """What was noted and not recorded yet is, before anybody else has a say, unless the log can't be written."""
        if self._telling is not None:
            self._telling.cancel()
        with contextlib.suppress(OzzieError):
            await self._journal.flushed()

    async def _begin_what_is_ready(self) -> list[Attempt]:
        """Record all that begins or is skipped now, in one append; of what is made at once, nothing is recorded yet."""
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
        if facts:  # why a step is skipped, or can't begin, may quote what others gave
            says_why = any(isinstance(fact, StepSkipped | StepFailed) for fact in facts)
            content = self._run.values.all_content if says_why else self._recorder.content
            await self._journal.note(*facts, content=content)
        if waits:  # what has effects, or others do, begins when all before it is durable
            await self._journal.flushed()
        if self._begun_at_once and self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(TELL_AFTER_S, self._tell)
        return begun

    def _is_made_at_once(self, begin: Begin) -> bool:
        is_new = begin.attempt == 1 and begin.work.id not in self._run.taken_up
        return is_new and self._parts.quick.fits(begin.work)

    def _tell(self) -> None:
        """How far it is, where steps are made at once; and of what takes longer, that it has begun."""
        self._telling = None
        self._tell_progress()
        for fact in self._begun_at_once.values():
            self._journal.put(fact, content=self._recorder.content)
        self._begun_at_once.clear()

    def _tell_progress(self) -> None:
        """How far it is, where that has changed: what was told since, as that a step waits for a person, stays."""
        now = self._run.settled, len(self._run.running)
        if now != self._progress:
            self._progress = now
            self._parts.news.progress(self._recorder, now[0], len(self._run.steps), now[1])

    async def _begin_after_all(self, attempt: Attempt) -> None:
        """Have what can't be made at once carried out by a task of its own."""
        started = self._begun_at_once.pop(attempt.work.id, None)
        if started is not None:
            await self._journal.note(started, content=self._recorder.content)
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
        call = outcome.call
        started = self._begun_at_once.pop(work.id, None)
        if started is not None and call is None:  # it did not come to a call
            await self._journal.note(started, content=self._recorder.content)
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
            call=call,
        )
        self._run.apply(done, Output(outcome.value, outcome.content))
        await self._settle(attempt, outcome.content, done)

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
            call=outcome.call,
        )
        self._run.apply(failed)
        await self._settle(attempt, outcome.content, failed)

    async def _settle(self, attempt: Attempt, content: Content, fact: StepCompleted | StepFailed) -> None:
        """Record the end of an attempt; of one that was made at once, it is enough that it will be."""
        is_end = not (isinstance(fact, StepFailed) and fact.again_in_s is not None)
        made_from = content | self._run.values.content
        await self._journal.note(fact, content=made_from, settles=attempt.work.id if is_end else "")
        if not attempt.at_once:
            await self._journal.flushed()

    def _pause(self, policy: RetryPolicy, attempt: int) -> float:
        """Twice as long each time, and between half and one and a half of that, so that many do not come at once."""
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
        if by_budget:  # what a step that is a run said of it says it already
            hint = found[0].hint if _KEPT in found[0].hint else f"{found[0].hint} {hint}"
        return SkillFailedError(
            f"{self._skill.name} failed. {message}",
            hint=hint,
            kind=found[0].kind if found else "business",
            code=found[0].code if by_budget else None,
        )


async def _what_then(log: EventLog, task_id: TaskId) -> str:
    """What is left of a run that failed, and how it is tried again."""
    rows = await log.rows("tasks", where={"task_id": task_id}, limit=1)
    again = await retried_with(log, rows[0])
    return f"{_KEPT} Fix it, then run `ozzie tasks retry {again}`." if again else _KEPT


_CONNECTED = "runs are connected before anything is run"


class SkillRuns:
    """Runs the task of a row of `tasks`: a run of a skill step by step, anything else by `run_turn`. Steps are tasks
    too, so this is connected to the driver that calls it."""

    def __init__(self, run_turn: Callable[[Row, Recorder], Awaitable[int]]) -> None:
        self._run_turn = run_turn
        self.graphs: GraphRunner | None = None
        self._delegates: Callable[[Row, Recorder, Room], SkillDelegates] | None = None

    def connect(self, parts: StepParts, driver: TaskDriver, tasks: TaskService) -> None:
        """Set what steps work with, before the driver runs anything."""

        async def stop(task_id: TaskId) -> None:
            with contextlib.suppress(Conflict, NotFound):  # it has ended, or had not begun
                await tasks.cancel(task_id, by="kernel", reason="The run that it was part of has ended.")

        def delegates(row: Row, recorder: Recorder, room: Room) -> SkillDelegates:
            return SkillDelegates(parts, row, recorder, room, stop, leaving=lambda: driver.stopping)

        self.graphs = GraphRunner(parts, stop, leaving=lambda: driver.stopping)
        self._delegates = delegates

    def delegates(self, row: Row, recorder: Recorder, room: Room) -> SkillDelegates:
        """What an agent hands over to skills, of that task."""
        assert self._delegates is not None, _CONNECTED
        return self._delegates(row, recorder, room)

    async def run(self, row: Row, recorder: Recorder) -> int:
        """See `tasks.driver.RunTurn`."""
        if row["mode"] != "GRAPH":
            return await self._run_turn(row, recorder)
        assert self.graphs is not None, _CONNECTED
        return await self.graphs.run(row, recorder)
