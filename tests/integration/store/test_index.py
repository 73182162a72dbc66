"""The search index follows the log: whatever happens in between, nothing is missing from it once somebody searches."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ozzie_server_ext.domain.terms import phrases
from ozzie_server_ext.store import writer
from ozzie_server_ext.store.documents import Wanted
from ozzie_server_ext.store.erasing import Target
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.integration.store.test_sqlite import opened
from tests.replay.histories import SESSION, draft, received, session_created

STREAM = f"session:{SESSION}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ozzie.db"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is indexed for want of other work."""
    monkeypatch.setattr(writer, "INDEX_AFTER_S", 3600.0)


def indexed(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [position for (position,) in connection.execute("SELECT id FROM search_docsize ORDER BY id")]


async def say(log: SqliteEventLog, *texts: str) -> list[int]:
    """Record messages of a session; return their positions."""
    events = await log.append(STREAM, [draft(received(text)) for text in texts])
    return [event.position for event in events]


async def found(log: SqliteEventLog, query: str) -> list[int]:
    return [hit.position for hit in (await log.search(Wanted(phrases=tuple(phrases(query))))).best]


async def test_it_is_completed_once_nothing_is_recorded_for_a_moment(path: Path) -> None:
    async with opened(path) as log:
        at = await say(log, "revenue", "costs")
        async with asyncio.timeout(30):
            while not indexed(path):  # noqa: ASYNC110 - the writing thread tells nobody
                await asyncio.sleep(0.01)

        assert indexed(path) == at


@pytest.mark.usefixtures("patient")
async def test_a_search_finds_what_was_recorded_just_before(path: Path) -> None:
    async with opened(path) as log:
        at = await say(log, "revenue")
        before = indexed(path)

        assert (before, await found(log, "revenue"), indexed(path)) == ([], at, at)


@pytest.mark.usefixtures("patient")
async def test_only_so_much_is_left_for_later(path: Path) -> None:
    async with opened(path) as log:
        for number in range(100):
            await say(log, f"number {number}")

        assert 100 - len(indexed(path)) <= 64


@pytest.mark.usefixtures("patient")
async def test_what_a_crash_left_out_is_added_at_the_next_start(path: Path, tmp_path: Path) -> None:
    async with opened(path) as log:
        first = await say(log, "revenue")
        assert await found(log, "revenue") == first
        second = await say(log, "revenue again", "costs")
        left = tmp_path / "left"
        left.mkdir()
        for file in path.parent.glob("ozzie.db*"):  # as they are now: nobody closes these
            shutil.copy(file, left)
    assert indexed(left / path.name) == first

    async with opened(left / path.name) as log:
        assert indexed(left / path.name) == [*first, *second]
        assert sorted(await found(log, "revenue")) == [first[0], second[0]]


@pytest.mark.usefixtures("patient")
async def test_what_is_erased_before_it_was_indexed_is_not_found(path: Path) -> None:
    async with opened(path) as log:
        await log.append(STREAM, [draft(session_created())])
        await say(log, "zyzzyva")
        await log.erase(Target(session_id=SESSION, by="ana"))
        await log.write_anew()

        assert await found(log, "zyzzyva") == []
        await log.rebuild()
        assert await found(log, "zyzzyva") == []
    assert b"zyzzyva" not in await asyncio.to_thread(path.read_bytes)


async def test_an_index_that_can_not_be_written_keeps_nobody_from_recording(path: Path) -> None:
    async with opened(path) as log:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("DROP TABLE search")
        (at,) = await say(log, "revenue")

        assert [event.position for event in await log.read()] == [at]
    async with opened(path) as log:
        assert await found(log, "revenue") == [at]
