"""`usage`: tokens and money, summed up by session, day and model (OB-4)."""

import asyncio
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, TypeAlias, cast

from msgspec import Meta

from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.shapes import Limit, NumberCursor, SessionId, Usage, UsageSums
from ozzie_server_ext.store.tables import Row

Day: TypeAlias = Annotated[
    str,
    Meta(pattern=r"^\d{4}-\d{2}-\d{2}$", title="a day such as 2026-01-31", description="A day in UTC, as YYYY-MM-DD."),
]

_GROUPS = {"session": ("session_id",), "day": ("day",), "model": ("alias", "provider", "model")}
_COUNTERS = ("calls", "failed_calls", "unknown_price_calls", "input_tokens", "output_tokens", "cached_tokens", "cost")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuery:
    """`by`: what the sums are grouped by; it may stand several times. `since` and `until` are the first and the last
    day that count."""

    by: tuple[Literal["session", "day", "model"], ...] = ()
    session_id: SessionId | None = None
    since: Day | None = None
    until: Day | None = None
    limit: Limit = 100
    cursor: NumberCursor | None = None


async def sum_usage(call: Call, asked: UsageQuery) -> UsageSums:
    """What models used: calls, tokens and cost of each group, the latest day first, and of all together. A call counts
    on the day on which it ended."""
    where = {"session_id": asked.session_id} if asked.session_id else None
    rows = await call.ozzie.log.rows("usage", where=where)
    # There may be a row for each session, model and day of years.
    return await asyncio.to_thread(_sums, rows, asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class TodayQuery:
    """Nothing."""


async def sum_today(call: Call, asked: TodayQuery) -> Usage:
    """What models have used since the last midnight where the gateway runs, all sessions together; `day` is the day
    there."""
    sums = asdict(await call.ozzie.today.sum())
    return usage_of({"day": sums.pop("day")}, sums)


def _sums(rows: Iterable[Row], asked: UsageQuery) -> UsageSums:
    columns = [column for group in _GROUPS if group in asked.by for column in _GROUPS[group]]
    groups: dict[tuple[Any, ...], dict[str, int]] = {}
    total: dict[str, int] = dict.fromkeys(_COUNTERS, 0)
    for row in rows:
        if not (asked.since or "") <= str(row["day"]) <= (asked.until or "9999"):
            continue
        sums = groups.setdefault(tuple(row[column] for column in columns), dict.fromkeys(_COUNTERS, 0))
        for name in _COUNTERS:
            value = cast(int, row[name])
            sums[name] += value
            total[name] += value
    ordered = sorted(groups, key=lambda key: key[columns.index("day")] if "day" in columns else "", reverse=True)
    start = int(asked.cursor or 0)
    shown = ordered[start : start + asked.limit] if columns else []
    end = start + len(shown)
    return UsageSums(
        items=[usage_of(dict(zip(columns, key, strict=True)), groups[key]) for key in shown],
        next=str(end) if columns and end < len(ordered) else None,
        total=usage_of({}, total),
    )


def usage_of(group: dict[str, Any], sums: dict[str, int]) -> Usage:
    """Sums as they are answered; `group` is what they are of."""
    cost = sums["cost"]
    return Usage(
        session_id=group.get("session_id") or None,
        day=group.get("day"),
        alias=group.get("alias"),
        provider=group.get("provider"),
        model=group.get("model"),
        **{name: value for name, value in sums.items() if name != "cost"},
        cost=None if sums["unknown_price_calls"] else cost,
        known_cost=cost,
    )
