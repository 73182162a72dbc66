"""Approvals whose time is up are noticed while a gateway runs, whatever goes wrong meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from ozzie_server_ext.domain.events import ApprovalExpired, Event
from ozzie_server_ext.domain.ids import ApprovalId
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks import approvals as module
from ozzie_server_ext.tasks.approvals import Expiry
from tests.unit.tasks.asked import ANA, Waiting

WAIT_S = 10


class Log(InMemoryEventLog):
    """Fails as often as it is told to where approvals are looked for; `looked` counts how often they were."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock, CountingIds())
        self.fails = 0
        self.looked = asyncio.Semaphore(0)

    async def rows(self, table: str, **how: Any) -> Any:
        if table == "approvals" and "status" in (how.get("where") or {}):
            self.looked.release()
            if self.fails:
                self.fails -= 1
                raise OSError("the disk is gone")
        return await super().rows(table, **how)


class Running(Waiting):
    """`over` has those that were recorded as expired, in their order."""

    def __init__(self) -> None:
        clock = FakeClock()
        self.memory = Log(clock)
        super().__init__(self.memory, clock)
        self.over: asyncio.Queue[ApprovalId] = asyncio.Queue()
        self.expiry = Expiry(self.log, self.approvals)
        self.log.on_commit(self._follow)

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event.body, ApprovalExpired):
                self.over.put_nowait(event.body.approval_id)

    async def looks(self) -> None:
        """Return once it has looked at least once more."""
        while not self.memory.looked.locked():
            await self.memory.looked.acquire()
        await asyncio.wait_for(self.memory.looked.acquire(), WAIT_S)


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    rig = Running()
    yield rig
    rig.expiry.stop()


async def test_what_nobody_answers_in_time_expires(rig: Running) -> None:
    rig.expiry.start()
    await rig.looks()  # there is none, so it waits for one
    _, later = await rig.one(expires_s=120)
    _, sooner = await rig.one(expires_s=60)

    rig.clock.advance(60)
    assert await asyncio.wait_for(rig.over.get(), WAIT_S) == sooner
    rig.clock.advance(60)
    assert await asyncio.wait_for(rig.over.get(), WAIT_S) == later


async def test_what_was_over_before_the_start_expires_at_it(rig: Running) -> None:
    _, approval_id = await rig.one(expires_s=60)
    rig.clock.advance(3600)

    rig.expiry.start()

    assert await asyncio.wait_for(rig.over.get(), WAIT_S) == approval_id


async def test_what_was_answered_does_not(rig: Running) -> None:
    rig.expiry.start()
    _, answered = await rig.one(expires_s=60)
    _, other = await rig.one(expires_s=90)
    await rig.approvals.approve(answered, ANA)

    rig.clock.advance(120)

    assert await asyncio.wait_for(rig.over.get(), WAIT_S) == other
    assert (await rig.approvals.get(answered)).status == "granted"


async def test_while_none_waits_it_does_not_look(rig: Running) -> None:
    rig.expiry.start()
    await rig.looks()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):  # twenty times as long as it would sleep
            await rig.looks()


async def test_a_log_that_fails_is_asked_again(rig: Running, caplog: pytest.LogCaptureFixture) -> None:
    _, approval_id = await rig.one(expires_s=60)
    rig.clock.advance(60)
    rig.memory.fails = 2

    rig.expiry.start()

    assert await asyncio.wait_for(rig.over.get(), WAIT_S) == approval_id
    assert "it can't be recorded that an approval expired" in caplog.text


async def test_it_can_be_stopped_though_it_never_began(rig: Running) -> None:
    _, approval_id = await rig.one(expires_s=60)
    rig.clock.advance(61)
    expiry = Expiry(rig.log, rig.approvals)
    expiry.stop()

    expiry.start()  # what was stopped too early can still begin
    assert await asyncio.wait_for(rig.over.get(), WAIT_S) == approval_id
    expiry.stop()


async def test_while_it_is_stopped_nothing_else_gets_on(rig: Running) -> None:
    """Whatever gets on then is a turn, in a gateway that was told to stop."""
    rig.expiry.start()
    await rig.looks()
    got_on: list[str] = []
    asyncio.get_running_loop().call_soon(got_on.append, "something")

    rig.expiry.stop()

    assert got_on == []
