"""A log of format 1, written when the format was frozen: every later Ozzie reads it, checks it, and goes on in it."""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ozzie_server_ext.domain.events import SessionRenamed
from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.store.anchor import read_anchor
from ozzie_server_ext.store.database import open_readable
from ozzie_server_ext.store.log import Head
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.replay.histories import draft
from tests.samples.make import ERASED, KEY
from tests.verified import verify_file

SAMPLE = Path(__file__).parent / "format-1"
PAGE = Path(__file__).parents[2] / "docs" / "log-format.md"
LINES: list[list[Any]] = [json.loads(line) for line in (SAMPLE / "events.jsonl").read_text("utf-8").split("\n")[:-1]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "data"))


async def opened(folder: Path) -> SqliteEventLog:
    clock = SystemClock()
    return await SqliteEventLog.open(folder / "ozzie.db", clock=clock, ids=UlidSource(clock))


def test_it_is_what_was_written_and_ends_where_it_was_anchored(folder: Path) -> None:
    anchor = read_anchor(folder / "anchor.json", KEY)
    assert anchor is not None

    found = verify_file(folder / "ozzie.db")

    assert (found.ok, found.reason) == (True, "")
    assert (found.events, found.erased) == (len(LINES), 1)
    assert found.head == anchor.head == Head(LINES[-1][0], LINES[-1][2])


def test_its_tables_are_those_of_the_page(folder: Path) -> None:
    page = PAGE.read_text()
    told = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", page[page.index("| Column of `events`") :], re.MULTILINE)
    with closing(open_readable(folder / "ozzie.db")) as log:
        columns = [row[1] for row in log.execute("PRAGMA table_info(events)")]
        version = log.execute("PRAGMA user_version").fetchone()[0]
        application = log.execute("PRAGMA application_id").fetchone()[0]

    assert [name for names in told for name in re.findall(r"\w+", names)] == columns
    assert f"`application_id` 0x{application:X}" in page
    assert f"`user_version` {version}" in page


async def test_every_event_is_read_with_all_that_it_said(folder: Path) -> None:
    log = await opened(folder)
    try:
        events = await log.read(limit=1000)
    finally:
        await log.close()

    read = {event.position: (event.type, event.hash, json.loads(msgspec.json.encode(event.body))) for event in events}
    assert set(read) == {line[0] for line in LINES} - {ERASED}
    for position, kind, hash_, body in LINES:
        if position != ERASED:
            # A field that was added since has a value; none that was there has gone or changed.
            assert (read[position][0], read[position][1]) == (kind, hash_)
            assert _without_what_came_later(read[position][2], body) == body


async def test_its_tables_are_made_anew_and_it_goes_on(folder: Path) -> None:
    log = await opened(folder)
    try:
        anew = await log.rebuild()
        assert await log.dump() == anew
        (event,) = await log.append("session:new", [draft(SessionRenamed(title="after"))])
        tasks = {row["status"] for row in await log.rows("tasks")}
        verified = await log.verify()
    finally:
        await log.close()

    assert event.position == len(LINES) + 1
    assert event.prev_hash == LINES[-1][2]
    assert verified.ok
    assert {"SUCCEEDED", "CANCELLED", "QUEUED", "RUNNING"} <= tasks


def test_the_program_on_the_page_checks_it_with_nothing_but_python(folder: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    files = [str(folder / name) for name in ("ozzie.db", "anchor.json", "anchor.key")]

    def check() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-I", "-c", program, *files], capture_output=True, text=True, timeout=60, check=False
        )

    assert check().stdout == f"{len(LINES)} events are what was written\n"
    with closing(sqlite3.connect(folder / "ozzie.db", isolation_level=None)) as log:
        for table in ("bodies", "events"):
            log.execute(f"DELETE FROM {table} WHERE position = ?", (len(LINES),))
    assert "AssertionError: the log is not the one that was anchored" in check().stderr
    anchor = json.loads((folder / "anchor.json").read_text())
    (folder / "anchor.json").write_text(json.dumps({**anchor, "position": 3}))
    assert "was not signed with this key" in check().stderr


def _without_what_came_later(read: Any, written: Any) -> Any:
    """`read` with only those fields of its objects that were there when it was written."""
    if isinstance(read, dict) and isinstance(written, dict):
        return {key: _without_what_came_later(value, written[key]) for key, value in read.items() if key in written}
    if isinstance(read, list) and isinstance(written, list):
        return [_without_what_came_later(*pair) for pair in zip(read, written, strict=True)]
    return read
