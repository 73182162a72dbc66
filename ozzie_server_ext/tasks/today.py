"""What models have used today: since the last midnight of the machine that Ozzie runs on.

The tables count by days in UTC, so that they can be made again from the log on any machine. For a person in another
zone such a day ends in the middle of theirs.
"""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, tzinfo

from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.events import Event, ModelCallCompleted, ModelCallFailed
from ozzie_server_ext.store.log import EventLog

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
