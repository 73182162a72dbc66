"""The stores that the contract suites run over."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.blobs import BlobStore, FileBlobs, InMemoryBlobs
from ozzie_server_ext.store.contents import DatabaseBlobs
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.replay.stores import Store


@pytest_asyncio.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    clock = FakeClock()
    if request.param == "memory":
        in_memory = InMemoryEventLog(clock, CountingIds())

        async def forget(position: int) -> None:
            del in_memory.bodies[position]

        yield Store(in_memory, clock, forget)
        await in_memory.close()
        return

    path = tmp_path / "data" / "ozzie.db"
    on_disk = await SqliteEventLog.open(path, clock=clock, ids=CountingIds())

    async def delete(position: int) -> None:
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("DELETE FROM bodies WHERE position = ?", (position,))
        connection.close()

    yield Store(on_disk, clock, delete)
    await on_disk.close()


@pytest.fixture
def log(store: Store) -> EventLog:
    return store.log


@pytest_asyncio.fixture(params=["memory", "files", "database"])
async def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BlobStore]:
    files = FileBlobs(tmp_path / "blobs")
    if request.param == "database":
        log = await SqliteEventLog.open(tmp_path / "blobs.db", clock=FakeClock(), ids=CountingIds())
        yield DatabaseBlobs(log, files)
        await log.close()
    else:
        yield InMemoryBlobs() if request.param == "memory" else files
