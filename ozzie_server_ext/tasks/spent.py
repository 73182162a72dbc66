"""Decides by rules that may limit what a day costs: what the calls of today have spent, by currency, from the log
(docs/policy.md).

A call counts from its start on, under whichever rule or yes it ran, in all sessions and projects of the home; one that
failed or was cancelled did nothing, and does not. What is erased no longer counts.
"""

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import tzinfo
from decimal import Decimal
from itertools import chain

from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.events import ToolCallCancelled, ToolCallFailed, ToolCallStarted
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import ToolMeta
from ozzie_server_ext.policy.decision import Caller, Reading, Spent
from ozzie_server_ext.policy.engine import FixedRulings, Ruling
from ozzie_server_ext.policy.files import Policy
from ozzie_server_ext.policy.targets import amount_in
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.budgets import EventsOfToday

TYPES = frozenset({ToolCallStarted.type, ToolCallFailed.type, ToolCallCancelled.type})


class SpentToday:
    """Updated from the log on each request. `zone` None means the machine's."""

    def __init__(self, log: EventLog, clock: Clock, zone: tzinfo | None = None) -> None:
        self._today = EventsOfToday(log, clock, TYPES, zone)
        self._calls: dict[CallId, tuple[str, ...]] = {}
        self._day = ""
        self._asking = asyncio.Lock()
        self._deciding = asyncio.Lock()

    async def ruling(
        self, policy: Policy, meta: ToolMeta, args: JsonObject, caller: Caller, reading: Reading
    ) -> Ruling:
        """Return the ruling on a call, by rules that may limit what is spent on a day."""
        spent = await self.before(meta, args) if meta.has_amounts else {}
        return await FixedRulings(policy.rules, policy.version, spent).of(meta, args, caller, reading)

    def deciding(self, meta: ToolMeta) -> AbstractAsyncContextManager[object]:
        """Hold back other calls with an amount until the start of this one is recorded: of two at once, each would
        leave the other out."""
        return self._deciding if meta.has_amounts else nullcontext()

    async def before(self, meta: ToolMeta, args: JsonObject) -> Spent:
        """Return what was spent today before a call that has not started."""
        async with self._asking:
            day, _, events = await self._today.fresh()
            if day != self._day:
                self._day, self._calls = day, {}
            for event in events:
                match event.body:
                    case ToolCallStarted(call_id=call_id, amounts=amounts) if amounts:
                        self._calls[call_id] = amounts
                    case ToolCallFailed(call_id=call_id) | ToolCallCancelled(call_id=call_id):
                        self._calls.pop(call_id, None)
                    case _:
                        pass
        return spent_of(chain.from_iterable(self._calls.values()))


def spent_of(amounts: Iterable[str]) -> Spent:
    """Return the sum of recorded amounts, such as "50.00 EUR"."""
    sums: dict[str, Decimal] = {}
    for amount in map(amount_in, amounts):
        sums[amount.currency] = sums.get(amount.currency, Decimal()) + amount.value
    return sums
