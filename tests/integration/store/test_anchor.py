"""The signed head beside the log: a cut tail and a rewritten chain are named (THREATS 19)."""

import asyncio
import shutil
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.anchor import (
    Anchor,
    Anchoring,
    load_key,
    read_anchor,
    sign,
    verify_anchor,
    write_anchor,
)
from ozzie_server_ext.store.log import Head, Verification
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.replay.histories import renamed

KEY = b"k" * 32


class Home:
    """A log on disk with its anchor, opened and closed as an owner does."""

    def __init__(self, folder: Path) -> None:
        self.database = folder / "ozzie.db"
        self.anchor = folder / "anchor.json"

    async def run(self, count: int) -> str | None:
        """Append that many events; what the anchoring had against the log."""
        log = await SqliteEventLog.open(self.database, clock=FakeClock(), ids=_ids())
        anchoring = Anchoring(log, self.anchor, KEY, delay_s=60)
        reason = await anchoring.start()
        for _ in range(count):
            await log.append("s", [renamed("a")])
        await log.close()
        await anchoring.close()
        return reason

    async def verify(self) -> Verification:
        log = await SqliteEventLog.open(self.database, clock=FakeClock(), ids=_ids())
        try:
            return await verify_anchor(log, self.anchor, KEY)
        finally:
            await log.close()

    def change(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.database, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)


_COUNTING = CountingIds()


def _ids() -> CountingIds:
    return _COUNTING  # the same ids never come again


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def remove(path: Path) -> None:
    path.unlink()


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "data")


async def test_closing_anchors_the_last_event(home: Home) -> None:
    assert await home.run(3) is None
    anchor = read_anchor(home.anchor, KEY)
    found = await home.verify()
    assert anchor is not None
    assert (found.ok, found.head) == (True, anchor.head)
    assert anchor.position == 3
    assert mode(home.anchor) == 0o600
    assert await home.run(2) is None
    assert (await home.verify()).ok


async def test_a_cut_tail_is_named(home: Home) -> None:
    await home.run(5)
    home.change("DELETE FROM bodies WHERE position > 3", "DELETE FROM events WHERE position > 3")
    found = await home.verify()
    assert (found.ok, found.bad_position) == (False, 4)
    assert "event 5 was anchored" in found.reason


async def test_a_chain_that_was_rewritten_whole_is_named(home: Home, tmp_path: Path) -> None:
    await home.run(3)
    other = Home(tmp_path / "other")
    await other.run(3)
    shutil.copy(other.database, home.database)  # a faultless chain, and not the one that was anchored
    found = await home.verify()
    assert (found.ok, found.bad_position) == (False, 3)
    assert "rewritten" in found.reason


async def test_going_on_does_not_wipe_out_the_evidence(home: Home) -> None:
    await home.run(5)
    home.change("DELETE FROM bodies WHERE position > 3", "DELETE FROM events WHERE position > 3")
    assert "cut" in str(await home.run(4))
    assert not (await home.verify()).ok
    assert "rewritten" in str(await home.run(0))
    assert not (await home.verify()).ok


async def test_an_anchored_event_may_be_erased(home: Home) -> None:
    await home.run(3)
    saved = read_anchor(home.anchor, KEY)
    assert saved is not None
    await home.run(3)
    for erased in ("position = 3", "position IN (3, 4)"):
        home.change(f"DELETE FROM bodies WHERE {erased}")
        write_anchor(home.anchor, saved)
        assert await home.run(0) is None
        assert (await home.verify()).ok


async def test_a_log_without_an_anchor_does_not_verify(home: Home) -> None:
    await home.run(3)
    remove(home.anchor)
    found = await home.verify()
    assert not found.ok
    assert "no anchor" in found.reason


async def test_an_empty_log_needs_no_anchor(home: Home) -> None:
    assert await home.run(0) is None
    assert (await home.verify()).ok


async def test_an_anchor_with_another_key_is_refused(home: Home) -> None:
    await home.run(3)
    write_anchor(home.anchor, sign(Head(1, "f" * 64), b"x" * 32))
    with pytest.raises(Unavailable, match="not signed"):
        await home.verify()
    assert "not signed" in str(await home.run(1))


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"position": "1", "hash": "", "signature": ""}', b"\xff"])
def test_a_file_that_is_no_anchor_is_refused(tmp_path: Path, content: bytes) -> None:
    write(tmp_path / "anchor.json", content)
    with pytest.raises(Unavailable, match="not signed"):
        read_anchor(tmp_path / "anchor.json", KEY)


def test_a_signature_covers_position_and_hash(tmp_path: Path) -> None:
    anchor = sign(Head(7, "a" * 64), KEY)
    for forged in (replace(anchor, position=8), replace(anchor, hash="b" * 64), replace(anchor, signature="é")):
        write_anchor(tmp_path / "anchor.json", forged)
        with pytest.raises(Unavailable):
            read_anchor(tmp_path / "anchor.json", KEY)
    write_anchor(tmp_path / "anchor.json", anchor)
    assert read_anchor(tmp_path / "anchor.json", KEY) == anchor


class _Watched(Anchoring):
    """Says when an anchor has been written."""

    def __init__(self, log: InMemoryEventLog, path: Path) -> None:
        super().__init__(log, path, KEY, delay_s=0)
        self.written = asyncio.Event()

    async def _anchor(self) -> None:
        await super()._anchor()
        self.written.set()


async def test_commits_are_anchored_while_the_log_is_open(tmp_path: Path) -> None:
    log = InMemoryEventLog(FakeClock(), CountingIds())
    anchoring = _Watched(log, tmp_path / "anchor.json")
    await anchoring.start()
    found: Anchor | None = None
    for position in (1, 2):
        anchoring.written.clear()
        await log.append("s", [renamed("a")])
        await asyncio.wait_for(anchoring.written.wait(), 10)
        found = read_anchor(tmp_path / "anchor.json", KEY)
        assert found is not None
        assert found.position == position
    await anchoring.close()


async def test_an_anchor_that_can_not_be_written_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = InMemoryEventLog(FakeClock(), CountingIds())
    anchoring = Anchoring(log, tmp_path / "missing" / "anchor.json", KEY)
    assert await anchoring.start() is None
    await log.append("s", [renamed("a")])
    await anchoring.close()
    assert "could not be written" in caplog.text


def test_a_key_is_made_once_for_the_users_eyes_only(tmp_path: Path) -> None:
    path = tmp_path / "config" / "anchor.key"
    key = load_key(path)
    assert len(key) == 32
    assert mode(path) == 0o600
    assert load_key(path) == key


def test_a_file_that_is_no_key_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "anchor.key", b"short")
    with pytest.raises(Unavailable, match="no key"):
        load_key(tmp_path / "anchor.key")
    write(tmp_path / "file", b"")
    with pytest.raises(Unavailable):
        load_key(tmp_path / "file" / "anchor.key")
