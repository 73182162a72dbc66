"""The pool with real child processes, which claim to be as busy as a test has them say."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import psutil
import pytest

from ozzie_server_ext.planes.channel import Channel, ChannelLost, Inbox
from ozzie_server_ext.planes.identity import ProcessMark
from ozzie_server_ext.planes.pool import Pool, usual_limit
from ozzie_server_ext.planes.supervisor import Pace, PlaneUnavailable, Supervisor

CHILD = (sys.executable, "-m", "tests.fakes.plane_child", "--behaviour")
WAIT_S = 20
BUSY, CALM = 1.0, 0.1


class Held:
    """A call that goes on until it is closed, on the child that has it."""

    def __init__(self, channel: Channel, inbox: Inbox) -> None:
        self.channel = channel
        self._inbox = inbox

    async def claim(self, *shares: float) -> None:
        """Have the child tell these shares of CPU, one heartbeat after the other; the pool has heard them all then."""
        for share in shares:
            self.channel.post({"type": "load", "id": self._inbox.call_id, "cpu": share})
            await asyncio.wait_for(self._inbox.get(), WAIT_S)

    async def end(self) -> None:
        """Wait for what is left of it. Raises ChannelLost where its child dies."""
        await asyncio.wait_for(self._inbox.get(), WAIT_S)


class Story:
    """A pool, and what became of its children. `behaviours` of the first, the second and so on; the rest serve."""

    def __init__(self, folder: Path, *behaviours: str, limit: int, idle_s: float) -> None:
        self.made: list[int] = []
        self.started: list[int] = []
        self.lost: dict[int, str] = {}
        self.limit = limit
        self._changed = asyncio.Event()
        self._folder = folder
        self._behaviours = behaviours
        self._numbers = count(1)
        self.pool = Pool(self._make, limit=lambda: self.limit, idle_s=idle_s)

    def _make(self, number: int) -> Supervisor:
        self.made.append(number)
        behaviours = (*self._behaviours, *["serve"] * number)
        return Supervisor(
            f"child {number}",
            (*CHILD, behaviours[number - 1]),
            log_file=self._folder / f"{number}.log",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            on_started=self._on_started,
            on_lost=self._on_lost,
            pace=Pace(pauses_s=(0.01,), circuit_deaths=3),
        )

    async def _on_started(self, mark: ProcessMark) -> None:
        self.started.append(mark.pid)
        self._changed.set()

    def _on_lost(self, pid: int, reason: str) -> None:
        self.lost[pid] = reason
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until it holds; it is looked at when a child has started or ended."""
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    @contextmanager
    def hold(self, channel: Channel) -> Iterator[Held]:
        call_id = str(next(self._numbers))
        inbox = channel.open_call(
            call_id,
            start={"type": "generate", "id": call_id, "session_id": "held", "prompt": ""},
            abort={"type": "abort", "id": call_id, "session_id": "obedient"},
        )
        try:
            yield Held(channel, inbox)
        finally:
            channel.close_call(inbox)

    async def second(self, held: Held) -> Channel:
        """Have a child that holds more than one call say that it is busy; the connection to the one that starts."""
        known = len(self.started)
        await held.claim(BUSY, BUSY)
        await self.until(lambda: len(self.started) > known and all(child.ready for child in self.pool.children))
        return await self.pool.channel()


Tell = Callable[..., Story]


@pytest.fixture
async def tell(tmp_path: Path) -> AsyncIterator[Tell]:
    stories: list[Story] = []

    def make(*behaviours: str, limit: int = 2, idle_s: float = 3600.0) -> Story:
        stories.append(Story(tmp_path, *behaviours, limit=limit, idle_s=idle_s))
        return stories[-1]

    yield make
    for story in stories:
        await asyncio.wait_for(story.pool.stop(), WAIT_S)
    left = [child for child in psutil.Process().children() if "tests.fakes.plane_child" in " ".join(child.cmdline())]
    assert left == []


async def test_nothing_runs_before_the_first_call_and_one_child_after_it(tell: Tell) -> None:
    story = tell()
    assert story.pool.children == ()
    assert not story.pool.ready
    await asyncio.gather(*(story.pool.channel() for _ in range(5)))
    assert story.pool.ready
    assert [child.pid for child in story.pool.children] == story.started
    assert len(story.started) == 1


@pytest.mark.parametrize(
    ("calls", "shares"),
    [(1, (BUSY, BUSY, BUSY)), (2, (0.7, 0.7, 0.7)), (2, (BUSY, CALM, BUSY)), (50, (0.0, 0.5))],
    ids=["one call alone", "not full", "a short burst", "many that cost little"],
)
async def test_no_further_child_starts_where_it_would_not_help(
    tell: Tell, calls: int, shares: tuple[float, ...]
) -> None:
    story = tell()
    channel = await story.pool.channel()
    with ExitStack() as open_calls:
        held = [open_calls.enter_context(story.hold(channel)) for _ in range(calls)]
        await held[0].claim(*shares)
        assert story.made == [1]


async def test_a_further_child_starts_while_the_only_one_is_busy_and_no_call_waits_for_it(tell: Tell) -> None:
    story = tell("serve", "mute", limit=3)
    channel = await story.pool.channel()
    with story.hold(channel) as one, story.hold(channel):
        await one.claim(BUSY, BUSY, BUSY)
        assert story.made == [1, 2], "One at a time."
        assert await asyncio.wait_for(story.pool.channel(), 1) is channel


async def test_calls_go_to_the_child_with_the_least_to_do(tell: Tell) -> None:
    story = tell()
    first = await story.pool.channel()
    with story.hold(first) as one, story.hold(first):
        second = await story.second(one)
        assert second is not first
        with story.hold(second), story.hold(second), story.hold(second):
            assert await story.pool.channel() is second, "The other one has no CPU left."
            await one.claim(CALM)
            assert await story.pool.channel() is first
            assert [child.calls for child in story.pool.children] == [2, 3]


async def test_there_are_never_more_children_than_the_limit(tell: Tell) -> None:
    story = tell(limit=2)
    first = await story.pool.channel()
    with story.hold(first) as one, story.hold(first):
        second = await story.second(one)
        with story.hold(second) as other, story.hold(second):
            await other.claim(BUSY, BUSY, BUSY)
            await one.claim(BUSY)
            assert story.made == [1, 2]
            story.limit = 3
            await one.claim(BUSY)
            assert story.made == [1, 2, 3]


async def test_a_child_that_is_not_needed_any_more_ends_once_its_calls_have(tell: Tell) -> None:
    story = tell(idle_s=0)
    first = await story.pool.channel()
    with story.hold(first) as one:
        with story.hold(first):
            second = await story.second(one)
        with story.hold(second) as late:
            await one.claim(CALM)
            assert await story.pool.channel() is first, "The one that leaves gets no more calls."
            await late.claim(CALM)
            assert story.lost == {}
        async with asyncio.timeout(WAIT_S):
            while len(story.pool.children) > 1:
                await one.claim(CALM)
        await story.until(lambda: list(story.lost) == story.started[1:])
        assert story.lost[story.started[1]].startswith("It was no longer needed. It ended with status 0.")
        assert len(story.pool.children) == 1
        await one.claim(CALM)
        assert len(story.lost) == 1, "The first one stays."


async def test_a_child_is_kept_as_long_as_the_others_would_be_full_without_it(tell: Tell) -> None:
    story = tell(idle_s=0)
    first = await story.pool.channel()
    with story.hold(first) as one, story.hold(first):
        second = await story.second(one)
        with story.hold(second) as other:
            for held in (other, one, other, one):
                await held.claim(0.4)
            assert [child.share for child in story.pool.children] == [0.4, 0.4]
            assert await story.pool.channel() is second


async def test_a_child_that_is_about_to_leave_is_taken_back_before_another_starts(tell: Tell) -> None:
    story = tell(idle_s=0)
    first = await story.pool.channel()
    with story.hold(first) as one, story.hold(first):
        second = await story.second(one)
        with story.hold(second):
            await one.claim(CALM)
            assert await story.pool.channel() is first
            await one.claim(BUSY, BUSY)
            assert await story.pool.channel() is second
    assert story.made == [1, 2]


async def test_what_exceeds_a_limit_that_was_lowered_goes_though_it_is_busy(tell: Tell) -> None:
    story = tell()
    first = await story.pool.channel()
    with story.hold(first) as one, story.hold(first):
        await story.second(one)
        story.limit = 1
        await one.claim(BUSY)
        await story.until(lambda: len(story.lost) == 1)
        await one.claim(BUSY, BUSY)
        assert story.made == [1, 2]


async def test_a_childs_death_costs_its_own_calls_only(tell: Tell) -> None:
    story = tell()
    first = await story.pool.channel()
    with story.hold(first) as one, story.hold(first):
        second = await story.second(one)
        with story.hold(second) as other:
            os.kill(story.started[1], signal.SIGKILL)
            with pytest.raises(ChannelLost):
                await other.end()
            assert await asyncio.wait_for(story.pool.channel(), 1) is first, "Nobody waits for the next one."
        await one.claim(CALM)
        await story.until(lambda: len(story.started) == 3)
        assert list(story.lost) == [story.started[1]]


async def test_who_asks_while_all_are_dead_gets_the_first_that_is_there_again(tell: Tell) -> None:
    story = tell()
    first = await story.pool.channel()
    with story.hold(first) as one, story.hold(first):
        second = await story.second(one)
        with story.hold(second) as other:
            for pid in story.started[:]:
                os.kill(pid, signal.SIGKILL)
            for held in (one, other):
                with pytest.raises(ChannelLost):
                    await held.end()
    again = await asyncio.wait_for(story.pool.channel(), WAIT_S)
    assert again not in (first, second)
    with story.hold(again) as held:
        await held.claim(CALM)


async def test_a_further_child_that_can_not_start_leaves_the_first_to_work_on(tell: Tell) -> None:
    story = tell("serve", "dead")
    first = await story.pool.channel()
    with story.hold(first) as one, story.hold(first):
        await one.claim(BUSY, BUSY)
        with pytest.raises(PlaneUnavailable, match="ended with status 3"):
            await asyncio.wait_for(story.pool._members[1].plane.channel(), WAIT_S)
        await one.claim(BUSY, BUSY)
        assert story.made == [1, 2]
        assert await story.pool.channel() is first
    assert len(story.started) == 1


async def test_a_pool_whose_child_can_not_start_says_so(tell: Tell) -> None:
    story = tell("dead")
    for sentence in ("ended with status 3", "too often"):
        with pytest.raises(PlaneUnavailable, match=sentence):
            await asyncio.wait_for(story.pool.channel(), WAIT_S)
    with pytest.raises(PlaneUnavailable, match="too often"):
        story.pool.start()


async def test_stopping_ends_all_of_them_and_who_waits_is_told(tell: Tell) -> None:
    story = tell()
    first = await story.pool.channel()
    with story.hold(first) as one, story.hold(first):
        await story.second(one)
        await asyncio.wait_for(story.pool.stop(), WAIT_S)
    assert sorted(story.lost) == sorted(story.started)
    assert story.pool.children == ()
    with pytest.raises(PlaneUnavailable, match="was stopped"):
        await story.pool.channel()


async def test_stopping_while_the_only_child_starts_fails_those_who_wait(tell: Tell) -> None:
    story = tell("mute")
    waiting = asyncio.create_task(story.pool.channel())
    await asyncio.sleep(0)
    await asyncio.wait_for(story.pool.stop(), WAIT_S)
    with pytest.raises(PlaneUnavailable):
        await waiting


@pytest.mark.parametrize(("cpus", "limit"), [({0}, 1), ({1, 5}, 2), (set(range(64)), 4)])
def test_there_may_be_one_for_each_cpu_that_this_process_may_use(
    monkeypatch: pytest.MonkeyPatch, cpus: set[int], limit: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: cpus)
    assert usual_limit() == limit


def test_a_system_that_does_not_tell_which_cpus_may_be_used_tells_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert usual_limit() == 3
