"""What `verify --deep` finds in files that were damaged, and that it changes nothing."""

import asyncio
import hashlib
import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import ConfigChanged
from ozzie_server_ext.observability.clock import FakeClock
from ozzie_server_ext.store.anchor import AnchorFiles, Anchoring
from ozzie_server_ext.store.blobs import FileBlobs
from ozzie_server_ext.store.checks import Checked, DailyCheck, DeepVerdict, check_deeply
from tests.integration.store.anchored import opened
from tests.replay.histories import draft, renamed, session_created
from tests.tiers import SOAK

CONTENT = b"the configuration" * 100
REF = hashlib.sha256(CONTENT).hexdigest()


class Kept:
    """A home with a log of some pages, tables, and a blob that an event names."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder / "home")
        self.files = AnchorFiles.of(self.home, folder / "config" / "anchor.key")
        self.blob = self.home.blobs / REF[:2] / REF[2:]

    async def fill(self) -> None:
        self.home.create()
        log = await opened(self.home.database)
        anchoring = Anchoring(log, self.files)
        await anchoring.start()
        ref = await FileBlobs(self.home.blobs).put(CONTENT)
        await log.append("config", [draft(ConfigChanged(version="1", blob=ref, files=(), previous=""))])
        await log.append("s", [draft(session_created()), *(renamed("x" * 400) for _ in range(300))])
        await log.close()
        await anchoring.close()

    def check(self) -> DeepVerdict:
        return check_deeply(self.files, self.home.blobs)

    @property
    def said(self) -> str:
        """All that the check says; "" if nothing is wrong."""
        try:
            found = self.check()
        except OzzieError as error:
            return f"{error} {error.hint}"
        assert found.ok == (not found.faults and not found.verdict.sentence)
        return "\n".join([found.verdict.sentence, *map(str, found.faults)]).strip()

    def change(self, statement: str) -> None:
        with closing(sqlite3.connect(self.home.database, isolation_level=None)) as connection:
            connection.execute(statement)

    def contents(self) -> dict[Path, bytes]:
        files = [path for path in self.home.root.rglob("*") if path.is_file()]
        return {path: path.read_bytes() for path in files if path.suffix not in (".db-wal", ".db-shm")}


@pytest.fixture
async def kept(tmp_path: Path) -> Kept:
    home = Kept(tmp_path)
    await home.fill()
    return home


def page_of_index(database: Path, index: str) -> int:
    """The offset of the index's own page in the file."""
    with closing(sqlite3.connect(database)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (index,)).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    return (root - 1) * size


def flip(path: Path, at: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 0xFF]))


def flip_in_index(kept: Kept) -> None:
    flip(kept.home.database, page_of_index(kept.home.database, "events_by_session") + 5)


def flip_in_body(kept: Kept) -> None:
    flip(kept.home.database, kept.home.database.read_bytes().index(b'"title":"xxxxxxxx') + 12)


def flip_in_envelope(kept: Kept) -> None:
    """A commitment that is no text any more."""
    with closing(sqlite3.connect(kept.home.database)) as connection:
        (text,) = connection.execute("SELECT commitment FROM events WHERE position = 300").fetchone()
    flip(kept.home.database, kept.home.database.read_bytes().index(text.encode()))


def flip_in_table(kept: Kept) -> None:
    """A title of the table `sessions`, in which no quotation mark comes before it."""
    content = kept.home.database.read_bytes()
    flip(kept.home.database, next(m.start(1) for m in re.finditer(rb'[^"x](x{400})', content)) + 9)


def flip_in_search_index(kept: Kept) -> None:
    """The length of a document, from which its rank is computed."""
    kept.change("UPDATE search_docsize SET sz = X'0105' WHERE id = (SELECT max(id) FROM search_docsize)")


def spoil_search_index(kept: Kept) -> None:
    kept.change("UPDATE search_data SET block = X'FF' WHERE id > 10")


def forget_in_search_index(kept: Kept) -> None:
    """All documents but the last: what is missing at the end is added at the next start."""
    kept.change("INSERT INTO search (search) VALUES ('delete-all')")
    kept.change("INSERT INTO search (rowid, terms, scope) SELECT max(position), 'a', '' FROM events")


def flip_in_header(kept: Kept) -> None:
    flip(kept.home.database, 1)


def truncate(kept: Kept) -> None:
    os.truncate(kept.home.database, kept.home.database.stat().st_size // 2)


def change_blob(kept: Kept) -> None:
    flip(kept.blob, 3)


def cut_blob(kept: Kept) -> None:
    os.truncate(kept.blob, 5)


def delete_blob(kept: Kept) -> None:
    kept.blob.unlink()


def link_blob(kept: Kept) -> None:
    kept.blob.rename(kept.blob.with_name("elsewhere"))
    kept.blob.symlink_to(kept.blob.with_name("elsewhere"))


def change_row(kept: Kept) -> None:
    kept.change("UPDATE sessions SET title = 'another'")


def delete_row(kept: Kept) -> None:
    kept.change("DELETE FROM sessions")


def add_row(kept: Kept) -> None:
    kept.change("INSERT INTO blobs (ref, needed) VALUES ('sha256:00', 1)")


def cut_log(kept: Kept) -> None:
    kept.change("DELETE FROM bodies WHERE position > 300")
    kept.change("DELETE FROM events WHERE position > 300")


DAMAGES: dict[Callable[[Kept], None], tuple[str, ...]] = {
    flip_in_index: ("The database is damaged: ", "Put the newest backup"),
    flip_in_body: ("The log was changed after it was written: first bad event ", "Put the newest backup"),
    flip_in_envelope: ("The log was changed after it was written: first bad event 300.", "Put the newest backup"),
    flip_in_table: (
        "The table sessions can't be read: Could not decode to UTF-8 column 'title'.",
        "ozzie events rebuild",
    ),
    flip_in_header: ("is damaged: file is not a database.", "Put a backup of the folder data in its place"),
    truncate: ("damaged", "backup"),
    change_blob: ("The content of the blob {blob} was changed", "Put {blob} back from a backup."),
    cut_blob: ("The content of the blob {blob} was changed", "Put {blob} back from a backup."),
    delete_blob: (f"The blob sha256:{REF}, which an event names, is missing.", "Put {blob} back from a backup."),
    link_blob: ("The blob {blob} can't be read", "Put {blob} back from a backup."),
    change_row: ("The table sessions is not what the log says, from {{", '"session_id":"sess_', "ozzie events rebuild"),
    delete_row: ("The table sessions is not what the log says, from {{", "ozzie events rebuild"),
    add_row: ("The table blobs is not what the log says", "sha256:00", "ozzie events rebuild"),
    flip_in_search_index: ("The index for searching is not what the log says.", "ozzie events rebuild"),
    spoil_search_index: ("The index for searching can't be read", "ozzie events rebuild"),
    forget_in_search_index: ("The index for searching is not what the log says.", "ozzie events rebuild"),
    cut_log: ("The log was cut: it ends at 300", "ozzie events accept"),
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_named_with_what_to_do(kept: Kept, damage: Callable[[Kept], None]) -> None:
    assert kept.said == ""
    damage(kept)
    before = kept.contents()

    said = kept.said

    for part in DAMAGES[damage]:
        assert part.format(blob=kept.blob) in said
    assert kept.contents() == before


@pytest.mark.sampled
@pytest.mark.parametrize("number", range(400 if SOAK else 8))
def test_a_byte_flipped_anywhere_is_found_or_means_nothing(kept: Kept, number: int) -> None:
    """A byte in room that SQLite does not use means nothing: then every row is what it was."""
    at = number * 7919 * 13 % kept.home.database.stat().st_size
    with closing(sqlite3.connect(kept.home.database)) as connection:
        before = list(connection.iterdump())
    flip(kept.home.database, at)
    if kept.said == "":
        with closing(sqlite3.connect(kept.home.database)) as connection:
            assert list(connection.iterdump()) == before


def test_files_that_are_no_blobs_are_left_out(kept: Kept) -> None:
    (kept.blob.parent / ".new-abc").write_bytes(b"being written")
    (kept.home.blobs / "README").write_bytes(b"not of Ozzie")
    assert kept.said == ""
    assert kept.check().blobs == 1


async def test_a_log_in_use_is_checked_beside_its_owner(kept: Kept) -> None:
    log = await opened(kept.home.database)
    stop = asyncio.Event()

    async def write() -> None:
        while not stop.is_set():
            await log.append("s", [renamed("y")])

    writing = asyncio.create_task(write())
    try:
        found = await asyncio.to_thread(kept.check)
    finally:
        stop.set()
        await writing
        await log.close()
    assert found.faults == ()
    assert found.verdict.chain.ok


# --- once a day -----------------------------------------------------------------------------------------


class Watched(DailyCheck):
    """Says when a check has ended."""

    def __init__(self, kept: Kept, clock: FakeClock) -> None:
        super().__init__(kept.home, kept.files.key, clock, settle_s=0, look_s=0.01)
        self.ended: asyncio.Queue[Checked] = asyncio.Queue()

    async def check(self) -> Checked:
        found = await super().check()
        self.ended.put_nowait(found)
        return found

    async def next(self) -> Checked:
        return await asyncio.wait_for(self.ended.get(), 40)


async def test_once_a_day_a_process_of_its_own_checks_everything(kept: Kept) -> None:
    clock = FakeClock()
    first = Watched(kept, clock)
    await first.start()
    found = await first.next()
    assert (found.at, found.findings) == (clock.now(), ())
    await asyncio.to_thread(change_blob, kept)
    clock.advance(timedelta(days=1).total_seconds())
    found = await first.next()
    await first.stop()
    (finding,) = found.findings
    assert f"The content of the blob {kept.blob} was changed" in finding

    second = Watched(kept, clock)
    await second.start()
    await second.stop()
    assert second.last == found, "what an earlier gateway found is still known"


async def test_a_check_that_can_not_be_completed_says_so(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ozzie_server_ext.store.checks._PROGRAM", "ozzie_server_ext.programs.nonesuch")
    found = await Watched(kept, FakeClock()).check()
    assert "The check did not finish" in found.findings[0]
    assert "ozzie events verify --deep" in found.findings[0]


async def test_stopping_ends_a_check_under_way(kept: Kept) -> None:
    check = Watched(kept, FakeClock())
    await check.start()
    await asyncio.sleep(0)
    await check.stop()
    assert check.last is None
    assert not kept.home.last_check.exists()
