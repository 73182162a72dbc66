"""Operations on existing tasks besides cancelling and answering: pause, signal, update, retry."""

from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.agent.conversation import Conversation
from ozzie_server_ext.agent.questions import TOO_LATE, describe, limit_exceeded, time_overrun
from ozzie_server_ext.domain.budget import Account, Budget
from ozzie_server_ext.domain.errors import Conflict, OzzieError, VersionConflict
from ozzie_server_ext.domain.events import Event, EventBody, Limits, StepFailed, TaskRetried
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.domain.steps import StepStatus
from ozzie_server_ext.domain.tasks import FINAL, TaskStatus
from ozzie_server_ext.skills.run import Failed
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.tasks import MOST_DEPTH
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.budgets import balance_of
from ozzie_server_ext.tasks.pauses import Pauses
from ozzie_server_ext.tasks.reconciliation import not_again, unfinished
from ozzie_server_ext.tasks.rows import find_task, has_own_thread, limits_of, session_of, task_of, user_recorder
from ozzie_server_ext.tasks.service import TaskQueue, TaskService
from ozzie_server_ext.tasks.sessions import Sessions
from ozzie_server_ext.tasks.signals import SignalIntake
from ozzie_server_ext.tasks.times import TaskTimes
from ozzie_server_ext.tasks.updates import UpdateIntake
from ozzie_server_ext.tasks.workflows.skill_log import STOPPED, LoadedRun, load_run
from ozzie_server_ext.tasks.workflows.skill_starts import SkillStarts

_TRIES = 5
"""How often a retry is tried while others change the same tasks."""


class Retried(msgspec.Struct, frozen=True, kw_only=True):
    """The next attempt: the number of turns ahead of it, and the rounds or steps and the budget that it has left. None
    means no limit."""

    task_id: TaskId
    attempt: int
    ahead: int
    rounds_left: int | None = None
    steps_left: int | None = None
    tokens_left: int | None = None
    cost_left: int | None = None
    time_left_s: float | None = None


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """The events to record for one of the tasks to retry."""

    row: Row
    version: int
    bodies: tuple[EventBody, ...]
    rounds_left: int | None = None
    steps_left: int | None = None
    limits: Limits | None = None
    time_left_s: float | None = None


class Retries(msgspec.Struct, frozen=True):
    """Queues ended tasks again. `starts_of` returns the starts of skills in a session's project."""

    log: EventLog
    blobs: BlobStore
    tasks: TaskService
    sessions: Sessions
    queue: TaskQueue
    starts_of: Callable[[SessionId], Awaitable[SkillStarts]]
    times: TaskTimes

    async def retry(self, task_id: TaskId, *, by: str) -> Retried:
        """Retry a failed or cancelled task. It is durable when this returns.

        Raises NotFound, or Conflict if the task is in another state, was delegated, has no rounds or time left, or has
        uncertain calls and nobody to ask about them.
        """
        for _ in range(_TRIES):
            row = await self.tasks.get(task_id)
            await self._expect_final(row)
            session_id = session_of(row)
            await self.sessions.expect_open(session_id)
            parts = await self._parts(row, by)
            try:
                for part in parts:
                    recorder = user_recorder(self.log, session_of(part.row), task_of(part.row))
                    await recorder.append(*part.bodies, expected_version=part.version)
            except VersionConflict:
                continue
            for part in parts[:-1]:
                self.queue.enqueue(task_of(part.row), session_id, delegated=True)
            ahead = self.queue.enqueue(task_id, session_id, delegated=has_own_thread(row))
            return await self._retried(parts[-1], ahead)
        raise Conflict("Others change this task at the moment.", hint="Try it once more.", code="task.busy")

    async def _expect_final(self, row: Row) -> None:
        """Raise Conflict if the task can't be retried."""
        status = TaskStatus(str(row["status"]))
        if status is TaskStatus.SUCCEEDED:
            raise Conflict(
                "The task has succeeded, so there is nothing to retry.",
                hint="To do it once more, send its message again.",
                code="task.succeeded",
            )
        if status not in FINAL:
            raise Conflict(
                "The task has not ended, so it can't be retried.",
                hint=f"Look at it with ozzie tasks show {row['task_id']}, or stop it first.",
                code="task.open",
            )
        if row["parent_id"] is not None:
            top = await self._top(row)
            raise Conflict(
                "The task is part of another one and is retried with it.",
                hint=f"ozzie tasks retry {top}",
                code="task.part",
            )

    async def _top(self, row: Row) -> str:
        for _ in range(MOST_DEPTH):
            if row["parent_id"] is None:
                break
            row = await self.tasks.get(TaskId(str(row["parent_id"])))
        return str(row["task_id"])

    async def _parts(self, row: Row, by: str) -> list[_Part]:
        """Return the parts for the tasks of steps that continue, then the task's own. Raises Conflict."""
        events = await self.log.read_stream(task_stream(task_of(row)))
        if row["mode"] == "GRAPH":
            return await self._run(row, events, by)
        return [self._turn(row, events, by)]

    def _turn(self, row: Row, events: Sequence[Event], by: str) -> _Part:
        left = unfinished(events)
        if left.unresolved and not row["attended"]:
            raise Conflict(
                f"{not_again(left.unresolved).message} Nobody is there to ask, so it is not retried.",
                hint="Find out whether it did, then ask for what is missing in a new message.",
                code="task.uncertain",
            )
        retried = TaskRetried(by=by, attempt=_next_attempt(row))
        task_id, last_event = task_of(row), events[-1]
        after = msgspec.structs.replace(
            last_event, body=retried, position=last_event.position + 1, version=last_event.version + 1
        )
        delegated = task_id if has_own_thread(row) else None
        last = Conversation((*events, after), of=delegated).last_round(task_id)
        rounds = limits_of(row).max_rounds
        used = last.number if last else 0
        is_answered = last is not None and bool(last.text) and not last.uses
        if used >= rounds and not is_answered and not (last and last.is_given):
            raise Conflict(
                f"The task has used all of its {rounds} rounds, so a retry would do nothing.",
                hint="Send a new message; it knows what was done. agent.max_rounds sets the rounds of a turn.",
                code="limit.rounds",
            )
        return _Part(row=row, version=last_event.version, bodies=(retried,), rounds_left=rounds - used)

    async def _run(self, row: Row, events: Sequence[Event], by: str) -> list[_Part]:
        loaded = await load_run(self.log, self.blobs, task_of(row))
        parts: list[_Part] = []
        stopped: list[StepFailed] = []
        taken_up: dict[str, TaskId] = {}
        for step_id, record in list(loaded.run.records.items()):
            child = None if record.task is None else await find_task(self.log, record.task)
            is_failed = record.status is StepStatus.FAILED and not getattr(loaded.run.steps[step_id], "optional", False)
            is_stopped = step_id in loaded.run.running and child is not None and child["status"] in _STOPPED
            if is_stopped:
                again = StepFailed(
                    step_id=step_id,
                    kind="business",
                    code=STOPPED,
                    message="It was stopped.",
                    visit=record.visit,
                    attempt=record.attempt,
                    again_in_s=0.0,
                )
                loaded.run.apply(again)
                stopped.append(again)
            if child is None or not (is_failed or is_stopped) or child["status"] == TaskStatus.SUCCEEDED:
                continue
            before = await self._continued(child, by)
            if before is not None:
                parts += before
                taken_up[step_id] = task_of(child)
        loaded.run.retried(taken_up)
        _expect_progress(loaded)
        limits = await self._limits(loaded, row)
        time_left_s = await self._time_left_s(row, limits)
        new = None if limits == limits_of(row) else limits
        retried = TaskRetried(by=by, attempt=_next_attempt(row), taken_up=taken_up, limits=new)
        steps_left = len(loaded.run.steps) - loaded.run.settled if loaded.skill.type != "fsm" else None
        whole = _Part(
            row=row,
            version=events[-1].version,
            bodies=(*stopped, retried),
            steps_left=steps_left,
            limits=limits,
            time_left_s=time_left_s,
        )
        return [*parts, whole]

    async def _limits(self, loaded: LoadedRun, row: Row) -> Limits:
        """Return the limits of a retried run by the skill's current file, where people raise them."""
        limits = limits_of(row)
        try:
            wanted = await (await self.starts_of(session_of(row))).limits_of(loaded.started.skill)
        except OzzieError:  # the file is gone or unreadable; the run has its own copy
            return limits
        return replace(wanted, max_rounds=limits.max_rounds)

    async def _time_left_s(self, row: Row, limits: Limits) -> float | None:
        """Return a run's remaining time. Raises Conflict if there is none."""
        if limits.deadline_s is None:
            return None
        left_s = round(limits.deadline_s - (await self.times.spent(task_of(row))).total_seconds(), 3)
        if left_s > 0:
            return left_s
        account = Account("task", task_of(row))
        budget = Budget(account=account, skill=limits.skill, skill_bounds=limits.skill_bounds)
        breach = time_overrun(budget, limits.deadline_s)
        raise Conflict(
            f"{describe(breach)} Without more time, a retry would do nothing.",
            hint=limit_exceeded(breach, alone=False).hint,
            code=TOO_LATE,
        )

    async def _continued(self, child: Row, by: str) -> list[_Part] | None:
        """Return the parts of a step that continues with its task, because that is a run with finished steps, or has
        uncertain calls; None if the step starts a new task."""
        if child["status"] not in _STOPPED:
            return []  # an earlier retry came this far
        left = unfinished(await self.log.read_stream(task_stream(task_of(child))))
        return await self._parts(child, by) if child["mode"] == "GRAPH" or left.unresolved or left.to_repeat else None

    async def _retried(self, part: _Part, ahead: int) -> Retried:
        limits, task_id = part.limits or limits_of(part.row), task_of(part.row)
        balance = await balance_of(self.log, Account("task", task_id))
        time_left_s = part.time_left_s
        if limits.deadline_s is not None and part.row["mode"] != "GRAPH":
            spent = await self.times.spent(task_id)
            time_left_s = round(max(limits.deadline_s - spent.total_seconds(), 0.0), 3)
        return Retried(
            task_id=task_id,
            attempt=_next_attempt(part.row),
            ahead=ahead,
            rounds_left=part.rounds_left,
            steps_left=part.steps_left,
            tokens_left=_left(limits.max_tokens, balance.raised.tokens, balance.settled.tokens),
            cost_left=_left(limits.max_cost, balance.raised.cost, balance.settled.cost),
            time_left_s=time_left_s,
        )


_STOPPED = frozenset({TaskStatus.FAILED.value, TaskStatus.CANCELLED.value})


def _next_attempt(row: Row) -> int:
    return cast(int, row["attempt"]) + 1


def _left(most: int | None, raised: int, used: int) -> int | None:
    return None if most is None else max(most + raised - used, 0)


def _expect_progress(loaded: LoadedRun) -> None:
    """Raise Conflict if the run would end the same way at once."""
    run, skill = loaded.run, loaded.skill
    if isinstance(run.ended, Failed) or (skill.type == "fsm" and run.settled >= skill.max_moves):
        why = run.ended.message if isinstance(run.ended, Failed) else "It has made all of its moves."
        raise Conflict(
            f"A retry would change nothing: the run has ended by itself. {why}",
            hint=f"Begin another one: ozzie skills run {skill.name}",
            code="task.ended",
        )


class TaskControl(msgspec.Struct, frozen=True):
    """The operations of one gateway."""

    pauses: Pauses
    signals: SignalIntake
    updates: UpdateIntake
    retries: Retries
