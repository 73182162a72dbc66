"""The budgets of tasks, and the cost of turns, sessions and days."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time, tzinfo
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.agent.plan import Allowance, Deadline
from ozzie_server_ext.config.settings import BudgetSettings, BudgetsSettings, Settings
from ozzie_server_ext.domain.budget import Account, Budget, OnBreach, Scope, Spending
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.events import (
    ERASURE_TYPES,
    BudgetRaised,
    Event,
    Limits,
    MessageErased,
    ModelCallCompleted,
    ModelCallFailed,
    SessionErased,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.models.ledger import AccountBalance
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.tasks import MOST_DEPTH
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.rows import find_task, limits_of, session_of, task_of
from ozzie_server_ext.tasks.times import TaskTimes

_PAGE = 500
_ENDS = frozenset({ModelCallCompleted.type, ModelCallFailed.type})


class DayUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The model calls that ended on `day` (YYYY-MM-DD), as in the table `usage`. `cost` is the known part in 1e-9
    USD."""

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

    def plus_erased(self, erasure: Event, began: datetime, *, of: tuple[str, str] | None = None) -> "DayUsage":
        """Add what was used in an erased session or turn on the day that `began` then; `of` names a provider and its
        model. Only its days in UTC are known, so what was used in the hours before may count too."""
        assert isinstance(erasure.body, SessionErased | MessageErased), "the caller asked for erasures"
        days = {began.date().isoformat(), erasure.ts.astimezone(UTC).date().isoformat()}
        uses = [use for use in erasure.body.remains.usage if use.day in days]
        uses = [use for use in uses if of is None or (use.provider, use.model) == of]
        names = [name for name in DayUsage.__struct_fields__ if name != "day"]
        return replace(self, **{name: getattr(self, name) + sum(getattr(use, name) for use in uses) for name in names})


class EventsOfToday:
    """Today's events of these types, read from the log once each. `zone` None means the machine's."""

    def __init__(self, log: EventLog, clock: Clock, types: frozenset[str], zone: tzinfo | None = None) -> None:
        self._log = log
        self._clock = clock
        self._types = types
        self._zone = zone
        self._day = ""
        self._position = 0

    async def fresh(self) -> tuple[str, datetime, list[Event]]:
        """Return the date, when it began, and what was not returned yet: on a new day, or after `begin_again`, all of
        the day. Not for two callers at once."""
        day, midnight = today(self._clock.now(), self._zone)
        if day != self._day:
            self._day, self._position = day, await self._before(midnight)
        found: list[Event] = []
        while page := await self._log.read(after=self._position, types=self._types, limit=_PAGE):
            found += (event for event in page if event.ts >= midnight)
            self._position = page[-1].position
        return day, midnight, found

    def begin_again(self) -> None:
        self._day = ""

    async def _before(self, midnight: datetime) -> int:
        """Return a position before all events of the day, searched from the end of the log."""
        before: int | None = None
        while True:
            page = await self._log.read(types=self._types, before=before, limit=_PAGE, newest_first=True)
            if not page:
                return 0
            if page[-1].ts < midnight:
                return page[-1].position
            before = page[-1].position


class TodaysUsage:
    """Today's usage, updated from the log on each request. `zone` None means the machine's."""

    def __init__(self, log: EventLog, clock: Clock, zone: tzinfo | None = None) -> None:
        self._today = EventsOfToday(log, clock, _ENDS | ERASURE_TYPES, zone)
        self._sum = DayUsage(day="")
        self._asking = asyncio.Lock()
        log.on_commit(self._forget, types=ERASURE_TYPES)

    def _forget(self, events: tuple[Event, ...]) -> None:
        self._today.begin_again()  # what is erased is counted by its erasure from now on
        self._sum = DayUsage(day="")

    async def sum(self) -> DayUsage:
        async with self._asking:
            day, midnight, events = await self._today.fresh()
            if day != self._sum.day:
                self._sum = DayUsage(day=day)
            for event in events:
                is_erasure = event.type in ERASURE_TYPES
                self._sum = self._sum.plus_erased(event, midnight) if is_erasure else self._sum.plus(event)
            return self._sum


def today(now: datetime, zone: tzinfo | None = None) -> tuple[str, datetime]:
    """Return the date in `zone` (None: the machine's), and when it began, in UTC."""
    date = now.astimezone(zone).date()
    midnight = datetime.combine(date, time.min)
    # Python takes a time without a zone for one of the machine's.
    return date.isoformat(), (midnight if zone is None else midnight.replace(tzinfo=zone)).astimezone(UTC)


def limits_under(settings: Settings) -> Limits:
    """Return the limits of a new task."""
    budget = settings.budgets.task
    return Limits(
        max_rounds=settings.agent.max_rounds,
        max_tokens=budget.max_tokens,
        max_cost=budget.max_cost,
        deadline_s=budget.deadline_s,
    )


async def balance_of(log: EventLog, account: Account) -> AccountBalance:
    """Return the balance of an account by the log."""
    rows = await log.rows("budgets", where={"scope": account.scope, "key": account.key}, limit=1)
    if not rows:
        return AccountBalance()
    row = rows[0]
    return AccountBalance(
        settled=Spending(cast(int, row["cost"]), cast(int, row["tokens"])),
        raised=Spending(cast(int, row["raised_cost"]), cast(int, row["raised_tokens"])),
    )


class BudgetUse(msgspec.Struct, frozen=True, kw_only=True):
    """A budget and its use. Limits include what was allowed in addition; None means no limit. Money is in 1e-9 USD."""

    scope: Scope
    cost_limit: int | None
    cost_used: int
    tokens_limit: int | None
    tokens_used: int
    on_breach: OnBreach


async def _use_of(log: EventLog, budget: Budget) -> BudgetUse:
    balance = await balance_of(log, budget.account)
    return BudgetUse(
        scope=budget.account.scope,
        cost_limit=None if budget.cost is None else budget.cost + balance.raised.cost,
        cost_used=balance.settled.cost,
        tokens_limit=None if budget.tokens is None else budget.tokens + balance.raised.tokens,
        tokens_used=balance.settled.tokens,
        on_breach=budget.on_breach,
    )


def shared_budgets(settings: BudgetsSettings, session_id: SessionId, project: Path, day: str) -> tuple[Budget, ...]:
    """Return the limited budgets that turns share."""
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
    """The budgets that tasks count against. `settings` returns the current configuration."""

    def __init__(
        self, log: EventLog, times: TaskTimes, settings: Callable[[], BudgetsSettings], project: Path, clock: Clock
    ) -> None:
        self._log = log
        self._times = times
        self._settings = settings
        self._project = project
        self._clock = clock

    async def lineage(self, row: Row) -> list[TaskLimits]:
        """Return a task, then those above it, the nearest first. The use of a task counts for all of them."""
        found: list[TaskLimits] = []
        current: Row | None = row
        while current is not None and len(found) <= MOST_DEPTH:
            parent = current["parent_id"]
            found.append(TaskLimits(task_of(current), limits_of(current), parent is not None))
            current = None if parent is None else await find_task(self._log, str(parent))
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
        """Return the task's time limit, including what was allowed in addition; None if there is none."""
        if task.limits.deadline_s is None:
            return None
        events = await self._log.read_stream(task_stream(task.task_id))
        limit_s = task.limits.deadline_s + sum(raised_ms(event) for event in events) / 1000
        within = partial(self._times.bounded, task.task_id, limit_s)
        return Deadline(limit_s=limit_s, budget=budget_of(*task, self._settings()), within=within)


def budget_of(task_id: TaskId, limits: Limits, is_part: bool, settings: BudgetsSettings) -> Budget:
    """Return the budget of a task with these limits. `is_part`: it was delegated."""
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
    """Return the time that a person allowed with this event."""
    match event.body:
        case BudgetRaised(scope="task", measure="time", amount=amount):
            return amount
        case _:
            return 0


def _budget(account: Account, settings: BudgetSettings) -> Budget:
    return Budget(account=account, cost=settings.max_cost, tokens=settings.max_tokens, on_breach=settings.on_exceeded)


MOST_TURNS = 100


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and money (1e-9 USD). If not `cost_known`, `cost` is a lower bound."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0
    cost_known: bool = True

    @classmethod
    def of_row(cls, row: Row) -> "Spent":
        """From a row of `tasks` or `sessions`."""
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


class TurnCost(msgspec.Struct, frozen=True, kw_only=True):
    """One turn: `title` is the beginning of its message, `models` are the aliases of the models called for it."""

    task_id: str
    title: str
    status: str
    created_at: str
    models: list[str]
    spent: Spent


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """The newest turns of a session, oldest first; `has_earlier`: there are more. `today` counts all sessions of this
    home on `day`, the date where the gateway runs; `budgets` are those that the session shares."""

    turns: list[TurnCost]
    has_earlier: bool
    session: Spent
    today: Spent
    day: str
    budgets: list[BudgetUse]


async def costs_of(
    log: EventLog, usage: TodaysUsage, session: Row, *, budgets: BudgetsSettings, project: Path
) -> Costs:
    """Return the costs of a session, and the use of its budgets."""
    session_id = session_of(session)
    # Delegated tasks count for the task that delegated them.
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
        budgets=[await _use_of(log, each) for each in shared_budgets(budgets, session_id, project, today.day)],
    )
