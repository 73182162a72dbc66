"""What only a file can do: be opened again, be looked at by others, be tampered with, be somebody else's."""

import asyncio
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.events import SessionRenamed
from ozzie_server_ext.observability.clock import CountingIds, FakeClock, SystemClock, UlidSource
from ozzie_server_ext.store import sqlite_events, sqlite_rows, writer
from ozzie_server_ext.store.admission import Append, prepare, random_salt
from ozzie_server_ext.store.database import open_readable, open_writable
from ozzie_server_ext.store.log import DamagedStore, NewerStore
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.projector import TABLES
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.store.writer import Committer
from tests.replay.histories import (
    Histories,
    call_started,
    draft,
    renamed,
    session_created,
    task_created,
    task_draft,
)
from tests.verified import verify_file

STREAM = "s"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "ozzie.db"


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteEventLog]:
    clock = SystemClock()
    log = await SqliteEventLog.open(path, clock=clock, ids=UlidSource(clock))
    try:
        yield log
    finally:
        await log.close()


def behind_its_back(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o644)


def break_off(path: Path) -> None:
    """Overwrite the second half of a file, but for its last page."""
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2 : -4096] = b"\xa5" * (len(raw) - 4096 - len(raw) // 2)
    path.write_bytes(raw)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- opening ------------------------------------------------------------------------------------------


async def test_a_log_that_is_opened_again_continues_its_chain(path: Path) -> None:
    history = Histories(3).take(90)
    for start in (0, 30, 60):
        async with opened(path) as log:
            for stream, drafts in history[start : start + 30]:
                await log.append(stream, drafts)
            dump = await log.dump()
    async with opened(path) as log:
        assert await log.dump() == dump == await log.rebuild()
        found = await log.verify()
        assert (found.ok, found.head) == (True, await log.head())


async def test_versions_and_keys_are_known_again_after_opening(path: Path) -> None:
    once = [draft(SessionRenamed(title="a"), key="once")]
    async with opened(path) as log:
        first = await log.append(STREAM, once, expected_version=0)
    async with opened(path) as log:
        assert await log.append(STREAM, once, expected_version=0) == first
        assert await log.version(STREAM) == 1


async def test_only_the_user_can_read_the_files(path: Path) -> None:
    async with opened(path) as log:
        await log.append(STREAM, [renamed("a")])
        modes = {file.name: mode(file) for file in path.parent.iterdir()}
        assert modes == {"ozzie.db": 0o600, "ozzie.db-wal": 0o600, "ozzie.db-shm": 0o600}
    assert mode(path.parent) == 0o700


async def test_a_file_that_others_could_read_is_closed_to_them(path: Path) -> None:
    write(path, b"")
    assert mode(path) != 0o600
    async with opened(path):
        assert mode(path) == 0o600


async def test_closing_leaves_one_file_and_no_thread(path: Path) -> None:
    async with opened(path) as log:
        await log.append(STREAM, [renamed("a")])
        await log.read()
    assert [file.name for file in path.parent.iterdir()] == ["ozzie.db"]
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("ozzie-store")] == []


async def test_closing_waits_for_what_was_asked_for(path: Path) -> None:
    log = await SqliteEventLog.open(path, clock=FakeClock(), ids=CountingIds())
    appends = [asyncio.create_task(log.append(STREAM, [renamed("a")])) for _ in range(50)]
    await asyncio.sleep(0)
    await log.close()
    assert len(await asyncio.gather(*appends)) == 50


async def test_an_append_whose_caller_gave_up_is_recorded_all_the_same(path: Path) -> None:
    async with opened(path) as log:
        append = asyncio.create_task(log.append(STREAM, [renamed("a")]))
        await asyncio.sleep(0)
        append.cancel()
        await log.append(STREAM, [renamed("b")])
        assert append.cancelled()
        assert len(await log.read()) == 2


async def test_a_database_of_a_newer_ozzie_is_refused(path: Path) -> None:
    async with opened(path):
        pass
    behind_its_back(path, "PRAGMA user_version = 99")
    with pytest.raises(NewerStore, match="newer Ozzie") as refused:
        async with opened(path):
            pass
    assert "Upgrade" in refused.value.hint
    with pytest.raises(NewerStore):
        verify_file(path)


async def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    behind_its_back(path, "CREATE TABLE theirs (a)")
    with pytest.raises(Unavailable, match="another program"):
        async with opened(path):
            pass
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("theirs",)]


async def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    write(path, b"nothing of the kind" * 100)
    with pytest.raises(DamagedStore):
        async with opened(path):
            pass


async def test_a_folder_that_can_not_be_made_is_named(path: Path) -> None:
    write(path.parent, b"a file where the folder should be")
    with pytest.raises(Unavailable, match="Can't open"):
        async with opened(path):
            pass


def test_verifying_needs_a_log(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        verify_file(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


async def test_a_log_in_use_can_be_verified_from_outside(path: Path) -> None:
    async with opened(path) as log:
        await log.append(STREAM, [renamed("a")])
        found = verify_file(path)
        assert (found.ok, found.head) == (True, await log.head())


async def test_projections_of_other_folds_are_made_anew(path: Path) -> None:
    async with opened(path) as log:
        for stream, drafts in Histories(4).take(40):
            await log.append(stream, drafts)
        dump = await log.dump()
    behind_its_back(path, "UPDATE projections SET fingerprint = 'older'", "DELETE FROM tasks", "DROP TABLE messages")
    async with opened(path) as log:
        assert await log.dump() == dump


async def test_a_table_that_somebody_dropped_is_made_anew(path: Path) -> None:
    async with opened(path) as log:
        for stream, drafts in Histories(4).take(40):
            await log.append(stream, drafts)
        dump = await log.dump()
    for name in TABLES:
        behind_its_back(path, f"DROP TABLE {name}")
        async with opened(path) as log:
            assert await log.dump() == dump


async def test_an_event_of_a_newer_ozzie_is_named_when_it_is_read(path: Path) -> None:
    async with opened(path) as log:
        await log.append(STREAM, [renamed("a"), renamed("b"), renamed("c")])
        behind_its_back(path, "UPDATE events SET schema = 2 WHERE position = 2")
        assert len(await log.read(limit=1)) == 1
        with pytest.raises(NewerStore, match=r"position 2 \(session.renamed, version 2\)"):
            await log.read()
        behind_its_back(path, "UPDATE events SET schema = 1, type = 'session.dreamt' WHERE position = 2")
        with pytest.raises(NewerStore, match=r"session\.dreamt"):
            await log.read()
        assert len(await log.read(after=2)) == 1


async def test_what_does_not_fit_into_memory_is_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_MOST_STREAMS", 2)
    monkeypatch.setattr(sqlite_rows, "_MOST_KNOWN", 3)
    in_memory = InMemoryEventLog(FakeClock(), CountingIds())
    log = await SqliteEventLog.open(path, clock=FakeClock(), ids=CountingIds())
    history = Histories(5).take(120)
    versions: dict[str, int] = {}
    appends: list[Coroutine[None, None, object]] = []
    for stream, drafts in history:
        appends.append(log.append(stream, drafts, expected_version=versions.get(stream, 0)))
        versions[stream] = versions.get(stream, 0) + len(drafts)
    await asyncio.gather(*appends)
    for stream, drafts in history:
        await in_memory.append(stream, drafts)
    assert await log.dump() == await in_memory.dump() == await log.rebuild()
    await log.close()


async def test_appends_that_wait_are_committed_together(path: Path) -> None:
    async with opened(path) as log:
        commits: list[int] = []
        log.on_commit(lambda events: commits.append(len(events)))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # nobody else can write now
            appends = [asyncio.create_task(log.append(f"s{number}", [renamed("a")])) for number in range(50)]
            await asyncio.sleep(0)
            other.execute("ROLLBACK")
        await asyncio.gather(*appends)
        assert sum(commits) == 50
        assert len(commits) <= 2


def test_the_connection_that_writes_is_durable_and_overwrites_what_it_deletes(path: Path) -> None:
    with closing(open_writable(path)) as connection:
        modes = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "secure_delete", "foreign_keys", "application_id")
        }
    assert modes == {
        "journal_mode": "wal",
        "synchronous": 2,
        "secure_delete": 1,
        "foreign_keys": 1,
        "application_id": int.from_bytes(b"OZZI", "big"),
    }


# --- failing ------------------------------------------------------------------------------------------


def test_when_the_disk_is_full_the_whole_batch_fails_and_the_log_goes_on(path: Path) -> None:
    connection = open_writable(path)
    writing = Committer(connection, path)
    writing.make_current()
    clock, ids = FakeClock(), CountingIds()

    def append(title: str, expected_version: int) -> Append:
        drafts = [draft(SessionRenamed(title=title)), task_draft(call_started(ids.new()))]
        return prepare(STREAM, drafts, expected_version=expected_version, clock=clock, ids=ids, salts=random_salt)

    created = [draft(session_created()), task_draft(task_created())]
    first = prepare(STREAM, created, expected_version=0, clock=clock, ids=ids, salts=random_salt)
    assert len(writing.commit([first]).new) == 2
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    failed = writing.commit([append("small", 2), append("x" * 1_000_000, 4), append("small", 6)])
    for result in failed.results:
        assert isinstance(result, Unavailable)
        assert "disk space" in result.hint
    assert failed.new == ()
    assert writing.head().position == 2
    connection.execute("PRAGMA max_page_count = 1000000")
    assert [event.position for event in writing.commit([append("after", 2)]).new] == [3, 4]
    assert sqlite_events.verify(connection).ok
    dump = sqlite_rows.dump(connection, TABLES)
    assert '"title":"after"' in dump
    assert dump == writing.rebuild_and_dump()
    connection.close()


# --- tampering ----------------------------------------------------------------------------------------

_ERASE = "DELETE FROM bodies WHERE position = 5"
_SWAP = (
    "UPDATE {table} SET position = -1 WHERE position = 4",
    "UPDATE {table} SET position = 4 WHERE position = 5",
    "UPDATE {table} SET position = 5 WHERE position = -1",
)


@pytest.mark.parametrize(
    ("statements", "position", "reason"),
    [
        (
            ["UPDATE bodies SET body = CAST(replace(body, 't5', 'T5') AS BLOB) WHERE position = 5"],
            5,
            "body of event 5 was changed",
        ),
        (["UPDATE bodies SET salt = zeroblob(16) WHERE position = 5"], 5, "body of event 5 was changed"),
        *[
            ([f"UPDATE events SET {column} = {value} WHERE position = 5"], 5, "Event 5 was changed")
            for column, value in {
                "event_id": "'other'",
                "stream": "'other'",
                "version": "99",
                "ts": "'2020-01-01T00:00:00.000000Z'",
                "type": "'session.created'",
                "schema": "0",
                "actor": "'system'",
                "source": "'other'",
                "session_id": "NULL",
                "task_id": "'other'",
                "trace_id": "'other'",
                "span_id": "'other'",
                "causation_id": "'other'",
                "idempotency_key": "'other'",
                "labels": "'[\"x\"]'",
                "sources": "'no json'",
                "commitment": "hash",
                "hash": "commitment",
            }.items()
        ],
        (["UPDATE events SET prev_hash = hash WHERE position = 5"], 5, "does not follow"),
        ([part.format(table="events") for part in _SWAP], 4, "does not follow"),
        ([part.format(table="bodies") for part in _SWAP], 4, "body of event 4 was changed"),
        ([_ERASE, "DELETE FROM events WHERE position = 5"], 5, "Event 5 is missing"),
        (["DELETE FROM bodies WHERE position = 1", "DELETE FROM events WHERE position = 1"], 1, "Event 1 is missing"),
        ([_ERASE, "UPDATE bodies SET position = 5 WHERE position = 7"], 5, "body of event 5 was changed"),
    ],
)
async def test_tampering_is_found_at_the_first_bad_event(
    path: Path, statements: list[str], position: int, reason: str
) -> None:
    async with opened(path) as log:
        await log.append(STREAM, [renamed(f"t{number}") for number in range(1, 10)])
    behind_its_back(path, *statements)
    found = verify_file(path)
    assert (found.ok, found.bad_position, found.events) == (False, position, position - 1)
    assert reason in found.reason


async def test_erasing_is_no_tampering(path: Path) -> None:
    async with opened(path) as log:
        await log.append(STREAM, [renamed(f"t{number}") for number in range(1, 10)])
    behind_its_back(path, _ERASE)
    found = verify_file(path)
    assert (found.ok, found.events, found.erased) == (True, 9, 1)


async def test_a_body_that_can_not_be_read_is_named(path: Path) -> None:
    async with opened(path) as log:
        await log.append(STREAM, [renamed("a")])
        behind_its_back(path, "UPDATE bodies SET body = CAST('{\"title\":7}' AS BLOB)")
        with pytest.raises(DamagedStore, match="position 1"):
            await log.read()


async def test_a_file_that_breaks_off_is_told_with_the_last_good_event(path: Path) -> None:
    async with opened(path) as log:
        await log.append(STREAM, [renamed("x" * 500) for _ in range(1000)])
    break_off(path)

    found = verify_file(path)

    assert not found.ok
    assert 0 <= found.events < 1000
    assert found.bad_position == found.events + 1
    assert f"can't be read from event {found.bad_position} on" in found.reason


def test_a_reader_can_not_write(path: Path) -> None:
    open_writable(path).close()
    with closing(open_readable(path)) as connection, pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM events")
