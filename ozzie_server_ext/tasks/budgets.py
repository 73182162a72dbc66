"""What tasks may still use up, and what turns, sessions and days have cost."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, tzinfo
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
    ModelCallCompleted,
    ModelCallFailed,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.models.ledger import AccountBalance
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.tasks import MOST_DEPTH
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.service import limits_of
from ozzie_server_ext.tasks.times import TaskTimes

_PAGE = 500
_ENDS = frozenset({ModelCallCompleted.type, ModelCallFailed.type})


@dataclass(frozen=True, slots=True, kw_only=True)
class DayUsage:
    """Calls of models that ended on `day` (YYYY-MM-DD), as the table `usage` counts them; `cost` is what is known of
    it, in 1e-9 USD."""

    day: str
    calls: int = 0
    failed_calls: int = 0
    unknown_price_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: int = 0

    def plus(self, event: Event) -> "DayUsage":
        match event.body:
            case ModelCallCompleted(usage=used, cost=cost):
                return replace(
                    self,
                    calls=self.calls + 1,
                    unknown_price_calls=self.unknown_price_calls + (cost is None),
                    input_tokens=self.input_tokens + used.input_tokens,
                    output_tokens=self.output_tokens + used.output_tokens,
                    cached_tokens=self.cached_tokens + used.cached_tokens,
                    cost=self.cost + (cost or 0),
                )
            case ModelCallFailed() as fact:
                return replace(
                    self,
                    calls=self.calls + 1,
                    failed_calls=self.failed_calls + 1,
                    unknown_price_calls=self.unknown_price_calls + fact.cost_is_unknown,
                )
            case _:
                return self


class TodaysUsage:
    """Sums up today whenever it is asked, of the log what is new since. `zone` is the machine's where it is None."""

    def __init__(self, log: EventLog, clock: Clock, zone: tzinfo | None = None) -> None:
        self._log = log
        self._clock = clock
        self._zone = zone
        self._sum = DayUsage(day="")
        self._position = 0
        self._asking = asyncio.Lock()

    async def sum(self) -> DayUsage:
        async with self._asking:
            day, midnight = today(self._clock.now(), self._zone)
            if day != self._sum.day:
                self._sum, self._position = DayUsage(day=day), await self._before(midnight)
            while page := await self._log.read(after=self._position, types=_ENDS, limit=_PAGE):
                for event in page:
                    if event.ts >= midnight:
                        self._sum = self._sum.plus(event)
                self._position = page[-1].position
            return self._sum

    async def _before(self, midnight: datetime) -> int:
        """A position that all of the day lies behind. Found from the log's end: a day is little of it."""
        before: int | None = None
        while True:
            page = await self._log.read(types=_ENDS, before=before, limit=_PAGE, newest_first=True)
            if not page:
                return 0
            if page[-1].ts < midnight:
                return page[-1].position
            before = page[-1].position


def today(now: datetime, zone: tzinfo | None = None) -> tuple[str, datetime]:
    """The day that it is in `zone` (None: the machine's), and in UTC the moment at which it began."""
    date = now.astimezone(zone).date()
    midnight = datetime.combine(date, time.min)
    # Without a zone, Python takes a time for one of the machine's.
    return date.isoformat(), (midnight if zone is None else midnight.replace(tzinfo=zone)).astimezone(UTC)


def limits_under(settings: Settings) -> Limits:
    """The limits that a task is created with."""
    budget = settings.budgets.task
    return Limits(
        max_rounds=settings.agent.max_rounds,
        max_tokens=budget.max_tokens,
        max_cost=budget.max_cost,
        deadline_s=budget.deadline_s,
    )


async def standing_of(log: EventLog, account: Account) -> AccountBalance:
    """What the log has of an account."""
    rows = await log.rows("budgets", where={"scope": account.scope, "key": account.key}, limit=1)
    if not rows:
        return AccountBalance()
    row = rows[0]
    return AccountBalance(
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


class TaskLimits(NamedTuple):
    """A task, its limits, and whether another one delegated it."""

    task_id: TaskId
    limits: Limits
    is_part: bool


class TaskBudgets:
    """The budgets that tasks count against. `settings` returns the configured ones of the moment."""

    def __init__(
        self, log: EventLog, times: TaskTimes, settings: Callable[[], BudgetsSettings], project: Path, clock: Clock
    ) -> None:
        self._log = log
        self._times = times
        self._settings = settings
        self._project = project
        self._clock = clock

    async def lineage(self, row: Row) -> list[TaskLimits]:
        """Return the task of a row of `tasks`, then those that delegated it, the nearest first. What a task uses, they
        use too."""
        found = [_limits_in(row)]
        while row["parent_id"] is not None and len(found) <= MOST_DEPTH:
            rows = await self._log.rows("tasks", where={"task_id": row["parent_id"]}, limit=1)
            if not rows:
                break
            (row,) = rows
            found.append(_limits_in(row))
        return found

    def now(self, lineage: Sequence[TaskLimits], session_id: SessionId) -> Allowance:
        """Return the budgets that a call made now by the first task of `lineage` counts against."""
        settings = self._settings()
        day, _ = today(self._clock.now())
        own = [budget_of(*task, settings) for task in lineage]
        shared = shared_budgets(settings, session_id, self._project, day)
        budgets = (*(budget for budget in own if budget.is_limited), *shared)
        return Allowance(budgets=budgets, project=str(self._project), day=day)

    async def deadline(self, task: TaskLimits) -> Deadline | None:
        """Return how long the task may work, with what was allowed in addition; None without such a limit."""
        if task.limits.deadline_s is None:
            return None
        events = await self._log.read_stream(task_stream(task.task_id))
        limit_s = task.limits.deadline_s + sum(raised_ms(event) for event in events) / 1000
        within = partial(self._times.bounded, task.task_id, limit_s)
        return Deadline(limit_s=limit_s, budget=budget_of(*task, self._settings()), within=within)


def _limits_in(row: Row) -> TaskLimits:
    return TaskLimits(TaskId(str(row["task_id"])), limits_of(row), row["parent_id"] is not None)


def budget_of(task_id: TaskId, limits: Limits, is_part: bool, settings: BudgetsSettings) -> Budget:
    """That of a task with these limits; `is_part`: another one delegated it."""
    return Budget(
        account=Account("task", task_id),
        cost=limits.max_cost,
        tokens=limits.max_tokens,
        on_breach=settings.task.on_exceeded,
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
    return Budget(account=account, cost=settings.max_cost, tokens=settings.max_tokens, on_breach=settings.on_exceeded)


MOST_TURNS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Tokens and money (1e-9 USD). With `cost_known` false, `cost` is what is known of it: the rest has no price."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0
    cost_known: bool = True

    @classmethod
    def of_row(cls, row: Row) -> "Spent":
        """Of a row of `tasks` or `sessions`."""
        return cls(
            input_tokens=cast(int, row["input_tokens"]),
            output_tokens=cast(int, row["output_tokens"]),
            cost=cast(int, row["cost"]),
            cost_known=bool(row["cost_known"]),
        )

    @classmethod
    def of_day(cls, usage: DayUsage) -> "Spent":
        return cls(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cost=usage.cost,
            cost_known=usage.unknown_price_calls == 0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCost:
    """One turn: `title` is the beginning of its message, `models` are the names of those that were called for it."""

    task_id: str
    title: str
    status: str
    created_at: str
    models: list[str]
    spent: Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The newest turns of a session, oldest first; `has_earlier` tells that there are more. `today` holds every
    session of this home; `day` is the one that it is where the gateway runs; `budgets` are those that the session
    shares."""

    turns: list[TurnCost]
    has_earlier: bool
    session: Spent
    today: Spent
    day: str
    budgets: list[BudgetUse]


async def costs_of(
    log: EventLog, usage: TodaysUsage, session: Row, *, budgets: BudgetsSettings, project: Path
) -> Costs:
    """What the session of this row has cost, and how that stands to the budgets."""
    session_id = SessionId(str(session["session_id"]))
    # What was delegated counts for the task that did.
    own: dict[str, Json] = {"session_id": session_id, "parent_id": None}
    rows = await log.rows("tasks", where=own, order_by="created_at", descending=True, limit=MOST_TURNS + 1)
    shown = list(reversed(rows[:MOST_TURNS]))
    calls = await log.rows("model_calls", where={"task_id": [str(row["task_id"]) for row in shown]})
    models: dict[str, list[str]] = {}
    for call in calls:
        names = models.setdefault(str(call["task_id"]), [])
        if call["alias"] not in names:
            names.append(str(call["alias"]))
    today = await usage.sum()
    return Costs(
        turns=[
            TurnCost(
                task_id=str(row["task_id"]),
                title=str(row["title"]),
                status=str(row["status"]),
                created_at=str(row["created_at"]),
                models=models.get(str(row["task_id"]), []),
                spent=Spent.of_row(row),
            )
            for row in shown
        ],
        has_earlier=len(rows) > MOST_TURNS,
        session=Spent.of_row(session),
        today=Spent.of_day(today),
        day=today.day,
        budgets=await uses_of(log, shared_budgets(budgets, session_id, project, today.day)),
    )
