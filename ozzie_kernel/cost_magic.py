"""`%cost`: what each turn of this session has used, and the sums of session and day."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ozzie_kernel.magic import Host, Magic, Usage
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import JsonObject, objects
from ozzie_server_ext.render.page import Block, Table, paragraph
from ozzie_server_ext.render.text import amount_of_money, money

_STATES = {"SUCCEEDED": "", "FAILED": "failed", "CANCELLED": "stopped", "RUNNING": "running", "QUEUED": "queued"}


async def _cost(argument: str, host: Host) -> Sequence[Block]:
    if argument:
        raise InputError("%cost takes nothing behind it.", hint="Run `%cost` alone.", code="magic.usage")
    return cost_page(await host.ask("session.costs"))


def cost_page(costs: JsonObject) -> list[Block]:
    """A table of the turns with the sums below. A price that nobody knows is never shown as nothing."""
    turns = objects(costs["turns"])
    session, today = _spent(costs["session"]), _spent(costs["today"])
    rows = [_row(_time(turn["created_at"]), str(turn["title"]), _how(turn), _spent(turn["spent"])) for turn in turns]
    rows.append(_row("", "This session", "", session))
    rows.append(_row("", "All sessions today", "", today))
    table = Table(
        heads=("Time", "Message", "Model", "In", "Out", "Cost"),
        rows=rows,
        right=frozenset({3, 4, 5}),
        flexible=frozenset({1, 2}),
    )
    page: list[Block] = [table]
    if not turns:
        page.insert(0, paragraph("There is no turn in this session yet."))
    if costs["has_earlier"]:
        page.append(paragraph("Earlier turns are left out here; they are in the sum."))
    page += [paragraph(_budget_line(budget)) for budget in objects(costs["budgets"])]
    if not (session["cost_known"] and today["cost_known"]):
        page.append(paragraph("Where a price is unknown, the model's provider did not tell one; tokens are counted."))
    return page


_WHOSE = {"session": "This session", "project": "This project", "day": "All sessions today"}
_THEN = {"ask": "then Ozzie asks", "degrade": 'then "cheap" goes on', "stop": "then turns stop"}


def _budget_line(budget: JsonObject) -> str:
    """ "Budget: This session has used $0.43 of $5.00 and 1,200 of 50,000 tokens; then Ozzie asks." """
    parts: list[str] = []
    if budget["cost_limit"] is not None:
        parts.append(f"{money(_whole(budget['cost_used']))} of {amount_of_money(_whole(budget['cost_limit']))}")
    if budget["tokens_limit"] is not None:
        parts.append(f"{_whole(budget['tokens_used']):,} of {_whole(budget['tokens_limit']):,} tokens")
    whose, then = _WHOSE[str(budget["scope"])], _THEN[str(budget["on_breach"])]
    return f"Budget: {whose} used {' and '.join(parts)}; {then}."


def _whole(value: Any) -> int:
    return int(value)


def _row(time: str, title: str, how: str, spent: Mapping[str, Any]) -> tuple[str, ...]:
    return time, title, how, f"{spent['input_tokens']:,}", f"{spent['output_tokens']:,}", _money(spent)


def _how(turn: JsonObject) -> str:
    models = turn["models"] if isinstance(turn["models"], list) else []
    state = _STATES.get(str(turn["status"]), "waiting")
    return ", ".join(part for part in (*map(str, models), state) if part)


def _money(spent: Mapping[str, Any]) -> str:
    if spent["cost_known"]:
        return money(spent["cost"])
    return f"{money(spent['cost'])} + unknown" if spent["cost"] else "unknown"


def _spent(value: Any) -> dict[str, Any]:
    return {"input_tokens": 0, "output_tokens": 0, "cost": 0, "cost_known": True, **value}


def _time(text: Any) -> str:
    return datetime.fromisoformat(str(text)).astimezone().strftime("%H:%M")


MAGIC = Magic(
    name="cost",
    usage=Usage("%cost", "Shows what the turns of this session have used and cost"),
    run=_cost,
)
