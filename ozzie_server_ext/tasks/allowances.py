"""What a turn may still use up, under the settings of the moment and by what the log has of its budgets (MD-5)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

from ozzie_server_ext.agent.plan import Allowance, Deadline
from ozzie_server_ext.config.settings import BudgetSettings, BudgetsSettings, Settings
from ozzie_server_ext.domain.budget import Account, Budget, OnBreach, Scope, Spending
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.events import (
    BudgetRaised,
    Event,
    Limits,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.models.ledger import Standing
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.tasks import MOST_DEPTH
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.service import limits_of
from ozzie_server_ext.tasks.task_times import TaskTimes
from ozzie_server_ext.tasks.today import today


def limits_under(settings: Settings) -> Limits:
    """The limits that a task is created with."""
    budget = settings.budgets.task
    return Limits(
        max_rounds=settings.agent.max_rounds,
        max_tokens=budget.max_tokens,
        max_cost=budget.max_cost,
        deadline_s=budget.deadline_s,
    )


async def standing_of(log: EventLog, account: Account) -> Standing:
    """What the log has of an account."""
    rows = await log.rows("budgets", where={"scope": account.scope, "key": account.key}, limit=1)
    if not rows:
        return Standing()
    row = rows[0]
    return Standing(
        settled=Spending(cast(int, row["cost"]), cast(int, row["tokens"])),
        raised=Spending(cast(int, row["raised_cost"]), cast(int, row["raised_tokens"])),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUse:
    """One budget and what was used of it; None where it has no such limit. Limits with what was allowed in addition.
    Money in 1e-9 USD."""

    scope: Scope
    cost_limit: int | None
    cost_used: int
    tokens_limit: int | None
    tokens_used: int
    on_breach: OnBreach


async def uses_of(log: EventLog, budgets: Iterable[Budget]) -> list[BudgetUse]:
    """What was used of each budget."""
    found: list[BudgetUse] = []
    for budget in budgets:
        standing = await standing_of(log, budget.account)
        found.append(
            BudgetUse(
                scope=budget.account.scope,
                cost_limit=None if budget.cost is None else budget.cost + standing.raised.cost,
                cost_used=standing.settled.cost,
                tokens_limit=None if budget.tokens is None else budget.tokens + standing.raised.tokens,
                tokens_used=standing.settled.tokens,
                on_breach=budget.on_breach,
            )
        )
    return found


def shared_budgets(settings: BudgetsSettings, session_id: SessionId, project: Path, day: str) -> tuple[Budget, ...]:
    """Those that turns share, as far as they have limits."""
    budgets = (
        _budget(Account("session", session_id), settings.session),
        _budget(Account("project", str(project)), settings.project),
        _budget(Account("day", day), settings.day),
    )
    return tuple(budget for budget in budgets if budget.is_limited)


class Allowances:
    """Those of one task. `settings` gives the budgets of the moment; the task's own are those that it was created
    with."""

    def __init__(
        self,
        settings: Callable[[], BudgetsSettings],
        limits: Limits,
        task_id: TaskId,
        session_id: SessionId,
        project: Path,
        clock: Clock,
        above: Sequence["TaskLimits"] = (),
    ) -> None:
        """`above` are the tasks that delegated this one: what it uses, they use."""
        self._above = above
        self._settings = settings
        self._limits = limits
        self._task_id = task_id
        self._session_id = session_id
        self._project = project
        self._clock = clock

    def now(self) -> Allowance:
        """The budgets that a call made now counts against."""
        settings = self._settings()
        day, _ = today(self._clock.now())
        own = [self._own(settings), *(budget_of(*each, settings) for each in self._above)]
        shared = shared_budgets(settings, self._session_id, self._project, day)
        budgets = (*(budget for budget in own if budget.is_limited), *shared)
        return Allowance(budgets=budgets, project=str(self._project), day=day)

    async def deadline(self, log: EventLog, times: TaskTimes) -> Deadline | None:
        """How much time the task has; None where time does not matter. The log is read for it."""
        if self._limits.deadline_s is None:
            return None
        events = await log.read_stream(task_stream(self._task_id))
        limit_s = self._limits.deadline_s + sum(raised_ms(event) for event in events) / 1000
        within = partial(times.bounded, self._task_id, limit_s)
        return Deadline(limit_s=limit_s, budget=self._own(self._settings()), within=within)

    def _own(self, settings: BudgetsSettings) -> Budget:
        return budget_of(self._task_id, self._limits, bool(self._above), settings)


class TaskLimits(NamedTuple):
    """A task that delegated another one, its limits, and whether it was delegated itself."""

    task_id: TaskId
    limits: Limits
    is_part: bool


async def limits_above(log: EventLog, row: Row) -> list[TaskLimits]:
    """The limits of the tasks that delegated the one of that row, the nearest first."""
    found: list[TaskLimits] = []
    while row["parent_id"] is not None and len(found) < MOST_DEPTH:
        rows = await log.rows("tasks", where={"task_id": row["parent_id"]}, limit=1)
        if not rows:
            break
        (row,) = rows
        found.append(TaskLimits(TaskId(str(row["task_id"])), limits_of(row), row["parent_id"] is not None))
    return found


def budget_of(task_id: TaskId, limits: Limits, is_part: bool, settings: BudgetsSettings) -> Budget:
    """That of a task with these limits; `is_part`: another one delegated it."""
    return Budget(
        account=Account("task", task_id),
        cost=limits.max_cost,
        tokens=limits.max_tokens,
        on_breach=settings.task.on_breach,
        skill=limits.skill,
        skill_bounds=limits.skill_bounds,
        is_part=is_part,
    )


def raised_ms(event: Event) -> int:
    """The time that a person allowed with that event."""
    match event.body:
        case BudgetRaised(scope="task", measure="time", amount=amount):
            return amount
        case _:
            return 0


def _budget(account: Account, settings: BudgetSettings) -> Budget:
    return Budget(account=account, cost=settings.max_cost, tokens=settings.max_tokens, on_breach=settings.on_breach)
