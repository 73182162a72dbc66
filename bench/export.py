"""Exporting a session and checking the file: as much for each turn of a long session as for one of a short one.

Each session is in a log of its own, filled with turns of a model's call, a tool call and an answer. The file is checked
with the log at hand.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

from bench.histories import EVENTS_A_TURN, fill
from bench.result import Result, emit
from ozzie_server_ext.domain.exports import Form
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.export.checking import check
from ozzie_server_ext.export.proof import read_export
from ozzie_server_ext.export.service import Exports
from ozzie_server_ext.export.signing import public_key, signing_key
from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.store.blobs import FileBlobs
from ozzie_server_ext.store.contents import DatabaseBlobs
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.tasks.sessions import Sessions

TURNS = 1000
SHORT = 10
"""Turns of the short session are fewer by this factor."""
ROUNDS = 5
MOST_S = 10
KEY = bytes(32)
FORMS: tuple[Form, ...] = ("ipynb", "html", "jsonl")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        emit(asyncio.run(_measured(Path(folder), options.turns, options.rounds)))


async def _measured(folder: Path, turns: int, rounds: int) -> list[Result]:
    times: dict[str, list[tuple[float, float]]] = {}
    sizes: dict[str, int] = {}
    homes = [await _home(folder / name, count) for name, count in (("long", turns), ("short", turns // SHORT))]
    for _ in range(rounds):
        texts: list[bytes] = []
        for form in reversed(FORMS):
            pair: list[float] = []
            texts = []
            for exports, session_id, _ in homes:
                began = time.perf_counter()
                _, text = await exports.export(session_id, form)
                pair.append(time.perf_counter() - began)
                texts.append(text.encode())
            times.setdefault(f"export as .{form}", []).append((pair[0], pair[1]))
            sizes[f"export as .{form}"] = len(texts[0])
        checks = [_check_time(text, home) for text, (_, _, home) in zip(texts, homes, strict=True)]
        times.setdefault("check of the .ipynb", []).append((checks[0], checks[1]))
    for exports, _, _ in homes:
        await exports.close()
    return [_row(name, pairs, turns, sizes.get(name, 0)) for name, pairs in times.items()]


class _Exports(Exports):
    """Exports that close their log."""

    async def close(self) -> None:
        await self._log.close()


async def _home(folder: Path, turns: int) -> tuple[_Exports, SessionId, Path]:
    path = folder / "ozzie.db"
    fill(path, turns * EVENTS_A_TURN, sessions=1)
    log = await SqliteEventLog.open(path, clock=SystemClock(), ids=UlidSource())
    (row,) = await log.rows("sessions")
    blobs = DatabaseBlobs(log, FileBlobs(folder / "blobs"))
    exports = _Exports(log, blobs, Sessions(log, UlidSource(), folder), SystemClock(), partial(bytes, KEY))
    return exports, SessionId(str(row["session_id"])), path


def _check_time(text: bytes, path: Path) -> float:
    began = time.perf_counter()
    found = check(read_export(text), [public_key(signing_key(KEY))], path)
    took = time.perf_counter() - began
    assert found.ok, "an export that was just made is as recorded"
    return took


def _row(name: str, pairs: list[tuple[float, float]], turns: int, size: int) -> Result:
    ours, short = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = ours / (short * SHORT)
    return Result(
        name=f"{name}, {turns:,} turns, a turn against one of {turns // SHORT:,}",
        ours=round(ours / turns * 1000, 2),
        against=round(short * SHORT / turns * 1000, 2),
        ratio=round(ratio, 2),
        unit="ms",
        target=f"<= 1.25x and <= {MOST_S} s in all",
        met=ratio <= 1.25 and ours <= MOST_S,
        note=f"{ours:.2f} s in all" + (f", {size / 1e6:.1f} MB" if size else ""),
    )


if __name__ == "__main__":
    main()
