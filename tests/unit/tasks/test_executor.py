"""Where attempts are carried out: at once where nothing is waited for, and yet everybody else has a turn."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ozzie_server_ext.domain.content import CLEAN
from ozzie_server_ext.domain.steps import StepRecord
from ozzie_server_ext.skills.spec import Step
from ozzie_server_ext.tasks.workflows import executor
from ozzie_server_ext.tasks.workflows.executor import Attempt, InProcess, Outcome, Pace, Succeeded


def attempt(step_id: str, *, at_once: bool = True) -> Attempt:
    return Attempt(work=Step(id=step_id), record=StepRecord(step_id=step_id), at_once=at_once)


class Bench:
    """An executor whose attempts do what a test says: `waits` holds what some of them wait for."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.tasks: list[bool] = []
        self.waits: dict[str, Callable[[], Awaitable[object]]] = {}
        self.executor = InProcess(self._carry_out, Pace())

    async def _carry_out(self, attempt: Attempt) -> Outcome:
        self.began.append(attempt.work.id)
        if wait := self.waits.get(attempt.work.id):
            await wait()
        return Succeeded(value=attempt.work.id, content=CLEAN)

    def submit(self, *step_ids: str, at_once: bool = True) -> None:
        for step_id in step_ids:
            self.executor.submit(attempt(step_id, at_once=at_once))

    async def next(self) -> list[str]:
        return [attempt.work.id for attempt, _ in await self.executor.next()]


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_what_is_made_at_once_is_made_in_order_and_told_together(bench: Bench) -> None:
    bench.submit("a", "b", "c")

    assert await bench.next() == ["a", "b", "c"]
    assert bench.began == ["a", "b", "c"]


async def test_one_that_waits_holds_up_no_other(bench: Bench) -> None:
    go_on = asyncio.Event()
    bench.waits["slow"] = go_on.wait
    bench.submit("slow", "quick")

    assert await bench.next() == ["quick"]
    go_on.set()
    assert await bench.next() == ["slow"]


async def test_what_ended_meanwhile_is_told_with_what_was_made(bench: Bench) -> None:
    bench.submit("task", at_once=False)
    bench.waits["after"] = lambda: asyncio.sleep(0)
    bench.submit("after")
    assert sorted(await bench.next() + await bench.next()) == ["after", "task"]


async def test_it_can_be_woken_where_nothing_has_ended(bench: Bench) -> None:
    bench.waits["slow"] = asyncio.Event().wait
    bench.submit("slow")
    waiting = asyncio.create_task(bench.next())
    await asyncio.sleep(0)

    bench.executor.wake()

    assert await waiting == []
    await bench.executor.close()


async def test_what_an_attempt_raises_that_it_should_not_have_is_raised(bench: Bench) -> None:
    async def broken() -> None:
        raise LookupError

    bench.waits["made"] = broken
    bench.submit("made")
    with pytest.raises(LookupError):
        await bench.next()

    bench.waits["later"] = broken
    bench.submit("later", at_once=False)
    with pytest.raises(LookupError):
        await bench.next()


async def test_once_it_is_closed_nothing_runs_and_nothing_begins(bench: Bench) -> None:
    stopped: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("stopped")

    bench.waits["slow"] = wait
    bench.submit("slow", "quick")
    await bench.next()
    bench.submit("never")

    await bench.executor.close()

    assert stopped == ["stopped"]
    assert bench.began == ["slow", "quick"]


class Loop:
    """How often the loop turned."""

    def __init__(self) -> None:
        self.turns = 0
        self._counting = asyncio.create_task(self._count())

    async def _count(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)

    def stop(self) -> None:
        self._counting.cancel()


async def test_many_together_let_the_loop_turn(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """With slices of no length, each attempt is one: the others have a turn before each."""
    monkeypatch.setattr(executor, "SLICE_S", 0.0)
    loop = Loop()
    bench.submit(*[f"s{number}" for number in range(20)])

    assert len(await bench.next()) == 20
    assert loop.turns >= 20
    loop.stop()


async def test_within_a_slice_the_loop_does_not_turn(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "SLICE_S", 3600.0)
    bench.submit("first")
    await bench.next()
    loop = Loop()
    bench.submit(*[f"s{number}" for number in range(20)])

    assert len(await bench.next()) == 20
    assert loop.turns == 0
    loop.stop()


async def test_those_who_wait_go_on_in_the_order_in_which_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "SLICE_S", 0.0)
    shared, order = Pace(), list[str]()

    async def run(name: str) -> None:
        for _ in range(3):
            await shared.keep()
            order.append(name)

    await asyncio.gather(run("a"), run("b"), run("c"))

    assert order == ["a", "b", "c"] * 3


async def test_one_that_gave_up_waiting_keeps_nobody_from_going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "SLICE_S", 0.0)
    shared = Pace()
    gave_up, goes_on = asyncio.create_task(shared.keep()), asyncio.create_task(shared.keep())
    asyncio.get_running_loop().call_soon(gave_up.cancel)

    await goes_on

    with pytest.raises(asyncio.CancelledError):
        await gave_up
