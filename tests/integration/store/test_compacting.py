"""A home whose blobs are files, as an earlier Ozzie kept them, is compacted, and every blob stays what it was."""

import asyncio
import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.events import ConfigChanged, EventBody, ModelCallFailed, ModelCallStarted
from ozzie_server_ext.domain.ids import BlobRef, CallId, ReplyId, SessionId, session_stream
from ozzie_server_ext.observability.clock import FakeClock, UlidSource
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store import compacting
from ozzie_server_ext.store.anchor import AnchorFiles
from ozzie_server_ext.store.blobs import FileBlobs, digest_of
from ozzie_server_ext.store.checks import check_deeply
from ozzie_server_ext.store.compacting import compact
from ozzie_server_ext.store.contents import MOST_OF_A_PART, DatabaseBlobs, Parts
from ozzie_server_ext.store.database import open_writable
from ozzie_server_ext.store.erasing import Target
from ozzie_server_ext.store.log import DamagedStore
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.replay.histories import draft, session_created

SESSIONS = [SessionId(f"sess_01{letter * 24}") for letter in "AB"]
CALLS = 60
LARGE = b"x" * (MOST_OF_A_PART + 1)


def request(texts: list[str]) -> bytes:
    system = {"role": "system", "content": "You are Ozzie. " * 40}
    messages = [system, *({"role": "user", "content": text} for text in texts)]
    return canonical_bytes(
        {"alias": "a", "max_tokens": 9, "messages": messages, "model": "m", "tools": [{"name": "t"}]}
    )


class Old:
    """A home of two sessions, with files for all blobs: `blobs` has what is in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database, self.files = folder / "ozzie.db", folder / "blobs"
        self.blobs: dict[BlobRef, bytes] = {}

    async def fill(self, calls: int = CALLS) -> None:
        log = await SqliteEventLog.open(self.database, clock=FakeClock(), ids=UlidSource())
        files = FileBlobs(self.files)
        texts: dict[SessionId, list[str]] = {session: [] for session in SESSIONS}
        for number in range(calls):
            session = SESSIONS[number % 2]
            texts[session].append(f"message {number} " * 10)
            ref = await self._put(files, request(texts[session]))
            await log.append(f"s{number % 2}", [draft(self._started(number, ref), session_id=session)])
        for number, content in enumerate((b'{ "messages": [] }', b"{}", b"[]", request([LARGE.decode()]))):
            ref = await self._put(files, content)
            await log.append("s0", [draft(self._started(900 + number, ref), session_id=SESSIONS[0])])
        partial = ModelCallFailed(
            call_id=CallId("c0"), code="c", message="m", latency_ms=1.0, partial_blob=await self._put(files, b"partial")
        )
        await log.append("s0", [draft(partial, session_id=SESSIONS[0])])
        ref = await self._put(files, b"settings")
        await log.append("config", [draft(ConfigChanged(version="1", blob=ref, files=(), previous=""))])
        await log.close()

    async def _put(self, files: FileBlobs, content: bytes) -> BlobRef:
        ref = await files.put(content)
        self.blobs[ref] = content
        return ref

    def _started(self, number: int, ref: BlobRef) -> EventBody:
        return ModelCallStarted(
            call_id=CallId(f"c{number}"),
            reply_id=ReplyId(f"r{number}"),
            round=1,
            alias="a",
            provider="p",
            model="m",
            request_blob=ref,
            config="",
            prompt="",
            tools="",
            project="",
            day="",
        )

    async def expect_whole(self) -> None:
        log = await SqliteEventLog.open(self.database, clock=FakeClock(), ids=UlidSource())
        blobs = DatabaseBlobs(log, FileBlobs(self.files))
        for ref, content in self.blobs.items():
            assert await blobs.get(ref) == content
        await log.close()

    def left(self) -> list[Path]:
        return [path for path in self.files.rglob("*") if path.is_file()]


@pytest.fixture
async def old(tmp_path: Path) -> Old:
    home = Old(tmp_path / "data")
    await home.fill()
    return home


async def test_requests_and_answers_become_rows_and_all_else_stays_files(old: Old) -> None:
    done = compact(old.database, old.files)

    assert (done.files, done.damaged) == (CALLS + 4, ())
    assert sorted(path.stat().st_size for path in old.left()) == [8, len(request([LARGE.decode()]))]
    assert done.before == sum(map(len, old.blobs.values())) - sum(path.stat().st_size for path in old.left())
    assert done.after < done.before / 5
    await old.expect_whole()
    assert compact(old.database, old.files).files == 0


async def test_a_compacted_home_verifies(old: Old, tmp_path: Path) -> None:
    files = AnchorFiles(old.folder, old.folder / "anchor.json", old.database, tmp_path / "keys" / "anchor.key")
    compact(old.database, old.files)
    found = check_deeply(files, old.files)
    assert (found.faults, found.blobs) == ((), CALLS + 6)


async def test_a_damaged_file_stays_and_is_named(old: Old) -> None:
    damaged = next(path for path in old.left() if path.read_bytes() == b"partial")
    damaged.write_bytes(b"other")
    done = compact(old.database, old.files)

    assert len(done.damaged) == 1
    assert damaged.read_bytes() == b"other"


async def test_a_file_stays_while_its_row_is_damaged(old: Old, tmp_path: Path) -> None:
    kept = shutil.copytree(old.files, tmp_path / "kept")
    compact(old.database, old.files)
    shutil.copytree(kept, old.files, dirs_exist_ok=True)
    with closing(open_writable(old.database)) as connection:
        connection.execute("UPDATE parts SET content = x'00' WHERE content = CAST('partial' AS BLOB)")
    with pytest.raises(DamagedStore, match="is not what was put there"):
        compact(old.database, old.files)
    assert len(old.left()) == len(old.blobs)


async def test_a_folder_that_no_present_version_has_opened_is_refused(old: Old) -> None:
    with closing(open_writable(old.database)) as connection:
        connection.execute("DROP TABLE contents")
    with pytest.raises(Conflict, match="An older Ozzie made this folder"):
        compact(old.database, old.files)


class Stop(Exception):
    """The end of the process, as it were."""


@pytest.mark.parametrize("seed", range(12))
async def test_a_compaction_that_ends_anywhere_loses_nothing_and_goes_on(
    old: Old, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(compacting, "_STEP_BYTES", 3000)
    countdown = random.Random(seed).randrange(CALLS)

    def ending(work: Callable[..., None]) -> Callable[..., None]:
        def until_then(*args: object, **named: object) -> None:
            nonlocal countdown
            countdown -= 1
            if countdown < 0:
                raise Stop
            work(*args, **named)

        return until_then

    monkeypatch.setattr(Path, "unlink", ending(Path.unlink))
    monkeypatch.setattr(compacting.ContentWriter, "write", ending(compacting.ContentWriter.write))
    with pytest.raises(Stop):
        compact(old.database, old.files)
    monkeypatch.undo()
    await old.expect_whole()
    compact(old.database, old.files)

    await old.expect_whole()
    assert len(old.left()) == 2


async def test_a_gateway_reads_on_while_its_home_is_compacted(old: Old) -> None:
    log = await SqliteEventLog.open(old.database, clock=FakeClock(), ids=UlidSource())
    blobs = DatabaseBlobs(log, FileBlobs(old.files))

    async def read_all() -> None:
        for ref, content in old.blobs.items():
            assert await blobs.get(ref) == content

    await asyncio.gather(read_all(), asyncio.to_thread(compact, old.database, old.files), read_all())
    await read_all()
    kept = await blobs.put_parts([b"new"], SESSIONS[0])
    await log.append("config", [draft(ConfigChanged(version="2", blob=kept, files=(), previous="1"))])
    blobs.named(kept)
    assert await blobs.get(kept) == b"new"
    await log.close()


async def test_what_a_gateway_erases_meanwhile_does_not_become_rows(old: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacting, "_STEP_BYTES", 3000)
    log = await SqliteEventLog.open(old.database, clock=FakeClock(), ids=UlidSource())
    for session in SESSIONS:
        await log.append(session_stream(session), [draft(session_created(f"key {session}"), session_id=session)])
    named = [event for event in await log.read() if isinstance(event.body, ModelCallStarted)]
    loop, move = asyncio.get_running_loop(), compacting._Compaction._move
    moves = 0

    def erase_and_move(self: compacting._Compaction, step: dict[BlobRef, Parts]) -> None:
        nonlocal moves
        moves += 1
        if moves == 3:
            asyncio.run_coroutine_threadsafe(log.erase(Target("ana", SESSIONS[0])), loop).result(30)
        move(self, step)

    monkeypatch.setattr(compacting._Compaction, "_move", erase_and_move)
    await asyncio.to_thread(compact, old.database, old.files)

    assert moves > 3
    for event in named:
        assert isinstance(event.body, ModelCallStarted)
        is_there = await log.content(digest_of(event.body.request_blob)) is not None
        assert is_there is (event.session_id == SESSIONS[1])
    await log.close()
