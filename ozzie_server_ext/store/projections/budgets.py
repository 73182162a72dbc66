"""What each budget has used, and how much a person has raised it."""

from typing import cast

from ozzie_server_ext.domain.budget import Account, Spending
from ozzie_server_ext.domain.events import (
    BudgetRaised,
    Event,
    MessageErased,
    ModelCallCompleted,
    ModelCallFailed,
    SessionErased,
)
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.store.projections.tasks import ancestors
from ozzie_server_ext.store.projections.usage import MODEL_CALLS, has_ended
from ozzie_server_ext.store.tables import Row, Rows, Table, integer, plus, text

BUDGETS = Table(
    "budgets", (*text("scope", "key"), *integer("cost", "tokens", "raised_cost", "raised_tokens")), key=("scope", "key")
)
"""One row for each task, session, project and day in which a model was called; a task includes what it delegated.
`cost` and `tokens` are what calls were settled at: a call without a known price adds nothing to `cost`, an interrupted
one the most it may have used. Money in 1e-9 USD."""

TABLES = (BUDGETS,)

HANDLES = (ModelCallCompleted, ModelCallFailed, BudgetRaised, SessionErased, MessageErased)

COUNTERS = ("cost", "tokens", "raised_cost", "raised_tokens")
"""The columns that only grow."""


def apply(event: Event, rows: Rows) -> None:
    """Fold one event. Runs before the usage fold, to see the call's row as it was: a call ends once."""
    if isinstance(event.body, ModelCallCompleted | ModelCallFailed) and has_ended(rows, event.body.call_id):
        return
    match event.body:
        case ModelCallCompleted() as fact:
            call = _call(rows, fact.call_id)
            _count(event, rows, call, fact.settled(cast("int | None", call["reserved_cost"])))
        case ModelCallFailed() as fact:
            _count(event, rows, _call(rows, fact.call_id), fact.settled)
        case BudgetRaised(scope=scope, key=key, measure=measure, amount=amount):
            if measure == "time":
                return  # a task's own limit, kept in its events
            row = _row(rows, Account(scope, key))
            column = f"raised_{measure}"
            rows.put(BUDGETS, {**row, column: plus(row[column], amount)})
        case SessionErased(remains=remains) | MessageErased(remains=remains):
            for use in remains.budgets:
                row = _row(rows, Account(use.scope, use.key))
                rows.put(BUDGETS, {**row, **{name: plus(row[name], getattr(use, name)) for name in COUNTERS}})
        case _:
            return


def _call(rows: Rows, call_id: CallId) -> Row:
    """Return the call's row, or a stand-in if its start was erased."""
    return rows.get(MODEL_CALLS, (call_id,)) or {"reserved_cost": None, "project": "", "day": ""}


def _count(event: Event, rows: Rows, call: Row, settled: Spending) -> None:
    accounts = (
        Account("task", event.task_id or ""),
        *(Account("task", str(row["task_id"])) for row in ancestors(event.task_id, rows)),
        Account("session", event.session_id or ""),
        Account("project", str(call["project"])),
        Account("day", str(call["day"])),
    )
    for account in accounts:
        if account.key:
            row = _row(rows, account)
            cost, tokens = plus(row["cost"], settled.cost), plus(row["tokens"], settled.tokens)
            rows.put(BUDGETS, {**row, "cost": cost, "tokens": tokens})


def _row(rows: Rows, account: Account) -> Row:
    return rows.get(BUDGETS, tuple(account)) or BUDGETS.row(scope=account.scope, key=account.key)
