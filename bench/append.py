"""Durable appends: the log with its chain and projections, beside plain SQLite that writes the same rows.

The rival is what one would write by hand: the statements that the log itself executed for the same history, on a
database of the same shape and modes, a transaction for each append, on the caller's own thread. It computes nothing:
no encoding, no ids, no hashes, no folds. Both take turns in one run, on fresh files.
"""

import argparse
import asyncio
import itertools
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.histories import APPENDS_A_TURN, EVENTS_A_TURN, Appended, turns
from bench.result import Result, emit
from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.store.admission import prepare, random_salt
from ozzie_server_ext.store.database import open_writable
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.store.writer import Committer

CLIENTS = 16
APPENDS = 361  # a session and forty turns
"""Per client."""
ROUNDS = 5

History = list[Appended]
Statement = tuple[str, list[Any]]


class Recording(sqlite3.Connection):
    """Notes what is written through it."""

    written: list[Statement]

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        if sql.startswith("INSERT"):
            self.written.append((sql, values))
        return super().execute(sql, values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--appends", type=int, default=APPENDS, help="per client")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    histories = interleaved(options.appends)
    in_order = [append for each in zip(*histories, strict=True) for append in each]
    with tempfile.TemporaryDirectory() as folder:
        numbers = itertools.count()

        def fresh() -> Path:
            path = Path(folder) / f"{next(numbers)}.db"
            open_writable(path).close()
            return path

        written = list(_statements(in_order, fresh()))
        alone = list(_statements(histories[0], fresh()))
        many = [(seconds_of(histories, fresh()), _plain(written, fresh())) for _ in range(options.rounds)]
        one = [(seconds_of(histories[:1], fresh()), _plain(alone, fresh())) for _ in range(options.rounds)]
    emit([_many(many, len(in_order)), _one(one)])


def interleaved(appends: int) -> list[History]:
    """A history for each client, with so many appends."""
    ids = UlidSource(SystemClock())
    sources = [turns(client, ids) for client in range(CLIENTS)]
    # One after the other, as if all clients ran: so ids that are made together lie together.
    in_order = [next(source) for _ in range(appends) for source in sources]
    return [in_order[client::CLIENTS] for client in range(CLIENTS)]


def _many(rounds: list[tuple[list[float], list[float]]], appends: int) -> Result:
    """By the whole time of all appends; the clients of ours overlap, so its times are taken by the clock."""
    ours = statistics.median(appends / run[-1] for run, _ in rounds)
    plain = statistics.median(appends / sum(run) for _, run in rounds)
    ratio = statistics.median(sum(plain_) / run[-1] for run, plain_ in rounds)
    sync = statistics.median(_sync_s() for _ in range(3))
    return Result(
        name=f"durable append, {CLIENTS} clients, against plain SQLite",
        ours=round(ours),
        against=round(plain),
        ratio=round(ratio, 2),
        unit="/s",
        target=">= 3x",
        met=ratio >= 3,
        note=f"{EVENTS_A_TURN / APPENDS_A_TURN:.2f} events an append; a sync of this disk takes {sync * 1e3:.2f} ms",
    )


def _one(rounds: list[tuple[list[float], list[float]]]) -> Result:
    """By the median of one append."""
    ours = statistics.median(statistics.median(run[:-1]) for run, _ in rounds)
    plain = statistics.median(statistics.median(run) for _, run in rounds)
    ratio = statistics.median(statistics.median(run[:-1]) / statistics.median(plain_) for run, plain_ in rounds)
    return Result(
        name="durable append, 1 client, p50, against plain SQLite",
        ours=round(ours * 1e6),
        against=round(plain * 1e6),
        ratio=round(ratio, 2),
        unit="us",
        target="<= 2x",
        met=ratio <= 2,
    )


def seconds_of(histories: list[History], path: Path) -> list[float]:
    """Seconds of each append, then of all of them together."""

    async def run() -> list[float]:
        clock = SystemClock()
        log = await SqliteEventLog.open(path, clock=clock, ids=UlidSource(clock))
        times: list[float] = []

        async def client(history: History) -> None:
            for stream, drafts in history:
                began = time.perf_counter()
                await log.append(stream, drafts)
                times.append(time.perf_counter() - began)

        began = time.perf_counter()
        await asyncio.gather(*map(client, histories))
        whole = time.perf_counter() - began
        await log.close()
        return [*times, whole]

    return asyncio.run(run())


def _plain(appends: list[list[Statement]], path: Path) -> list[float]:
    """Seconds of each transaction."""
    connection = open_writable(path)
    _prepare_tables(connection, path)
    times: list[float] = []
    for statements in appends:
        began = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        for sql, values in statements:
            connection.execute(sql, values)
        connection.execute("COMMIT")
        times.append(time.perf_counter() - began)
    connection.close()
    return times


def _statements(history: History, path: Path) -> Iterator[list[Statement]]:
    """What the log executes for each append of a history."""
    connection = sqlite3.connect(path, isolation_level=None, factory=Recording)
    connection.written = []
    committer = Committer(connection, path)
    committer.make_current()
    clock = SystemClock()
    ids = UlidSource(clock)
    for stream, drafts in history:
        append = prepare(stream, drafts, expected_version=None, clock=clock, ids=ids, salts=random_salt)
        connection.written = []
        (result,) = committer.commit([append]).results
        if isinstance(result, Exception):
            raise result
        yield connection.written
    connection.close()


def _prepare_tables(connection: sqlite3.Connection, path: Path) -> None:
    Committer(connection, path).make_current()


def _sync_s() -> float:
    """Seconds that this disk takes to make a page durable."""
    import os

    with tempfile.TemporaryFile() as file:
        times: list[float] = []
        for _ in range(50):
            file.write(b"x" * 4096)
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return statistics.median(times)


if __name__ == "__main__":
    main()
