"""A long chain is verified by two processes, and what they find is what one finds."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ozzie_server_ext.observability.clock import FakeClock, UlidSource
from ozzie_server_ext.planes.one_shot import ErrandFailed, errand_beside
from ozzie_server_ext.store import checks, sqlite_events
from ozzie_server_ext.store.anchor import AnchorFiles
from ozzie_server_ext.store.checks import verify_home
from ozzie_server_ext.store.database import open_readable
from ozzie_server_ext.store.log import Verification
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.replay.histories import Histories
from tests.verified import verify_file


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AnchorFiles:
    """A log that is long enough for two processes."""
    monkeypatch.setattr(checks, "_WORTH_TWO", 10)
    files = AnchorFiles(tmp_path, tmp_path / "anchor.json", tmp_path / "ozzie.db", tmp_path / "keys" / "anchor.key")

    async def fill() -> None:
        log = await SqliteEventLog.open(files.database, clock=FakeClock(), ids=UlidSource())
        for stream, drafts in Histories(7).take(60):
            await log.append(stream, drafts)
        await log.close()

    asyncio.run(fill())
    return files


def change(database: Path, sql: str) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute(sql)


def by_one(database: Path) -> Verification:
    with closing(open_readable(database)) as connection:
        return sqlite_events.verify(connection)


def by_two(files: AnchorFiles, monkeypatch: pytest.MonkeyPatch) -> tuple[Verification, bool]:
    """Return what two processes find, and whether the second one was asked and answered."""
    answers: list[bytes] = []

    @contextmanager
    def noted(module: str, task: bytes) -> Iterator[Callable[[], bytes]]:
        with errand_beside(module, task) as answer:

            def answered() -> bytes:
                answers.append(answer())
                return answers[-1]

            yield answered

    monkeypatch.setattr(checks, "errand_beside", noted)
    return verify_home(files).chain, bool(answers)


CHANGES = {
    "nothing": "SELECT 1",
    "a body": "UPDATE bodies SET body = x'5b5d' WHERE position = {at}",
    "an envelope": "UPDATE events SET actor = 'someone' WHERE position = {at}",
    "a hash": "UPDATE events SET hash = 'x' || hash WHERE position = {at}",
    "a missing event": "DELETE FROM events WHERE position = {at}",
    "erased": "DELETE FROM bodies WHERE position IN ({at}, 1)",
}


@pytest.mark.parametrize("what", CHANGES)
def test_two_processes_find_what_one_finds(files: AnchorFiles, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    end = verify_file(files.database).events
    whole = files.database.read_bytes()
    for at in (3, end // 2, end // 2 + 1, end - 2):
        files.database.write_bytes(whole)
        change(files.database, "PRAGMA foreign_keys = OFF")
        change(files.database, CHANGES[what].format(at=at))
        found, has_answered = by_two(files, monkeypatch)
        assert found == by_one(files.database), at
        assert has_answered or (not found.ok and at <= end // 2), "one process alone would be no proof"


@pytest.mark.parametrize("position", [0, -1, -(1 << 63)])
def test_an_event_that_was_put_in_before_the_first_is_found(
    files: AnchorFiles, monkeypatch: pytest.MonkeyPatch, position: int
) -> None:
    with closing(sqlite3.connect(files.database, isolation_level=None)) as connection:
        columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(events)")]
        first = dict(
            zip(columns, connection.execute("SELECT * FROM events WHERE position = 1").fetchone(), strict=True)
        )
        forged = {**first, "position": position, "version": 999, "event_id": "forged"}
        connection.execute(f"INSERT INTO events VALUES ({', '.join('?' * len(forged))})", list(forged.values()))
    found, _ = by_two(files, monkeypatch)

    assert not found.ok
    assert found == by_one(files.database)


@pytest.mark.parametrize("why", ["not started", "failed", "no answer"])
def test_without_a_second_process_one_verifies_it_all(
    files: AnchorFiles, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    @contextmanager
    def failing(module: str, task: bytes) -> Iterator[Callable[[], bytes]]:
        if why == "not started":
            raise ErrandFailed("no room")
        with errand_beside("this" if why == "no answer" else "ozzie_server_ext.programs.verify_rest", b"{}") as answer:
            yield answer

    monkeypatch.setattr(checks, "errand_beside", failing)
    assert verify_home(files).chain == by_one(files.database)
