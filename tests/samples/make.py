"""Writes the sample of the present format: `python -m tests.samples.make FOLDER`. A sample that was committed stays."""

import asyncio
import itertools
import json
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.anchor import KEY_BYTES, sign, write_anchor
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.samples.history import history

KEY = bytes(range(KEY_BYTES))
ERASED = 2
"""The position of the event whose body is erased."""


async def make(folder: Path) -> None:
    clock = FakeClock(datetime(2026, 11, 22, 12, tzinfo=UTC))
    salts = (number.to_bytes(16, "big") for number in itertools.count())
    log = await SqliteEventLog.open(folder / "ozzie.db", clock=clock, ids=CountingIds(), salts=lambda: next(salts))
    for number, (stream, drafts) in enumerate(history()):
        clock.advance(-60 if number == 7 else 1.000001)  # a clock that was set back once
        await log.append(stream, drafts)
    events = await log.read(limit=10_000)
    write_anchor(folder / "anchor.json", sign(await log.head(), KEY))
    (folder / "anchor.key").write_bytes(KEY)
    lines = [json.dumps([e.position, e.type, e.hash, msgspec.to_builtins(e.body)], ensure_ascii=False) for e in events]
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    await log.close()
    with closing(sqlite3.connect(folder / "ozzie.db", isolation_level=None)) as connection:
        connection.execute("DELETE FROM bodies WHERE position = ?", (ERASED,))
        connection.execute("PRAGMA journal_mode = DELETE")  # one file, which holds everything


if __name__ == "__main__":
    asyncio.run(make(Path(sys.argv[1])))
