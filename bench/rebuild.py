"""All projections made anew from a long log, beside reading its rows and doing nothing with them."""

import argparse
import tempfile
import time
from pathlib import Path

from bench.histories import fill
from bench.result import Result, emit
from ozzie_server_ext.store.database import open_readable, open_writable
from ozzie_server_ext.store.writer import Committer

EVENTS = 1_000_000
SESSIONS = 50
PAGE = 2000
TARGET = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ozzie.db"
        events = fill(path, options.events, sessions=SESSIONS)
        read_s = min(_read(path, events) for _ in range(2))
        rebuild_s = _rebuild(path)
    emit(
        [
            Result(
                name=f"projections made anew from {events:,} events, against reading the rows",
                ours=round(events / rebuild_s),
                against=round(events / read_s),
                ratio=round(read_s / rebuild_s, 3),
                unit="events/s",
                target=f">= {TARGET}x",
                met=read_s / rebuild_s >= TARGET,
            )
        ]
    )


def _read(path: Path, events: int) -> float:
    """Seconds to read every envelope with its body."""
    connection = open_readable(path)
    began = time.perf_counter()
    cursor = connection.execute("SELECT * FROM events JOIN bodies USING (position) ORDER BY position")
    seen = 0
    while page := cursor.fetchmany(PAGE):
        seen += len(page)
    took = time.perf_counter() - began
    connection.close()
    if seen != events:
        raise ValueError(f"{seen} rows, and {events} were written")
    return took


def _rebuild(path: Path) -> float:
    """Seconds to make the projections anew, committed; without the canonical dump that a caller also gets."""
    connection = open_writable(path)
    committer = Committer(connection, path)
    began = time.perf_counter()
    committer.rebuild()
    took = time.perf_counter() - began
    connection.close()
    return took


if __name__ == "__main__":
    main()
