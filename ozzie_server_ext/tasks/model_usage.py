"""What one model has used: today, as `TodaysUsage` counts days, and in all."""

from dataclasses import dataclass
from datetime import tzinfo
from typing import cast

from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.events import ModelCallCompleted, ModelCallFailed
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.today import DayUsage, today

_PAGE = 500
_ENDS = frozenset({ModelCallCompleted.type, ModelCallFailed.type})
_COUNTERS = tuple(name for name in DayUsage.__slots__ if name != "day")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """`total` is of no day: its `day` is empty."""

    today: DayUsage
    total: DayUsage


async def usage_of_model(
    log: EventLog, clock: Clock, provider: str, model: str, *, zone: tzinfo | None = None
) -> ModelUsage:
    """By whatever alias the model was asked. `zone` is the machine's where it is None."""
    rows = await log.rows("usage", where={"provider": provider, "model": model})
    total = {name: sum(cast(int, row[name]) for row in rows) for name in _COUNTERS}
    day, midnight = today(clock.now(), zone)
    found, position = DayUsage(day=day), 0
    while page := await log.read(after=position, types=_ENDS, since=midnight, limit=_PAGE):
        ends = [event for event in page if isinstance(event.body, ModelCallCompleted | ModelCallFailed)]
        ids = [cast("ModelCallCompleted | ModelCallFailed", event.body).call_id for event in ends]
        calls = await log.rows("model_calls", where={"call_id": list(ids), "provider": provider, "model": model})
        own = {call["call_id"] for call in calls}
        for event, call_id in zip(ends, ids, strict=True):
            if call_id in own:
                found = found.plus(event)
        position = page[-1].position
    return ModelUsage(today=found, total=DayUsage(day="", **total))
