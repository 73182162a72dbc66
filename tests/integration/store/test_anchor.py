"""The signed head beside the log and beside the key: a cut tail, a rewritten chain and an older copy are named."""

import asyncio
import os
import shutil
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.anchor import Anchor, Anchoring, make_key, read_anchor, read_key, sign, write_anchor
from ozzie_server_ext.store.log import Head
from ozzie_server_ext.store.memory import InMemoryEventLog
from tests.integration.store.anchored import NOW, AnchoredHome, files_at
from tests.replay.histories import renamed

KEY = b"k" * 32


@pytest.fixture
def home(tmp_path: Path) -> AnchoredHome:
    return AnchoredHome(tmp_path / "home", tmp_path / "config")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def remove(*paths: Path) -> None:
    for path in paths:
        path.unlink()


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def move(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(path, to)


def copy(path: Path, to: Path) -> None:
    shutil.copytree(path, to, dirs_exist_ok=True)


def records(home: AnchoredHome) -> list[Path]:
    return list(home.files.records.iterdir())


async def test_closing_anchors_the_last_event_in_both_places(home: AnchoredHome) -> None:
    assert await home.run(3) == ""
    verdict = await home.verified()
    assert verdict.ok
    assert (home.anchored, home.record.position, home.record.log) == (3, 3, verdict.first)
    assert [mode(path) for path in (home.files.anchor, home.files.record)] == [0o600, 0o600]
    assert mode(home.files.records) == 0o700
    assert await home.run(2) == ""
    assert (home.anchored, home.record.position, (await home.verified()).ok) == (5, 5, True)


async def test_a_cut_tail_is_named(home: AnchoredHome) -> None:
    await home.run(5)
    home.cut_after(3)
    found = (await home.verified()).found
    assert (found.ok, found.bad_position, found.events) == (False, 4, 3)
    assert "event 5 was anchored" in found.reason


async def test_a_cut_tail_whose_anchor_went_with_it_is_named_and_not_anchored_anew(home: AnchoredHome) -> None:
    await home.run(5)
    home.cut_after(3)
    remove(home.files.anchor)
    assert "The log was cut: it ends at 3, and event 5 was anchored." in await home.run(2)
    assert not home.files.anchor.exists()
    assert not (await home.verified()).ok


async def test_without_anchor_and_record_a_log_with_events_is_not_taken_for_whole(home: AnchoredHome) -> None:
    await home.run(5)
    home.cut_after(3)
    remove(home.files.anchor, home.files.record)
    warning = await home.run(1)
    assert f"anchor {home.files.anchor} and its record {home.files.record} are missing" in warning
    assert "ozzie events accept" in warning
    assert not (await home.verified()).ok


async def test_a_kill_before_the_first_event_was_anchored_raises_no_alarm(home: AnchoredHome) -> None:
    await home.killed(0)
    assert (await home.verified()).ok
    await home.killed(3)
    verdict = await home.verified()
    assert (verdict.ok, verdict.chain.events) == (True, 3)
    assert await home.run(1) == ""
    assert (home.anchored, home.record.log) == (4, verdict.first)


async def test_an_older_copy_with_its_anchor_is_named(home: AnchoredHome, tmp_path: Path) -> None:
    await home.run(3)
    await asyncio.to_thread(copy, home.files.home, tmp_path / "backup")
    await home.run(3)
    await asyncio.to_thread(copy, tmp_path / "backup", home.files.home)
    found = await home.run(1)
    assert "an older copy was put back with its anchor: it ends at 3, and event 6 was anchored." in found

    await home.accepted()

    assert (await home.verified()).ok
    assert await home.run(1) == ""
    (accepted,) = home.record.accepted
    assert (accepted.at, accepted.position) == (NOW.isoformat(), 4)
    assert "older copy" in accepted.reason


async def test_a_home_that_was_moved_goes_on_and_takes_its_record_with_it(home: AnchoredHome, tmp_path: Path) -> None:
    await home.run(3)
    await asyncio.to_thread(move, home.files.home, tmp_path / "elsewhere")
    moved = AnchoredHome(tmp_path / "elsewhere", tmp_path / "config")
    assert (await moved.verified()).ok
    assert await moved.run(1) == ""
    assert (moved.record.position, len(records(moved))) == (4, 1)


async def test_a_home_that_was_cut_and_moved_is_named(home: AnchoredHome, tmp_path: Path) -> None:
    await home.run(3)
    home.cut_after(2)
    remove(home.files.anchor)
    await asyncio.to_thread(move, home.files.home, tmp_path / "elsewhere")
    moved = AnchoredHome(tmp_path / "elsewhere", tmp_path / "config")
    assert "it ends at 2, and event 3 was anchored" in await moved.run(0)
    await moved.accepted()
    assert (await moved.run(1), moved.record.position, len(records(moved))) == ("", 3, 1)


async def test_a_copied_home_says_so_and_both_go_on_once_it_is_accepted(home: AnchoredHome, tmp_path: Path) -> None:
    await home.run(3)
    await asyncio.to_thread(copy, home.files.home, tmp_path / "copy")
    copied = AnchoredHome(tmp_path / "copy", tmp_path / "config")
    warning = await copied.run(1)
    assert f"This is a copy of the log in {home.files.folder}, which is still there." in warning
    assert "ozzie events accept" in warning

    await copied.accepted()

    for each in (copied, home, copied, home):
        assert await each.run(2) == ""
        assert (await each.verified()).ok
    assert len(records(home)) == 2


async def test_a_link_to_a_home_is_the_same_home(home: AnchoredHome, tmp_path: Path) -> None:
    await home.run(3)
    link = tmp_path / "link"
    os.symlink(home.files.home, link)
    assert await AnchoredHome(link, tmp_path / "config").run(1) == ""
    assert len(records(home)) == 1


async def test_one_key_serves_several_homes(home: AnchoredHome, tmp_path: Path) -> None:
    other = AnchoredHome(tmp_path / "other", tmp_path / "config")
    for each in (home, other, home, other):
        assert await each.run(2) == ""
    assert len(records(home)) == 2


async def test_a_removed_log_is_named_also_where_a_new_one_began(home: AnchoredHome) -> None:
    await home.run(3)
    remove(home.files.anchor, home.files.database)
    assert "The log is gone" in (await home.verified()).found.reason
    assert "The log is gone: there is no event in it, and event 3 was anchored." in await home.run(1)
    assert "not the log that was kept" in await home.run(0)
    await home.accepted()
    assert (await home.run(1), home.anchored) == ("", 2)


async def test_going_on_does_not_wipe_out_the_evidence(home: AnchoredHome) -> None:
    await home.run(5)
    home.cut_after(3)
    assert "cut" in await home.run(4)
    assert not (await home.verified()).ok
    assert "rewritten" in await home.run(0)
    assert not (await home.verified()).ok


async def test_an_anchored_event_may_be_erased(home: AnchoredHome) -> None:
    await home.run(3)
    key = read_key(home.files.key)
    saved = read_anchor(home.files.anchor, key or b"")
    assert saved is not None
    await home.run(3)
    for erased in ("position = 3", "position IN (3, 4)", "TRUE"):
        home.change(f"DELETE FROM bodies WHERE {erased}")
        write_anchor(home.files.anchor, saved)
        assert await home.run(0) == ""
        assert (await home.verified()).ok


async def test_an_empty_log_needs_no_anchor(home: AnchoredHome) -> None:
    assert await home.run(0) == ""
    assert (await home.verified()).ok


async def test_an_anchor_with_another_key_is_refused_until_a_person_trusts_the_log(home: AnchoredHome) -> None:
    await home.run(3)
    write_anchor(home.files.anchor, sign(Head(1, "f" * 64), b"x" * 32))
    assert f"{home.files.anchor} was not signed with this user's key." in (await home.verified()).found.reason
    assert "not signed" in await home.run(1)
    await home.accepted()
    assert (await home.run(0), home.anchored) == ("", 4)


async def test_a_lost_key_is_not_made_anew_before_a_person_says_so(home: AnchoredHome) -> None:
    await home.run(3)
    remove(home.files.key)
    assert f"The anchor's key {home.files.key} is missing" in await home.run(0)
    assert not home.files.key.exists()
    await home.accepted()
    assert (await home.run(1), home.anchored) == ("", 4)


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

    def __init__(self, log: InMemoryEventLog, folder: Path) -> None:
        super().__init__(log, files_at(folder, folder), delay_s=0)
        self.written = asyncio.Event()

    async def _anchor(self) -> None:
        await super()._anchor()
        self.written.set()


async def test_commits_are_anchored_while_the_log_is_open(tmp_path: Path) -> None:
    log = InMemoryEventLog(FakeClock(), CountingIds())
    home = AnchoredHome(tmp_path, tmp_path)
    home.files.anchor.parent.mkdir()
    anchoring = _Watched(log, tmp_path)
    await anchoring.start()
    found: Anchor | None = None
    for position in (1, 2):
        anchoring.written.clear()
        await log.append("s", [renamed("a")])
        await asyncio.wait_for(anchoring.written.wait(), 10)
        found = read_anchor(home.files.anchor, make_key(home.files.key))
        assert found is not None
        assert (found.position, home.record.position) == (position, position)
    await anchoring.close()


async def test_an_anchor_that_can_not_be_written_stops_nothing_and_is_told_until_it_can(tmp_path: Path) -> None:
    log = InMemoryEventLog(FakeClock(), CountingIds())
    home = AnchoredHome(tmp_path / "missing", tmp_path / "config")
    anchoring = Anchoring(log, home.files)
    await anchoring.start()
    await log.append("s", [renamed("a")])
    assert "can't be written" in await anchoring.warning()
    home.files.anchor.parent.mkdir(parents=True)
    assert await anchoring.warning() == ""
    await anchoring.close()
    assert (home.anchored, home.record.position) == (1, 1)


def test_a_key_is_made_once_for_the_users_eyes_only(tmp_path: Path) -> None:
    path = tmp_path / "config" / "anchor.key"
    key = make_key(path)
    assert len(key) == 32
    assert mode(path) == 0o600
    assert make_key(path) == key


def test_a_file_that_is_no_key_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "anchor.key", b"short")
    with pytest.raises(Unavailable, match="not a key"):
        make_key(tmp_path / "anchor.key")
    write(tmp_path / "file", b"")
    with pytest.raises(Unavailable):
        make_key(tmp_path / "file" / "anchor.key")
