"""What was spent today: what calls began to spend since midnight and did not fail at, in whichever session."""

import asyncio
from typing import Any

from ozzie_server_ext.domain.events import (
    EventBody,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.toolmeta import Target, TargetKind
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.spent import SpentToday
from tests.replay.histories import draft
from tests.unit.policy.rig import READ, meta
from tests.unit.tasks.test_today import LOS_ANGELES, at

PAY = meta("bank.pay", targets=(Target("amount", TargetKind.AMOUNT, currency="EUR"),))


class Till:
    def __init__(self, start: str = "2026-03-02T08:00:00") -> None:
        self.clock = FakeClock(at(start))
        self.log = InMemoryEventLog(self.clock, CountingIds())

    def again(self) -> SpentToday:
        return SpentToday(self.log, self.clock, LOS_ANGELES)

    async def record(self, *bodies: EventBody, task: str = "t") -> None:
        for body in bodies:
            await self.log.append(f"task:{task}", [draft(body)])


def starts(call: str, *amounts: str) -> ToolCallStarted:
    return ToolCallStarted(call_id=CallId(call), amounts=amounts)


def fails(call: str) -> ToolCallFailed:
    return ToolCallFailed(call_id=CallId(call), code="tool.failed", message="No.", duration_ms=1.0)


async def sums(spent: SpentToday) -> dict[str, Any]:
    return {currency: str(value) for currency, value in (await spent.before(PAY, {})).items()}


async def test_calls_of_all_tasks_count_by_currency_from_their_start_on() -> None:
    till = Till()
    spent = till.again()
    assert await sums(spent) == {}

    await till.record(starts("a", "50.00 EUR"), starts("b"))
    await till.record(starts("c", "0.10 EUR", "20.00 USD"), task="another")
    done = ToolCallCompleted(call_id=CallId("a"), ok=True, data=None, summary="", duration_ms=1.0)
    await till.record(done, ToolCallUncertain(call_id=CallId("c"), reason="Cut off."))

    assert await sums(spent) == await sums(till.again()) == {"EUR": "50.1", "USD": "20"}


async def test_what_had_no_effect_does_not_and_a_call_that_is_made_again_counts_once() -> None:
    till = Till()
    spent = till.again()
    await till.record(starts("a", "50.00 EUR"), starts("b", "7.00 EUR"), starts("c", "1.00 EUR"))
    assert await sums(spent) == {"EUR": "58"}

    await till.record(fails("a"), ToolCallCancelled(call_id=CallId("b"), reason="Stopped."), starts("c", "1.00 EUR"))

    assert await sums(spent) == await sums(till.again()) == {"EUR": "1"}


async def test_a_new_day_begins_at_midnight_where_the_machine_is() -> None:
    till = Till("2026-03-02T07:00:00")  # 23 o'clock there
    spent = till.again()
    await till.record(starts("a", "50.00 EUR"))
    assert await sums(spent) == {"EUR": "50"}
    till.clock.advance(3600)
    assert await sums(spent) == {}

    await till.record(starts("b", "2.00 EUR"), fails("a"))

    assert await sums(spent) == await sums(till.again()) == {"EUR": "2"}


async def test_of_two_calls_with_amounts_one_is_decided_after_the_other_has_started() -> None:
    spent = Till().again()
    order: list[str] = []

    async def decide(name: str) -> None:
        async with spent.deciding(PAY):
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} has started")

    await asyncio.gather(decide("a"), decide("b"))
    async with spent.deciding(PAY), spent.deciding(READ):  # what has no amount waits for nobody
        pass

    assert order == ["a begins", "a has started", "b begins", "b has started"]
