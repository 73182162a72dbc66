"""What turns, a session and a day have cost, as far as prices are known (MD-7)."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ozzie_server_ext.config.settings import BudgetsSettings
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.allowances import BudgetUse, shared_budgets, uses_of
from ozzie_server_ext.tasks.today import DayUsage, TodaysUsage

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
