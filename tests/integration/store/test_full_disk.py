"""The writing thread under many clients while the disk fills: what was acknowledged is there, and the rest is not."""

import asyncio
import itertools
import os
import resource
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.replay.histories import renamed
from tests.verified import verify_file

CLIENTS = 16
SMALL = 3 << 20
ROOM = 64 << 20
TITLE = 4_000
AN_APPEND = 3
FAILURES_ENOUGH = 5
APPENDS_LATER = 20
MOST_APPENDS = 20_000


class Disk(Protocol):
    """A place with little room."""

    folder: Path

    def grow(self) -> None:
        """Somebody frees space."""
        ...


@dataclass
class SmallFileSystem:
    """A file system of its own, in memory, that refuses with "No space left on device"."""

    folder: Path

    def grow(self) -> None:
        mount("-o", f"remount,size={ROOM}", str(self.folder))


@dataclass
class SmallFiles:
    """No file of this process may grow further, as where a quota ends: "File too large"."""

    folder: Path
    before: tuple[int, int]

    def grow(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (min(ROOM, _most(self.before[1])), self.before[1]))


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True, timeout=20)


def _most(limit: int) -> int:
    return ROOM if limit == resource.RLIM_INFINITY else limit


def may_mount() -> bool:
    """Root in a container often may not."""
    if os.geteuid() != 0:
        return False
    return subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True, timeout=20).returncode == 0


@pytest.fixture(params=["tmpfs", "file size"] if may_mount() else ["file size"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """Every way to run out of room that there is here: the first needs the right to mount."""
    if request.param == "tmpfs":
        mount("-t", "tmpfs", "-o", f"size={SMALL}", "ozzie-test", str(tmp_path))
        yield SmallFileSystem(tmp_path)
        subprocess.run(["umount", "-l", str(tmp_path)], check=True, capture_output=True, timeout=20)
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, before[1]))
    try:
        yield SmallFiles(tmp_path, before)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@dataclass
class Clients:
    """Each appends one after the other, three facts at a time, to a stream of its own."""

    log: SqliteEventLog
    acknowledged: list[tuple[Event, ...]] = field(default_factory=list)
    refused: list[Unavailable] = field(default_factory=list)
    asked: "itertools.count[int]" = field(default_factory=itertools.count)

    async def until_refused(self) -> None:
        """All of them, until each was refused some times."""
        await asyncio.gather(*(self._until_refused(number) for number in range(CLIENTS)))

    async def _until_refused(self, number: int) -> None:
        refusals = 0
        while refusals < FAILURES_ENOUGH:
            assert next(self.asked) < MOST_APPENDS, "the disk does not fill"
            try:
                self.acknowledged.append(await self._append(number))
            except Unavailable as error:
                self.refused.append(error)
                refusals += 1

    async def again(self) -> None:
        """All of them, some appends each; every one has to succeed."""
        found = await asyncio.gather(*(self._append(number) for number in range(CLIENTS) for _ in range(APPENDS_LATER)))
        self.acknowledged += found

    async def _append(self, number: int) -> tuple[Event, ...]:
        title = f"{next(self.asked)} " + "x" * TITLE
        return await self.log.append(f"client:{number}", [renamed(f"{title}{part}") for part in range(AN_APPEND)])


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteEventLog]:
    clock = SystemClock()
    log = await SqliteEventLog.open(path, clock=clock, ids=UlidSource(clock))
    try:
        yield log
    finally:
        with suppress(Unavailable):
            await log.close()


async def test_nothing_acknowledged_is_lost_and_nothing_is_half_there(disk: Disk) -> None:
    path = disk.folder / "ozzie.db"
    async with opened(path) as log:
        clients = Clients(log)
        await clients.until_refused()
        when_full = len(clients.acknowledged)
        assert when_full > CLIENTS
        assert {error.code for error in clients.refused} == {"store.unavailable"}
        assert all(error.hint for error in clients.refused)
        assert (await log.verify()).ok, "what can be read while the disk is full is not what was written"

        disk.grow()
        await clients.again()
        assert len(clients.acknowledged) == when_full + CLIENTS * APPENDS_LATER
        await assert_whole(log, clients)

    assert verify_file(path).ok
    async with opened(path) as log:
        await assert_whole(log, clients)


async def assert_whole(log: SqliteEventLog, clients: Clients) -> None:
    recorded = await log.read(limit=1_000_000)
    by_id = {event.event_id: event for event in recorded}
    for events in clients.acknowledged:
        assert [by_id.get(event.event_id) for event in events] == list(events)
    # Three at a time: an append that was refused has left none of its facts behind.
    assert len(recorded) == AN_APPEND * len(clients.acknowledged)
    assert (await log.verify()).ok
    assert await log.dump() == await log.rebuild()


async def test_a_log_that_was_closed_on_a_full_disk_opens_whole_once_there_is_room(disk: Disk) -> None:
    path = disk.folder / "ozzie.db"
    async with opened(path) as log:
        clients = Clients(log)
        await clients.until_refused()
    with suppress(Unavailable):
        async with opened(path) as log:
            await assert_whole(log, clients)
    disk.grow()
    async with opened(path) as log:
        await assert_whole(log, clients)
        clients.log = log
        await clients.again()
        await assert_whole(log, clients)
