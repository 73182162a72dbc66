"""Contents that nobody wants any longer are swept at the start, and again as time goes by."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta

import pytest

from ozzie_server_ext.artifacts import erasing as module
from ozzie_server_ext.artifacts.erasing import Sweep
from ozzie_server_ext.config.settings import ArtifactsSettings
from ozzie_server_ext.domain.errors import Gone
from ozzie_server_ext.domain.events import ArtifactErased, Event, TaskQueued, TaskStarted
from ozzie_server_ext.domain.ids import ArtifactId
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.blobs import InMemoryBlobs
from ozzie_server_ext.store.memory import InMemoryEventLog
from tests.contract.test_artifacts import SESSION, TASK
from tests.contract.test_erasing import Erasing
from tests.replay.histories import task_created

WAIT_S = 10
DAY_S = 24 * 3600.0


class ReadClock(FakeClock):
    """Tells how often it was read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = asyncio.Semaphore(0)

    def now(self) -> datetime:
        self.reads.release()
        return super().now()

    async def is_read(self, times: int) -> None:
        """Return once it was read so often again."""
        while not self.reads.locked():
            await self.reads.acquire()
        for _ in range(times):
            await asyncio.wait_for(self.reads.acquire(), WAIT_S)


class Swept(Erasing):
    """A clock to turn, settings to change, and `over`, the artifacts that were erased, in their order."""

    def __init__(self) -> None:
        self.clock = ReadClock()
        super().__init__(InMemoryEventLog(self.clock, CountingIds()), InMemoryBlobs())
        self.settings: ArtifactsSettings | None = ArtifactsSettings(keep_days=90)
        self.looked = asyncio.Semaphore(0)
        self.over: asyncio.Queue[tuple[ArtifactId, str, int]] = asyncio.Queue()
        self.sweep = Sweep(self.artifacts, self.eraser, self.clock, self.wanted)
        self.log.on_commit(self._note)

    async def swept(self) -> None:
        """Return once a sweep has looked at the settings twice."""
        for _ in range(2):
            await asyncio.wait_for(self.looked.acquire(), WAIT_S)

    async def wanted(self) -> ArtifactsSettings | None:
        self.looked.release()
        return self.settings

    def _note(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event.body, ArtifactErased):
                self.over.put_nowait((event.body.artifact_id, event.body.why, event.body.bound))

    def gone(self) -> list[ArtifactId]:
        return [self.over.get_nowait()[0] for _ in range(self.over.qsize())]


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Swept]:
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    monkeypatch.setattr(module, "SURE_S", 0.0)
    rig = Swept()
    yield rig
    rig.sweep.stop()
    await rig.sweep.ended()


async def test_what_is_too_old_at_the_start_goes_at_it_and_later_what_becomes_so(rig: Swept) -> None:
    first = await rig.make(b"1", name="1")
    rig.clock.advance(60 * DAY_S)
    second = await rig.make(b"2", name="2")
    rig.clock.advance(31 * DAY_S)

    rig.sweep.start()
    assert await asyncio.wait_for(rig.over.get(), WAIT_S) == (first, "age", 90)

    rig.clock.advance(60 * DAY_S)
    assert await asyncio.wait_for(rig.over.get(), WAIT_S) == (second, "age", 90)
    with pytest.raises(Gone, match="because it was older than 90 days"):
        await rig.artifacts.content(await rig.artifacts.get(second))


async def test_it_sweeps_every_hour_of_the_clock_and_not_more_often(rig: Swept) -> None:
    rig.sweep.start()
    await rig.swept()

    rig.clock.advance(timedelta(minutes=59).total_seconds())
    await rig.clock.is_read(5)
    assert rig.looked.locked()
    rig.clock.advance(60.0)
    await rig.swept()
    await rig.clock.is_read(5)
    assert rig.looked.locked()


async def test_a_clock_that_was_set_back_does_not_stop_it(rig: Swept) -> None:
    rig.sweep.start()
    await rig.swept()

    rig.clock.advance(-2 * DAY_S)

    await rig.swept()
    artifact_id = await rig.make()
    rig.clock.advance(91 * DAY_S)
    assert (await asyncio.wait_for(rig.over.get(), WAIT_S))[0] == artifact_id


async def test_it_goes_on_behind_a_sweep_that_failed(rig: Swept) -> None:
    artifact_id = await rig.make()
    rig.clock.advance(91 * DAY_S)
    failing = asyncio.Event()

    async def wanted() -> ArtifactsSettings:
        if not failing.is_set():
            failing.set()
            raise OSError("the disk is gone")
        return ArtifactsSettings()

    rig.sweep = Sweep(rig.artifacts, rig.eraser, rig.clock, wanted)
    rig.sweep.start()
    await asyncio.wait_for(failing.wait(), WAIT_S)
    rig.clock.advance(3600)

    assert (await asyncio.wait_for(rig.over.get(), WAIT_S))[0] == artifact_id


@pytest.mark.parametrize(
    "moment", [ArtifactsSettings(), ArtifactsSettings(keep_days=9), ArtifactsSettings(max_bytes=1)]
)
async def test_settings_of_a_moment_erase_nothing(rig: Swept, moment: ArtifactsSettings) -> None:
    """Those that stand there while an editor replaces the file, or that hold without one, are not the user's."""
    artifact_id = await rig.make()
    rig.clock.advance(91 * DAY_S)
    looks = iter([moment, ArtifactsSettings(keep_days=None), ArtifactsSettings(keep_days=1000), moment, moment, moment])

    async def wanted() -> ArtifactsSettings:
        return next(looks)

    sweep = Sweep(rig.artifacts, rig.eraser, rig.clock, wanted)
    await sweep.sweep()
    await sweep.sweep()
    assert rig.gone() == []

    await sweep.sweep()
    assert rig.gone() == [artifact_id]


async def test_notes_and_what_undoes_a_change_stay_for_ever(rig: Swept) -> None:
    """Also an old note: it may be the newest of a session that was forked before the next one."""
    old = await rig.make(b"1", name="notes/a.md", kind="markdown")
    note = await rig.make(b"2", name="notes/a.md", kind="markdown")
    kept = await rig.artifacts.keep(b"3", kind="file", name="a.py", mime="text/x-python", meta={"replaced_by": "x"})
    await rig.artifacts.record(rig.recorder(SESSION, TASK), kept)
    rig.clock.advance(10_000 * DAY_S)

    await rig.sweep.sweep()

    assert rig.gone() == []
    assert await rig.artifacts.content(await rig.artifacts.get(old)) == b"1"
    assert await rig.artifacts.content(await rig.artifacts.get(note)) == b"2"
    assert await rig.artifacts.content(await rig.artifacts.get(kept.artifact_id)) == b"3"


@pytest.mark.parametrize("settings", [ArtifactsSettings(keep_days=0), ArtifactsSettings(keep_days=None), None])
async def test_without_a_bound_or_where_nobody_knows_it_nothing_goes(
    rig: Swept, settings: ArtifactsSettings | None
) -> None:
    await rig.make(b"1")
    await rig.make(b"2")
    rig.clock.advance(10_000 * DAY_S)
    rig.settings = settings

    await rig.sweep.sweep()

    assert rig.gone() == []


async def test_all_together_are_bounded_and_the_oldest_go_first_many_pages_long(rig: Swept) -> None:
    made = [await rig.make(f"{number:04}".encode(), name=f"{number}") for number in range(450)]
    rig.settings = ArtifactsSettings(keep_days=None, max_bytes=4 * 200)

    await rig.sweep.sweep()

    assert rig.gone() == made[:250]
    await rig.sweep.sweep()
    assert rig.gone() == []


async def test_many_that_are_old_go_many_pages_long(rig: Swept) -> None:
    made = [await rig.make(f"{number:04}".encode(), name=f"{number}") for number in range(450)]
    rig.clock.advance(91 * DAY_S)
    young = await rig.make(b"young")

    await rig.sweep.sweep()

    assert rig.gone() == made
    assert await rig.artifacts.content(await rig.artifacts.get(young)) == b"young"


async def test_what_is_in_use_stays_however_old_and_large(rig: Swept) -> None:
    await rig.record(task_created("x"), TaskQueued(reason="created"), TaskStarted(attempt=1, epoch="e"))
    await rig.make(b"1" * 100)
    rig.clock.advance(91 * DAY_S)
    rig.settings = ArtifactsSettings(keep_days=90, max_bytes=1)

    await rig.sweep.sweep()

    assert rig.gone() == []


async def test_a_file_that_was_left_goes_at_the_start(rig: Swept) -> None:
    artifact_id = await rig.make()
    await rig.leave(artifact_id)
    ref = await rig.ref(artifact_id)
    assert await rig.is_there(ref)

    rig.sweep.start()
    await asyncio.wait_for(rig.looked.acquire(), WAIT_S)  # the settings are asked for behind that

    assert not await rig.is_there(ref)
