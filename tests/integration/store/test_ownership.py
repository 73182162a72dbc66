"""Only the gateway that opened a log last may write to it, whatever became of the lock that elected it."""

import asyncio
from pathlib import Path

import pytest

from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.store.anchor import Anchoring
from ozzie_server_ext.store.log import OwnerLost
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.store.writer import OwnerWatch
from tests.integration.store.anchored import AnchoredHome
from tests.replay.histories import draft, renamed, session_created
from tests.verified import verify_file


async def opened(path: Path) -> SqliteEventLog:
    clock = SystemClock()
    return await SqliteEventLog.open(path, clock=clock, ids=UlidSource(clock))


async def test_a_log_that_was_opened_again_takes_nothing_from_its_first_owner(tmp_path: Path) -> None:
    path = tmp_path / "ozzie.db"
    first = await opened(path)
    await first.append("session:s", [draft(session_created())])
    second = await opened(path)
    end = await second.head()

    with pytest.raises(OwnerLost, match="Another gateway"):
        await first.append("session:s", [renamed("late")])
    with pytest.raises(OwnerLost):
        await first.rebuild()

    assert await second.head() == end
    await second.append("session:s", [renamed("in time")])
    assert (await second.verify()).ok
    assert await second.dump() == await second.rebuild()
    await first.close()
    await second.close()
    assert verify_file(path).events == 2


async def test_everybody_who_waits_for_the_late_owner_is_told(tmp_path: Path) -> None:
    path = tmp_path / "ozzie.db"
    first = await opened(path)
    second = await opened(path)
    outcomes = await asyncio.gather(
        *(first.append(f"session:{number}", [renamed("late")]) for number in range(20)), return_exceptions=True
    )
    assert {type(outcome) for outcome in outcomes} == {OwnerLost}
    assert (await second.head()).position == 0
    await first.close()
    await second.close()


async def test_an_owner_that_writes_nothing_can_ask_whether_it_still_is_one(tmp_path: Path) -> None:
    first = await opened(tmp_path / "ozzie.db")
    await first.expect_owned()
    second = await opened(tmp_path / "ozzie.db")
    with pytest.raises(OwnerLost):
        await first.expect_owned()
    await second.expect_owned()
    await first.close()
    await second.expect_owned()
    await second.close()


async def test_what_the_first_owner_had_begun_is_whole_or_not_there(tmp_path: Path) -> None:
    """Both write as fast as they can while the second opens: whatever was acknowledged stays, in one chain."""
    path = tmp_path / "ozzie.db"
    first = await opened(path)
    acknowledged: list[str] = []
    some = asyncio.Event()

    async def write(log: SqliteEventLog, stream: str) -> None:
        for number in range(400):
            try:
                events = await log.append(stream, [renamed(f"{number}"), renamed(f"{number} too")])
            except OwnerLost:
                return
            acknowledged.extend(event.event_id for event in events)
            some.set()

    writing = [asyncio.create_task(write(first, f"session:{number}")) for number in range(4)]
    await some.wait()
    second = await opened(path)
    await write(second, "session:second")
    await asyncio.gather(*writing)

    recorded = await second.read(limit=10_000)
    assert set(acknowledged) <= {event.event_id for event in recorded}
    assert len(recorded) % 2 == 0
    assert (await second.verify()).ok
    await first.close()
    await second.close()


async def test_an_idle_owner_is_told_that_it_was_replaced_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await opened(tmp_path / "ozzie.db")
    ask, asked, thrice = first.expect_owned, 0, asyncio.Event()
    lost: asyncio.Future[OwnerLost] = asyncio.get_running_loop().create_future()

    async def counting() -> None:
        nonlocal asked
        await ask()
        asked += 1
        if asked == 3:
            thrice.set()

    monkeypatch.setattr(first, "expect_owned", counting)
    watch = OwnerWatch(first, lost.set_result, every_s=0.005)  # told twice, the second result would be refused
    watch.start()
    await asyncio.wait_for(thrice.wait(), 10)
    assert not lost.done()
    second = await opened(tmp_path / "ozzie.db")
    assert (await asyncio.wait_for(lost, 10)).code == "store.owner_lost"
    watch.stop()
    await first.close()
    await second.close()


async def test_a_replaced_gateway_leaves_the_anchor_to_the_new_one(tmp_path: Path) -> None:
    home = AnchoredHome(tmp_path / "home", tmp_path / "config")
    path = home.files.database
    first = await opened(path)
    old = Anchoring(first, home.files, delay_s=0)
    await old.start()
    await first.append("session:s", [renamed("a")])
    second = await opened(path)
    new = Anchoring(second, home.files, delay_s=0)
    await new.start()
    assert await new.warning() == ""
    await second.append("session:s", [renamed("b")])
    await second.close()
    await new.close()

    old.abandon()
    await first.close()
    await old.close()

    assert (home.anchored, home.record.position) == (2, 2)
