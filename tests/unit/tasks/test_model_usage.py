"""What one model has used."""

from zoneinfo import ZoneInfo

import pytest

from ozzie_server_ext.tasks import models
from ozzie_server_ext.tasks.budgets import DayUsage
from ozzie_server_ext.tasks.models import usage_of_model
from tests.unit.tasks.calls import Calls

LOS_ANGELES = ZoneInfo("America/Los_Angeles")


async def test_its_own_calls_count_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_PAGE", 2)
    calls = Calls("2026-02-28T07:00:00")
    await calls.answered("a", cost=1)  # yesterday there
    calls.go_to("2026-02-28T09:00:00")
    await calls.answered("a", cost=2)
    await calls.answered("b", cost=100)
    await calls.answered("a", "other", cost=100)
    await calls.failed("a", "provider.server")
    calls.go_to("2026-03-01T01:00:00")  # tomorrow in UTC
    await calls.answered("a", cost=None)

    used = await usage_of_model(calls.log, calls.clock, "a", "m", zone=LOS_ANGELES)

    assert used.today == DayUsage(
        day="2026-02-28",
        calls=3,
        failed_calls=1,
        unknown_price_calls=1,
        input_tokens=200,
        output_tokens=20,
        cached_tokens=2,
        cost=2,
    )
    assert (used.total.day, used.total.calls, used.total.failed_calls, used.total.cost) == ("", 4, 1, 3)


async def test_one_that_was_never_asked_has_used_nothing() -> None:
    calls = Calls()
    await calls.answered("b")

    used = await usage_of_model(calls.log, calls.clock, "a", "m")

    assert used.today == DayUsage(day=used.today.day)
    assert used.total == DayUsage(day="")
