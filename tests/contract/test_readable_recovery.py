"""The readable files after crashes, erasures, restored logs and full disks: they equal files written from nothing."""

import asyncio
import errno
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from ozzie_server_ext.domain.events import Event, ToolCallCompleted, ToolCallRequested
from ozzie_server_ext.domain.ids import CallId, SessionId, TaskId, session_stream, task_stream
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store import readable, readable_disk, readable_lines
from ozzie_server_ext.store.database import forget_tables
from ozzie_server_ext.store.feed import size_of
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.readable import _MOST_FRESH_BYTES, ReadableFiles
from ozzie_server_ext.store.readable_disk import note_of, renewal_of
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.contract.test_readable import DAY, SUM, a_turn, contents, lines, written
from tests.replay.histories import (
    SESSION,
    TASK,
    call_completed,
    call_failed,
    call_started,
    completed,
    draft,
    received,
    renamed,
    session_created,
    task_created,
    task_draft,
)
from tests.replay.stores import Store

DAY_S = 24 * 3600
OTHER = SessionId("sess_01ZZZZZZZZZZZZZZZZZZZZZZZZ")
OTHER_TASK = TaskId("01YYYYYYYYYYYYYYYYYYYYYYYY")
FULL = OSError(errno.ENOSPC, "No space left on device")


async def another_turn(log: EventLog, text: str = "And you?", key: str = "2") -> None:
    """A turn in a session of its own."""
    session = [draft(replace(session_created("other.ipynb"), title=f"Title of {text}"), session_id=OTHER)]
    if not await log.version(session_stream(OTHER)):
        await log.append(session_stream(OTHER), session)
    facts = (
        received(text, message_id=f"01MMMMMMMMMMMMMMMMMMMMMMM{key}"),
        *(() if await log.version(task_stream(OTHER_TASK)) else (task_created(),)),
        call_started(f"01XXXXXXXXXXXXXXXXXXXXXXX{key}"),
        call_completed(f"01XXXXXXXXXXXXXXXXXXXXXXX{key}"),
        completed(f"01WWWWWWWWWWWWWWWWWWWWWWW{key}", f"Answer to {text}"),
    )
    await log.append(task_stream(OTHER_TASK), [draft(fact, session_id=OTHER, task_id=OTHER_TASK) for fact in facts])


class Counting:
    """A log that counts what is read."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self.calls: list[dict[str, Any]] = []
        self.events = 0

    async def read(self, **which: Any) -> tuple[Event, ...]:
        self.calls.append(which)
        return self._count(await self._log.read(**which))

    async def read_stream(self, stream: str, **which: Any) -> tuple[Event, ...]:
        self.calls.append(which)
        return self._count(await self._log.read_stream(stream, **which))

    def _count(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        self.events += len(events)
        return events

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def readable_text(root: Path) -> str:
    return "".join(path.read_text() for path in root.rglob("*") if path.suffix in {".jsonl", ".json", ".md"})


def counting(log: EventLog) -> Any:
    return Counting(log)


# --- erased ---------------------------------------------------------------------------------------------------------


async def test_what_was_erased_is_in_no_file_after_a_renewal(store: Store, tmp_path: Path) -> None:
    root = tmp_path / "home"
    await another_turn(store.log, "the secret")
    erased = (await store.log.head()).position
    store.clock.advance(DAY_S)
    await a_turn(store.log)
    assert "the secret" in str(await written(store.log, root))
    for position in range(1, erased + 1):
        await store.erase(position)
    await store.log.rebuild()
    renewal_of(root).touch()

    found = await written(store.log, root)

    assert "secret" not in str(found)
    assert f"events/{DAY}.jsonl" not in found
    assert not (root / "sessions" / OTHER).exists()
    assert found == await written(store.log, tmp_path / "fresh")


@pytest.mark.parametrize("start", ["a renewal", "no note", "a new log"])
async def test_files_of_nothing_in_the_log_go_whenever_all_are_written(
    log: EventLog, tmp_path: Path, start: str
) -> None:
    root = tmp_path / "home"
    if start != "a new log":
        await a_turn(log)
    whole = await written(log, root)
    old = ("events/2020-01-01.jsonl", "logs/2020-01-01.md", f"sessions/{OTHER}/meta.json", "sessions/.new-index.jsonl")
    for name in (*old, f"sessions/{OTHER}/.new-meta.json", f"sessions/{OTHER}/messages.jsonl"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("erased")
    renewal_of(root).touch() if start == "a renewal" else note_of(root).unlink(missing_ok=True)

    assert await written(log, root) == whole
    assert not (root / "sessions" / OTHER).exists()


async def test_a_renewal_leaves_all_other_files(log: EventLog, tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    await a_turn(log)
    await written(log, root)
    kept = [
        root / "logs" / "app.jsonl",
        root / "logs" / "app" / "2020-01-01.jsonl",
        root / "logs" / "2020-01-01.md.bak",
        root / "events" / "2020-01-01.txt",
        root / "sessions" / OTHER / "notes.md",
        root / "sessions" / "sess_mine" / "meta.json",
        elsewhere / "meta.json",
    ]
    for path in kept:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a person's")
    (root / "sessions" / "sess_01XXXXXXXXXXXXXXXXXXXXXXXX").symlink_to(elsewhere)
    renewal_of(root).touch()
    await written(log, root)

    assert [path.read_text() for path in kept] == ["a person's"] * len(kept)


async def test_a_renewal_doubles_nothing_in_a_folder_that_is_a_link(log: EventLog, tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    await a_turn(log)
    whole = await written(log, root)
    (root / "events").rename(elsewhere)
    (root / "events").symlink_to(elsewhere)
    renewal_of(root).touch()
    await written(log, root)

    assert (elsewhere / f"{DAY}.jsonl").read_text() == whole[f"events/{DAY}.jsonl"]


@pytest.mark.parametrize("note", ["there", "gone"])
async def test_a_renewal_waits_until_the_tables_are_rebuilt(tmp_path: Path, note: str) -> None:
    """`ozzie events rebuild` while a gateway runs, whose tables still have what was erased."""
    store = tmp_path / "data" / "ozzie.db"
    log = await SqliteEventLog.open(store, clock=FakeClock(), ids=CountingIds())
    await a_turn(log)
    await log.append(session_stream(SESSION), [renamed("The secret")])
    await ReadableFiles(log, tmp_path).catch_up()
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("DELETE FROM bodies WHERE position = ?", ((await log.head()).position,))
    forget_tables(store)
    renewal_of(tmp_path).touch()

    if note == "gone":
        note_of(tmp_path).unlink()
    await ReadableFiles(log, tmp_path).catch_up()
    assert renewal_of(tmp_path).exists()

    await log.close()
    log = await SqliteEventLog.open(store, clock=FakeClock(), ids=CountingIds())
    await ReadableFiles(log, tmp_path).catch_up()
    await log.close()
    assert "Notebook" in readable_text(tmp_path)
    assert "The secret" not in readable_text(tmp_path)
    assert not renewal_of(tmp_path).exists()


# --- crashes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", ["none", "cut", "doubled", "gone"])
async def test_after_a_crash_behind_the_note_the_files_equal_a_fresh_write(
    store: Store, tmp_path: Path, harm: str
) -> None:
    """A call is open and another session untouched when the position is noted; it ends behind midnight."""
    root, log = tmp_path / "home", store.log
    await another_turn(log)
    await a_turn(log)
    tool: Any = {"tool_id": "calculator", "name": "calculator", "version": "1"}
    use = ToolCallRequested(call_id=CallId("late"), use_id="l", args={}, round=1, index=0, **tool)
    await log.append(task_stream(TASK), [task_draft(use)])
    await written(log, root)
    note = note_of(root).read_bytes()
    store.clock.advance(DAY_S)
    done = ToolCallCompleted(call_id=CallId("late"), ok=True, data={"value": "5"}, summary="5", duration_ms=1.0)
    facts = (done, call_started("c3"), call_completed("c3"), completed("r3", "It is 5."))
    await log.append(task_stream(TASK), [task_draft(fact) for fact in facts])
    second = ReadableFiles(log, root)
    await second._take_up()
    await second._write_new()
    note_of(root).write_bytes(note)
    for name in ("events/2026-01-02.jsonl", "logs/2026-01-02.md", f"sessions/{SESSION}/messages.jsonl"):
        text = (root / name).read_text()
        if harm == "gone":
            (root / name).unlink()
        else:
            (root / name).write_text({"cut": text[:-9], "doubled": text + text[-30:]}.get(harm, text))

    assert await written(log, root) == await written(log, tmp_path / "fresh")
    assert "calculator: 5" in (root / "logs" / "2026-01-02.md").read_text()


@pytest.mark.parametrize("restored", ["shorter", "another of the same length"])
async def test_behind_a_restored_log_all_files_are_written(tmp_path: Path, restored: str) -> None:
    before, after = (InMemoryEventLog(FakeClock(), CountingIds()) for _ in range(2))
    root = tmp_path / "home"
    await a_turn(before)
    if restored == "shorter":
        await after.append(session_stream(SESSION), [draft(session_created())])
    else:
        await another_turn(after)
        while (await after.head()).position < (await before.head()).position:
            await after.append(session_stream(OTHER), [draft(renamed("x").body, session_id=OTHER)])
    await written(before, root)

    assert await written(after, root) == await written(after, tmp_path / "fresh")


async def test_a_renewal_that_a_crash_ends_is_begun_again(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note alone carries it: its mark is gone when the first file is touched."""
    root = tmp_path / "home"
    await a_turn(log)
    whole = await written(log, root)
    renewal_of(root).touch()
    with monkeypatch.context() as patch:
        patch.setattr(readable_disk, "store", failing(FULL))
        with pytest.raises(OSError, match="No space"):
            await written(log, root)

    assert not renewal_of(root).exists()
    assert await written(log, root) == whole


async def test_a_mark_set_during_a_renewal_is_for_the_next_one(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "home"
    await a_turn(log)
    await written(log, root)
    renewal_of(root).touch()
    real = readable_disk.store

    first = iter([True])

    def marking(*args: Any) -> Any:
        if next(first, False):
            renewal_of(root).touch()
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(readable_disk, "store", marking)
        await written(log, root)
    assert renewal_of(root).exists()
    await written(log, root)
    assert not renewal_of(root).exists()


async def test_new_files_are_durable_in_their_folders(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[Path] = set()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.add(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    root = tmp_path / "home"
    await a_turn(log)
    await written(log, root)

    assert {root, *(root / name for name in ("events", "logs", "sessions", f"sessions/{SESSION}"))} <= synced


# --- disks ----------------------------------------------------------------------------------------------------------


def failing(error: OSError, before: Callable[[], object] = lambda: None) -> Callable[..., None]:
    def fail(*_: object) -> None:
        before()
        raise error

    return fail


class Stuck:
    """A write that takes until `release`, and then fails."""

    def __init__(self) -> None:
        self.begun, self.release = threading.Event(), threading.Event()
        self.count = 0

    def __call__(self, *_: object) -> None:
        self.count += 1
        self.begun.set()
        self.release.wait(20)
        raise FULL


@pytest.mark.parametrize("how", ["stop", "abandon"])
async def test_they_end_though_a_write_fails_meanwhile(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    (tmp_path / "home" / "data").mkdir(parents=True)
    files, stuck = ReadableFiles(log, tmp_path / "home"), Stuck()
    await files.catch_up()
    await a_turn(log)
    monkeypatch.setattr(readable_disk, "store", stuck)
    files.start()
    await asyncio.to_thread(stuck.begun.wait)
    if how == "abandon":
        files.abandon()
    stopping = asyncio.create_task(files.stop())
    await asyncio.sleep(0)
    stuck.release.set()

    async with asyncio.timeout(10):
        await stopping
    assert stuck.count == 1


async def test_a_gateway_that_lost_its_home_writes_nothing_more(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is lost in the middle of a page, of which several writes were to come."""
    root = tmp_path / "home"
    (root / "data").mkdir(parents=True)
    files, begun, release = ReadableFiles(log, root), threading.Event(), threading.Event()
    await files.catch_up()
    await a_turn(log)
    real = readable_disk.store

    def slowly(*args: Any) -> Any:
        begun.set()
        release.wait(20)
        return real(*args)

    monkeypatch.setattr(readable_disk, "store", slowly)
    files.start()
    await asyncio.to_thread(begun.wait)
    files.abandon()
    release.set()
    async with asyncio.timeout(10):
        await files.stop()

    assert not (root / "sessions").exists()


async def test_a_full_disk_is_made_up_for_when_there_is_room(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "home"
    (root / "data").mkdir(parents=True)
    await another_turn(log)
    files, failures, real, note = (
        ReadableFiles(log, root),
        iter(range(3)),
        readable_disk.store,
        readable_disk.write_note,
    )
    loop, is_whole = asyncio.get_running_loop(), asyncio.Event()
    await files.catch_up()
    await a_turn(log)
    end = (await log.head()).position

    def full_at_first(*args: Any) -> Any:
        found = real(*args)  # what was written is there, and would be doubled by writing it again
        if next(failures, None) is not None:
            raise FULL
        return found

    def noted(path: Path, position: int, at: str) -> None:
        note(path, position, at)
        if position == end:
            loop.call_soon_threadsafe(is_whole.set)

    monkeypatch.setattr(readable_disk, "store", full_at_first)
    monkeypatch.setattr(readable_disk, "write_note", noted)
    monkeypatch.setattr(readable, "SETTLE_S", 0.01)
    files.start()
    async with asyncio.timeout(20):
        await is_whole.wait()
    await files.stop()

    assert contents(root) == await written(log, tmp_path / "fresh")


async def test_a_file_that_can_not_be_written_stops_no_other(log: EventLog, tmp_path: Path) -> None:
    root = tmp_path / "home"
    (root / "data").mkdir(parents=True)
    await a_turn(log)
    blocked = root / "events" / f"{DAY}.jsonl"
    blocked.mkdir(parents=True)
    files = ReadableFiles(log, root)
    await files.catch_up()
    await another_turn(log)
    await files.catch_up()
    fresh = await written(log, tmp_path / "fresh")
    del fresh[f"events/{DAY}.jsonl"]
    assert contents(root) == fresh

    blocked.rmdir()
    assert await written(log, root) == await written(log, tmp_path / "fresh")


async def test_files_that_others_could_read_are_their_owners_again(log: EventLog, tmp_path: Path) -> None:
    root = tmp_path / "home"
    await a_turn(log)
    await written(log, root)
    paths = [path for name in ("events", "logs", "sessions") for path in (root / name, *(root / name).rglob("*"))]
    for path in paths:
        path.chmod(0o755 if path.is_dir() else 0o644)
    files = ReadableFiles(log, root)
    await files.catch_up()
    await log.append(task_stream(TASK), [task_draft(completed("01FFFFFFFFFFFFFFFFFFFFFFF3", "And more."))])
    await files.catch_up()

    assert {path.stat().st_mode & 0o777 for path in paths} == {0o700, 0o600}


# --- work -----------------------------------------------------------------------------------------------------------


async def test_the_work_for_a_task_grows_with_its_answers(log: EventLog, tmp_path: Path) -> None:
    await a_turn(log)
    for number in range(60):
        facts = (call_started(f"c{number}"), call_completed(f"c{number}"), completed(f"r{number}", "More."))
        await log.append(task_stream(TASK), [task_draft(fact) for fact in facts])
    counted = counting(log)
    await written(counted, tmp_path / "home")

    assert counted.events < 6 * (await log.head()).position


async def test_all_days_are_written_in_one_pass(store: Store, tmp_path: Path) -> None:
    await a_turn(store.log)
    root, counted = tmp_path / "home", counting(store.log)
    await written(store.log, root)
    for _ in range(40):
        store.clock.advance(DAY_S)
        await store.log.append(session_stream(SESSION), [renamed("Notebook")])
    assert await written(counted, root) == await written(counted, tmp_path / "fresh")
    assert len(list((root / "events").iterdir())) == 41
    assert len(counted.calls) < 25


async def test_what_is_held_is_bounded_in_bytes(log: EventLog, tmp_path: Path) -> None:
    (tmp_path / "home" / "data").mkdir(parents=True)
    counted = counting(log)
    files = ReadableFiles(counted, tmp_path / "home")
    await a_turn(log)
    for number in range(8):
        await log.append(task_stream(TASK), [task_draft(completed(f"r{number}", "x" * 1_000_000))])
    assert sum(map(size_of, files._fresh)) < _MOST_FRESH_BYTES + 1_100_000, "one commit more than the limit"
    await files.catch_up()

    assert all("most_bytes" in call or call.get("limit") == 1 for call in counted.calls)
    assert contents(tmp_path / "home") == await written(log, tmp_path / "fresh")


async def test_much_that_is_new_is_written_at_once_and_not_read_again(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readable, "GATHER_S", 3600.0)
    monkeypatch.setattr(readable, "SETTLE_S", 7200.0)
    monkeypatch.setattr(readable, "_FRESH_BYTES", 10_000)
    root, counted, is_written = tmp_path / "home", counting(log), asyncio.Event()
    (root / "data").mkdir(parents=True)
    files, loop, real = ReadableFiles(counted, root), asyncio.get_running_loop(), readable_disk.store

    def store(batch: readable_disk.Batch, *others: Any) -> Any:
        found = real(batch, *others)
        if any("number 5" in line for file in batch.lines.values() for line in file):
            loop.call_soon_threadsafe(is_written.set)
        return found

    monkeypatch.setattr(readable_disk, "store", store)
    await a_turn(log)
    await files.catch_up()
    files.start()
    counted.events = 0
    for number in range(6):
        answer = completed(f"r{number}", f"number {number} " + "x" * 10_000)
        await log.append(task_stream(TASK), [task_draft(answer)])
    async with asyncio.timeout(20):
        await is_written.wait()
    again = counted.events
    await files.stop()

    assert again < 6
    assert contents(root) == await written(log, tmp_path / "fresh")


class Awaited(asyncio.Event):
    """Tells that somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_awaited = asyncio.Event()

    async def wait(self) -> Literal[True]:
        self.is_awaited.set()
        return await super().wait()


@pytest.mark.parametrize("ticks", range(4))
async def test_a_commit_just_before_they_are_stopped_does_not_keep_them_from_ending(
    log: EventLog, tmp_path: Path, ticks: int
) -> None:
    (tmp_path / "home" / "data").mkdir(parents=True)
    files = ReadableFiles(log, tmp_path / "home")
    files._is_much = much = Awaited()
    await a_turn(log)
    files.start()
    await asyncio.wait_for(much.is_awaited.wait(), 20)
    much.set()
    for _ in range(ticks):
        await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await files.stop()

    assert contents(tmp_path / "home") == await written(log, tmp_path / "fresh")


@pytest.mark.parametrize("fresh", [1, 3, 30], ids=["little", "some", "all"])
async def test_of_what_is_new_only_what_was_not_kept_is_read_again(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: int
) -> None:
    root, counted = tmp_path / "home", counting(log)
    (root / "data").mkdir(parents=True)
    files = ReadableFiles(counted, root)
    await a_turn(log)
    await files.catch_up()
    counted.events = 0
    monkeypatch.setattr(readable, "_MOST_FRESH_BYTES", fresh * 1000)
    for first in (0, 20):
        for number in range(first, first + 20):
            await log.append(session_stream(SESSION), [renamed(f"{number} " + "x" * 900)])
        await files.catch_up()
    again = 2 * (20 - min(fresh, 20))

    assert again <= counted.events <= again + 6, "besides, the model of the session is looked up"
    file = f"events/{DAY}.jsonl"
    assert contents(root)[file] == (await written(log, tmp_path / "fresh"))[file]


async def test_lines_are_made_beside_the_loop_and_long_texts_cut_before(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[threading.Thread] = set()
    lengths: set[int] = set()

    def recorded(function: Callable[..., Any], *, is_label: bool = False) -> Callable[..., Any]:
        def call(argument: Any, *rest: Any) -> Any:
            threads.add(threading.current_thread())
            if is_label:
                lengths.add(len(argument))
            return function(argument, *rest)

        return call

    for name in ("session_meta", "dumps"):
        monkeypatch.setattr(readable_lines, name, recorded(getattr(readable_lines, name)))
    monkeypatch.setattr(readable, "event_line", recorded(readable.event_line))
    label = recorded(readable_lines.visible_label, is_label=True)
    monkeypatch.setattr(readable_lines, "visible_label", label)
    await a_turn(log)
    await log.append(task_stream(TASK), [task_draft(completed("r3", "long " * 200_000))])
    found = await written(log, tmp_path / "home")

    assert threading.current_thread() not in threads
    assert max(lengths) < 10_000
    assert found[f"logs/{DAY}.md"].splitlines()[-1].endswith("long long lo…")


# --- tokens ---------------------------------------------------------------------------------------------------------


async def test_an_answer_has_only_the_tokens_of_its_own_call(log: EventLog, tmp_path: Path) -> None:
    await a_turn(log)
    check = replace(call_started("check"), purpose="check")
    facts = (
        completed("r3", "Cancelled before a call."),
        call_started("c4"),
        call_completed("c4"),
        call_started("c5"),
        completed("r5", "Cancelled while it was written."),
        call_started("c6"),
        call_failed("c6"),
        completed("r6", "Failed."),
        call_started("c7"),
        call_completed("c7", tokens=70),
        check,
        call_completed("check", tokens=999),
        completed("r7", "With a check beside it."),
    )
    await log.append(task_stream(TASK), [task_draft(fact) for fact in facts])
    found = await written(log, tmp_path / "home")

    answers = lines(found[f"sessions/{SESSION}/messages.jsonl"])[1:]
    assert [answer.get("tokens_in") for answer in answers] == [10, None, None, None, 70]
    assert SUM not in str(answers[1:])
