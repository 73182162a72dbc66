"""A home with a log, an anchor, a key and a record, opened and closed as an owner does; and what is done to them."""

import asyncio
import os
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.anchor import AnchorFiles, Anchoring, Record, accept, read_anchor, read_key, read_record
from ozzie_server_ext.store.checks import Verdict, verify_home
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.replay.histories import renamed

_IDS = CountingIds()  # no id ever comes twice
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


async def opened(path: Path) -> SqliteEventLog:
    return await SqliteEventLog.open(path, clock=FakeClock(), ids=_IDS)


def files_at(root: Path, config: Path) -> AnchorFiles:
    return AnchorFiles(root, root / "data" / "anchor.json", root / "data" / "ozzie.db", config / "anchor.key")


class AnchoredHome:
    """A home at `root`, whose key lies in `config`."""

    def __init__(self, root: Path, config: Path) -> None:
        self.files = files_at(root, config)

    async def run(self, count: int) -> str:
        """Start as a gateway does, append that many events, and stop; return the warning at the start."""
        log = await opened(self.files.database)
        anchoring = Anchoring(log, self.files, delay_s=60)
        await anchoring.start()
        warning = await anchoring.warning()
        for _ in range(count):
            await log.append("s", [renamed("a")])
        await log.close()
        await anchoring.close()
        return warning

    async def killed(self, count: int) -> None:
        """Start, append that many events, and stop before any of them was anchored."""
        log = await opened(self.files.database)
        anchoring = Anchoring(log, self.files, delay_s=60)
        await anchoring.start()
        for _ in range(count):
            await log.append("s", [renamed("a")])
        anchoring.abandon()
        await log.close()

    def verify(self) -> Verdict:
        return verify_home(self.files)

    async def verified(self) -> Verdict:
        return await asyncio.to_thread(self.verify)

    async def accepted(self) -> None:
        """Accept what `verify` finds, as a person does."""
        verdict = await self.verified()
        assert verdict.finding is not None
        await asyncio.to_thread(
            accept, self.files, verdict.finding, verdict.evidence, verdict.chain.head, verdict.first, NOW
        )

    @property
    def anchored(self) -> int:
        key = read_key(self.files.key)
        assert key is not None
        anchor = read_anchor(self.files.anchor, key)
        assert anchor is not None
        return anchor.position

    @property
    def record(self) -> Record:
        key = read_key(self.files.key)
        assert key is not None
        record = read_record(self.files.record, key)
        assert record is not None
        return record

    def change(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.files.database, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    def cut_after(self, position: int) -> None:
        self.change(
            f"DELETE FROM bodies WHERE position > {position}", f"DELETE FROM events WHERE position > {position}"
        )


def copy_of(path: Path, to: Path) -> None:
    """Copy a file, or remove what is there if there is none."""
    to.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        shutil.copy(path, to)
    elif to.exists():
        os.unlink(to)
