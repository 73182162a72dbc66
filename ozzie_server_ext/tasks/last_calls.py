"""How each model's last call ended, and so how it fares. The one place to ask: whatever else tells of it joins here."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.events import INTERRUPTED, Event, ModelCallCompleted, ModelCallFailed
from ozzie_server_ext.render.models import call_end
from ozzie_server_ext.render.text import elapsed
from ozzie_server_ext.store.log import EventLog

LOOKED_AT = 500
"""So many calls are looked at when first asked: a model that none of them was made to was not asked lately."""

_PAGE = 500
_ENDS = frozenset({ModelCallCompleted.type, ModelCallFailed.type})
_SAYS_NOTHING = frozenset({"cancelled", INTERRUPTED})
"""Ends that were not the model's doing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCall:
    """How a model's newest call ended: `code` as in `model.call.failed`, empty where it answered; `finish` how the
    answer ended."""

    ended_at: str
    code: str = ""
    finish: str = ""


class LastCalls:
    """Follows the ends of calls, of the log what is new since it was asked last. `cooling_s` tells for how many seconds
    a provider is asked only after others."""

    def __init__(
        self, log: EventLog, clock: Clock, *, cooling_s: Callable[[str], float] = lambda provider: 0.0
    ) -> None:
        self._log = log
        self._clock = clock
        self._cooling_s = cooling_s
        self._last: dict[tuple[str, str], LastCall] = {}
        self._position: int | None = None
        self._asking = asyncio.Lock()

    async def refresh(self) -> None:
        """Look what has happened since; the rest tells of what was seen here."""
        async with self._asking:
            if self._position is None:
                newest = await self._log.read(types=_ENDS, newest_first=True, limit=LOOKED_AT)
                await self._take(newest[::-1])
                self._position = newest[0].position if newest else 0
            while page := await self._log.read(after=self._position, types=_ENDS, limit=_PAGE):
                await self._take(page)
                self._position = page[-1].position

    def last_call(self, provider: str, model: str) -> LastCall | None:
        """None where it was not asked lately."""
        return self._last.get((provider, model))

    def in_words(self, provider: str, model: str) -> str:
        """ "answered 3 min ago", "was busy just now, spared for 25 s"; empty where nothing is known."""
        last = self.last_call(provider, model)
        if last is None:
            return ""
        ago = self._clock.now() - datetime.fromisoformat(last.ended_at)
        said = call_end(last.code, last.finish, ago.total_seconds())
        cooling = self._cooling_s(provider)
        return f"{said}, spared for {elapsed(cooling)}" if cooling >= 1 else said

    async def _take(self, ends: Sequence[Event]) -> None:
        """Remember these ends, the oldest first."""
        ids = [event.body.call_id for event in ends if isinstance(event.body, ModelCallCompleted | ModelCallFailed)]
        rows = {row["call_id"]: row for row in await self._log.rows("model_calls", where={"call_id": list(ids)})}
        for row in filter(None, map(rows.get, ids)):
            code = str(row["error_code"])
            if code not in _SAYS_NOTHING:
                ended = LastCall(ended_at=str(row["ended_at"]), code=code, finish=str(row["finish"]))
                self._last[str(row["provider"]), str(row["model"])] = ended
