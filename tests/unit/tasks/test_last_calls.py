"""How models fare, by their calls."""

import pytest

from ozzie_server_ext.domain.events import INTERRUPTED
from ozzie_server_ext.tasks import models
from ozzie_server_ext.tasks.models import LastModelCalls
from tests.unit.tasks.calls import Calls


async def words(last: LastModelCalls, provider: str, model: str = "m") -> str:
    await last.refresh()
    return last.in_words(provider, model)


async def test_the_last_call_that_ended_tells_how_a_model_fares() -> None:
    calls = Calls()
    last = LastModelCalls(calls.log, calls.clock)

    before = await words(last, "a")
    await calls.failed("a", "provider.auth")
    calls.clock.advance(120)
    refused = await words(last, "a")
    await calls.answered("a")
    answered = await words(last, "a")
    await calls.begin("a")

    assert (before, refused, answered) == ("", "refused the key 2 min ago", "answered just now")
    assert await words(last, "a") == answered, "A call that runs says nothing yet."


async def test_each_model_fares_for_itself() -> None:
    calls = Calls()
    last = LastModelCalls(calls.log, calls.clock)
    await calls.answered("a")
    await calls.failed("b", "provider.unreachable")
    await calls.failed("a", "provider.not_found", "other")

    assert await words(last, "a") == "answered just now"
    assert await words(last, "b") == "was not reachable just now"
    assert await words(last, "a", "other") == "knew no such model just now"
    assert await words(last, "c") == ""


@pytest.mark.parametrize("code", ["cancelled", INTERRUPTED])
async def test_a_call_that_was_stopped_here_says_nothing_of_its_model(code: str) -> None:
    calls = Calls()
    last = LastModelCalls(calls.log, calls.clock)
    await calls.failed("a", "provider.auth")
    await calls.failed("a", code)

    assert await words(last, "a") == "refused the key just now"


async def test_calls_that_end_in_another_order_than_they_began_count_by_their_end() -> None:
    calls = Calls()
    first = await calls.begin("a")
    await calls.failed("a", "provider.server")
    await calls.answered("a", call=first)

    assert await words(LastModelCalls(calls.log, calls.clock), "a") == "answered just now"


async def test_a_restart_finds_how_models_fared_before_it_and_no_more_than_it_looks_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(models, "LOOKED_AT", 3)
    calls = Calls()
    await calls.answered("old")
    await calls.failed("a", "provider.quota")
    for _ in range(2):
        await calls.answered("b")
    last = LastModelCalls(calls.log, calls.clock)

    assert await words(last, "a") == "had nothing left to spend just now"
    assert await words(last, "b") == "answered just now"
    assert await words(last, "old") == ""


async def test_whatever_happened_between_two_looks_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_PAGE", 2)
    calls = Calls()
    last = LastModelCalls(calls.log, calls.clock)
    await last.refresh()
    for number in range(5):
        await calls.answered(f"p{number}")

    await last.refresh()

    assert [last.last_call(f"p{number}", "m") is not None for number in range(5)] == [True] * 5


async def test_one_that_is_asked_only_after_others_says_for_how_long() -> None:
    calls = Calls()
    cooling = {"a": 25.4, "b": 0.3}
    last = LastModelCalls(calls.log, calls.clock, cooling_s=lambda provider: cooling[provider])
    await calls.failed("a", "provider.rate_limited")
    await calls.failed("b", "provider.rate_limited")

    assert await words(last, "a") == "was busy just now, spared for 25 s"
    assert await words(last, "b") == "was busy just now"
