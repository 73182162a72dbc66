"""Today is the day on the wall of the machine, whatever day it is in UTC."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.events import EventBody, ModelCallCompleted, ModelCallFailed, SessionErased
from ozzie_server_ext.domain.ids import BlobRef, CallId
from ozzie_server_ext.domain.remains import ModelUse, Remains
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks import budgets as summing
from ozzie_server_ext.tasks.budgets import DayUsage, TodaysUsage, today
from ozzie_server_ext.tasks.models import usage_of_model
from tests.replay.histories import draft

BLOB = BlobRef("sha256:" + "0" * 64)
LOS_ANGELES, KOLKATA, BERLIN = ZoneInfo("America/Los_Angeles"), ZoneInfo("Asia/Kolkata"), ZoneInfo("Europe/Berlin")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class Day:
    """A log that calls of models end in at chosen times."""

    def __init__(self, start: str) -> None:
        self.clock = FakeClock(at(start))
        self.ids = CountingIds()
        self.log = InMemoryEventLog(self.clock, self.ids)

    def go_to(self, text: str) -> None:
        self.clock.advance((at(text) - self.clock.now()).total_seconds())

    async def ends(self, text: str, cost: int | None = 1) -> None:
        self.go_to(text)
        await self.record(
            ModelCallCompleted(
                call_id=CallId(self.ids.new()),
                response_blob=BLOB,
                finish="stop",
                tool_uses=(),
                usage=Usage(input_tokens=100, output_tokens=10, cached_tokens=1),
                cost=cost,
                latency_ms=1.0,
                ttft_ms=None,
            )
        )

    async def fails(self, text: str, *, latency_ms: float | None) -> None:
        self.go_to(text)
        await self.record(ModelCallFailed(call_id=CallId(self.ids.new()), code="x", message="x", latency_ms=latency_ms))

    async def record(self, body: EventBody) -> None:
        await self.log.append("task:t", [draft(body)])


@pytest.mark.parametrize(
    ("now", "zone", "day", "began"),
    [
        ("2026-03-01T00:00:00", UTC, "2026-03-01", "2026-03-01T00:00:00"),
        ("2026-02-28T23:59:59", UTC, "2026-02-28", "2026-02-28T00:00:00"),
        ("2026-03-01T07:59:59", LOS_ANGELES, "2026-02-28", "2026-02-28T08:00:00"),
        ("2026-03-01T08:00:00", LOS_ANGELES, "2026-03-01", "2026-03-01T08:00:00"),
        ("2026-02-28T18:29:59", KOLKATA, "2026-02-28", "2026-02-27T18:30:00"),
        ("2026-02-28T18:30:00", KOLKATA, "2026-03-01", "2026-02-28T18:30:00"),
        # Days of 23 and of 25 hours.
        ("2026-03-29T21:59:59", BERLIN, "2026-03-29", "2026-03-28T23:00:00"),
        ("2026-03-29T22:00:00", BERLIN, "2026-03-30", "2026-03-29T22:00:00"),
        ("2026-10-25T22:59:59", BERLIN, "2026-10-25", "2026-10-24T22:00:00"),
        ("2026-10-25T23:00:00", BERLIN, "2026-10-26", "2026-10-25T23:00:00"),
    ],
)
def test_a_day_begins_at_midnight_where_the_machine_is(now: str, zone: ZoneInfo, day: str, began: str) -> None:
    assert today(at(now), zone) == (day, at(began))


def test_without_a_zone_it_is_the_machines() -> None:
    now = datetime.now(UTC)
    day, began = today(now)

    assert day == now.astimezone().date().isoformat()
    assert began.astimezone().time().isoformat() == "00:00:00"
    assert timedelta(0) <= now - began < timedelta(hours=26)


async def test_only_what_ended_since_midnight_there_counts() -> None:
    day = Day("2026-02-28T00:00:00")
    usage = TodaysUsage(day.log, day.clock, LOS_ANGELES)
    await day.ends("2026-02-28T07:59:59", 1)  # yesterday there
    await day.ends("2026-02-28T08:00:00", 2)
    await day.ends("2026-02-28T23:59:59", 4)
    before = await usage.sum()
    await day.ends("2026-03-01T00:00:00", 8)  # tomorrow in UTC
    await day.ends("2026-03-01T07:59:59", 16)
    after = await usage.sum()
    day.go_to("2026-03-01T08:00:00")
    none = await usage.sum()
    await day.ends("2026-03-01T08:00:00", 32)

    assert (before.day, before.cost, before.calls) == ("2026-02-28", 6, 2)
    assert (after.day, after.cost, after.input_tokens) == ("2026-02-28", 30, 400)
    assert none == DayUsage(day="2026-03-01")
    assert (await usage.sum()).cost == 32
    assert (await TodaysUsage(day.log, day.clock, LOS_ANGELES).sum()).cost == 32
    assert (await TodaysUsage(day.log, day.clock, UTC).sum()).cost == 56


async def test_calls_are_counted_as_the_table_of_usage_counts_them() -> None:
    day = Day("2026-02-28T00:00:00")
    await day.ends("2026-02-28T01:00:00", None)
    await day.ends("2026-02-28T02:00:00", 5)
    await day.fails("2026-02-28T03:00:00", latency_ms=3)
    await day.fails("2026-02-28T04:00:00", latency_ms=None)

    found = await TodaysUsage(day.log, day.clock, UTC).sum()

    (row,) = await day.log.rows("usage")
    assert {name: row[name] for name in DayUsage.__struct_fields__} == {
        name: getattr(found, name) for name in DayUsage.__struct_fields__
    }


@pytest.mark.parametrize("others", [0, 1, 2, 3, 9])
async def test_it_is_found_behind_any_number_of_earlier_ones(monkeypatch: pytest.MonkeyPatch, others: int) -> None:
    monkeypatch.setattr(summing, "_PAGE", 2)
    day = Day("2026-02-27T00:00:00")
    for _ in range(others):
        await day.ends("2026-02-27T01:00:00", 100)
    for number in range(5):
        await day.ends("2026-02-28T01:00:00", 1)
        assert (await TodaysUsage(day.log, day.clock, UTC).sum()).cost == number + 1


@pytest.mark.parametrize("when", ["it was summed up before", "it was not"])
async def test_what_was_used_in_an_erased_session_stays_used(when: str) -> None:
    """Its calls are gone from the log, and the fact of the erasure says what they used."""
    day = Day("2026-02-28T00:00:00")
    usage = TodaysUsage(day.log, day.clock, UTC)
    await day.ends("2026-02-28T01:00:00", 5)
    if when == "it was summed up before":
        assert (await usage.sum()).cost == 5
    del day.log.bodies[1]
    uses = [
        ModelUse(session_id="s", alias="a", provider="p", model="m", day=of, calls=1, input_tokens=100, cost=cost)
        for of, cost in (("2026-02-28", 5), ("2026-02-27", 50))
    ]
    await day.record(SessionErased(by="ana", remains=Remains(usage=tuple(uses))))
    await day.ends("2026-02-28T02:00:00", 1)

    found = await usage.sum()

    assert (found.calls, found.input_tokens, found.cost) == (2, 200, 6)
    of_model = await usage_of_model(day.log, day.clock, "p", "m", zone=UTC)
    assert (of_model.today.calls, of_model.today.cost) == (1, 5)
