"""Carries out one attempt at a step, usually with a delegated task."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.content import CLEAN
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import (
    Brief,
    Limits,
    Origin,
    SkillStarted,
    content_of,
)
from ozzie_server_ext.domain.ids import EventId, TaskId, task_stream
from ozzie_server_ext.skills.briefing import input_of, order_for
from ozzie_server_ext.skills.spec import Wait, Work
from ozzie_server_ext.skills.templates import as_text, fill
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.concurrency import IdleTasks
from ozzie_server_ext.tasks.pauses import PausePoints
from ozzie_server_ext.tasks.progress import StepProgress, TaskEnds
from ozzie_server_ext.tasks.signals import SignalWaits
from ozzie_server_ext.tasks.times import TaskTimes
from ozzie_server_ext.tasks.updates import UpdateIntake
from ozzie_server_ext.tasks.workflows.delegation import Delegated, Delegation
from ozzie_server_ext.tasks.workflows.executor import Attempt, FailedAttempt, Outcome, Succeeded
from ozzie_server_ext.tasks.workflows.judging import JUDGE, VERDICT, judged
from ozzie_server_ext.tasks.workflows.quick_calls import QuickCalls
from ozzie_server_ext.tasks.workflows.run_waits import RunWaits, time_limit
from ozzie_server_ext.tasks.workflows.skill_log import LoadedRun
from ozzie_server_ext.tasks.workflows.skill_starts import SkillStarts
from ozzie_server_ext.tasks.workflows.step_ends import failed_by, outcome_of
from ozzie_server_ext.tools.base import ToolContext

Stop = Callable[[TaskId], Coroutine[Any, Any, None]]
"""Cancels a delegated task, unless it has ended."""


class StepParts(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that all steps share."""

    log: EventLog
    blobs: BlobStore
    ids: IdSource
    delegation: Delegation
    ends: TaskEnds
    starts: SkillStarts
    progress: StepProgress
    pauses: PausePoints
    idle: IdleTasks
    signals: SignalWaits
    quick: QuickCalls
    times: TaskTimes
    context_of: Callable[[Row, Recorder], ToolContext]
    updates: UpdateIntake
    waits: RunWaits


class StepRunner:
    """Carries out the steps of one run, whose task has this `row`. `stop` cancels a delegated task that takes too long;
    `given` are the addresses that a person gave for the run."""

    def __init__(
        self,
        parts: StepParts,
        loaded: LoadedRun,
        row: Row,
        recorder: Recorder,
        stop: Stop,
        given: tuple[str, ...] = (),
    ) -> None:
        self._parts = parts
        self._skill = loaded.skill
        self._values = loaded.run.values
        self._row = row
        self._recorder = recorder
        self._rejected = loaded.rejected
        self._stop = stop
        self._given = given
        self._taken_signals: set[EventId] = set()
        self._context = parts.context_of(row, recorder)
        self.waiting = 0
        """How many attempts only wait for a task or a signal."""

    @contextmanager
    def _waits(self) -> Iterator[None]:
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    async def carry_out(self, attempt: Attempt) -> Outcome:
        """Carry out an attempt and return its outcome. Its record names the task, so that after a crash it goes on with
        the same one."""
        work = attempt.work
        if attempt.at_once:
            with self._parts.times.working(self._recorder.task_id):
                return await self._call_at_once(attempt)
        if work.wait is not None:
            return await self._wait_for_signal(attempt, work.wait)
        if not work.kinds:
            return Succeeded(value=None, content=CLEAN)
        try:
            async with asyncio.timeout(await self._left_s(attempt)):
                outcome = await self._delegate(attempt)
                if isinstance(outcome, Succeeded) and work.acceptance:
                    outcome = await self._judge(work, outcome)
        except TimeoutError:
            if attempt.record.task is not None:
                await self._stop(attempt.record.task)
            return _too_late(f"It did not end within {work.timeout_s:g} s.")
        except OzzieError as error:
            return failed_by(error, self._values.all_content)
        return outcome

    async def _left_s(self, attempt: Attempt) -> float | None:
        """Return the remaining time of an attempt; None without a limit."""
        if attempt.is_resumed:
            return await self._parts.waits.left_s(self._recorder.task_id, attempt.work)
        return time_limit(attempt.work)

    async def _call_at_once(self, attempt: Attempt) -> Outcome:
        task_id = attempt.record.task
        assert task_id is not None, "it has one, in case it can't be made at once"
        try:
            order = order_for(self._skill, attempt.work, self._values)
        except OzzieError as error:
            return failed_by(error, self._values.all_content)
        return await self._parts.quick.make(order, attempt.work.id, task_id, self._context, self._recorder)

    async def _wait_for_signal(self, attempt: Attempt, wait: Wait) -> Outcome:
        work, run = attempt.work, self._recorder.task_id
        self._parts.progress.waits(self._recorder, work.name, wait.event)
        try:
            with self._waits():
                async with asyncio.timeout(await self._left_s(attempt)):
                    signal = await self._parts.signals.next(run, wait.event, self._taken_signals)
        except TimeoutError:
            return _too_late(f'It got no signal "{wait.event}" within {time_limit(work):g} s.')
        return Succeeded(value=signal.data, content=signal.content, event=wait.event, told=signal.event_id)

    async def _delegate(self, attempt: Attempt) -> Outcome:
        task_id = attempt.record.task
        assert task_id is not None, "a step with work has a task for it"
        self._parts.progress.watch(task_id, self._recorder, f'the step "{attempt.work.name}"')
        self._parts.waits.watch(task_id, self._recorder.task_id)
        try:
            await self._begin(task_id, attempt)
            with self._waits():
                row = await self._parts.ends.wait(task_id)
        finally:
            self._parts.progress.forget(task_id)
        return await outcome_of(row, attempt.work, self._parts.log, self._parts.blobs)

    async def _begin(self, task_id: TaskId, attempt: Attempt) -> None:
        work, recorder = attempt.work, self._recorder
        run: SkillStarted | None = None
        if work.skill is not None:
            given = input_of(work, self._values)
            run = await self._parts.starts.of(work.skill, given)
            text, call, brief = f"{work.skill}", None, Brief()
            content = self._values.content_of(work.with_)
        else:
            rejected = self._rejected.get(work.id)
            order = order_for(self._skill, work, self._values, rejected=rejected.message if rejected else "")
            text, call, brief, content = order.text, order.call, order.brief, order.content
            content |= rejected.content if rejected else CLEAN
        intake = self._parts.updates
        updates = [] if call else await intake.updates_of(recorder.task_id)
        wanted = Delegated(
            task_id=task_id,
            parent=recorder.task_id,
            session_id=recorder.session_id,
            title=f"{self._skill.name}: {work.name}",
            limits=await self._limits(work),
            caller=self._caller,
            step=work.id,
            text=text,
            call=call,
            brief=replace(brief, given=self._given),
            model=self._model(work, attempt.record.attempt if work.id in self._rejected else 1),
            mode="FREE" if run is None else "GRAPH",
            attended=bool(self._row["attended"]),
            answer_schema=work.output_model,
            content=content,
            run=run,
            updates=tuple(updates),
        )
        is_new = await self._parts.delegation.begin(wanted, by=recorder)
        if call is None:
            await intake.forward(recorder.task_id, task_id, known=updates if is_new else ())

    @property
    def _caller(self) -> Origin:
        return Origin(channel=str(self._row["channel"]), sender_id=str(self._row["sender_id"]))

    def _model(self, work: Work, attempt: int) -> str:
        policy = work.retry_policy or self._skill.retry_policy
        starts = self._parts.starts
        chosen = starts.model_of(work) or starts.model_of(self._skill) or str(self._row["model"])
        if attempt > 1 and (policy is None or policy.upgrade_model_on_fail):
            return starts.stronger(chosen)
        return chosen

    async def _limits(self, work: Work) -> Limits:
        """Return the limits of a step's task; for a nested skill also those of its file. The budgets of the tasks above
        apply in any case."""
        most = work.max_iterations or self._skill.max_iterations
        starts = self._parts.starts
        limits = starts.limits() if work.skill is None else await starts.limits_of(work.skill)
        return replace(limits, max_rounds=most) if most else limits

    async def _judge(self, work: Work, outcome: Succeeded) -> Outcome:
        """Check the acceptance criterion with a model that sees the result and nothing else."""
        criterion = fill(work.acceptance or "", self._values.find)
        content = outcome.content | self._values.content_of(work.acceptance)
        task_id = TaskId(self._parts.ids.new())
        recorder = self._recorder
        wanted = Delegated(
            task_id=task_id,
            parent=recorder.task_id,
            session_id=recorder.session_id,
            title=f"Check of {work.name}",
            limits=replace(self._parts.starts.limits(), max_rounds=3),
            caller=self._caller,
            step=work.id,
            text=f"The criterion: {criterion}\n\nThe result:\n\n{as_text(outcome.value)}",
            brief=Brief(skill=self._skill.name, instruction=JUDGE, tools=()),
            model=self._model(work, 1),
            attended=False,
            answer_schema=VERDICT,
            content=content,
        )
        await self._parts.delegation.begin(wanted, by=recorder)
        with self._waits():
            row = await self._parts.ends.wait(task_id)
        events = await self._parts.log.read_stream(task_stream(task_id))
        content |= content_of(events)
        return judged(replace(outcome, content=content), criterion, row, events)


def _too_late(message: str) -> FailedAttempt:
    """Return the failure of an attempt that took too long. It quotes nothing."""
    return FailedAttempt(kind="business", code="step.timeout", message=message, content=CLEAN)
