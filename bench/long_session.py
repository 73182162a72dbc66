"""A turn of a long session beside the first turn of a new one: each turn reads the conversation, and sends all of it.

Both are answered by the offline script without its pauses, in one gateway and in turns. The gateway is started anew
before the last row: then the conversation has to be read from the log.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
from pathlib import Path

from bench.instant import InstantOzzie, session_of, turn
from bench.result import Result, emit
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.observability.heap import settle_heap

MARKS = ((120, 1.15), (5000, 1.25))
"""After how many turns, and how much longer one may take then."""
PAIRS = 25
TARGET_COLD = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=MARKS[-1][0], help="turns of the longest session")
    most = parser.parse_args().most
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CONFIG_HOME"] = f"{folder}/config"
        emit(asyncio.run(_measured(Path(folder), [mark for mark in MARKS if mark[0] <= most])))


async def _measured(folder: Path, marks: list[tuple[int, float]]) -> list[Result]:
    home, project = Home(folder / "home"), folder / "project"
    home.create()
    project.mkdir()
    ozzie = await InstantOzzie.start(home, project)
    settle_heap()
    session = await session_of(ozzie, "long")
    rows: list[Result] = []
    done = 0
    for turns, target in marks:
        for _ in range(turns - done):
            await turn(ozzie, session)
        pairs: list[tuple[float, float]] = []
        for number in range(PAIRS):
            new = await session_of(ozzie, f"new {turns} {number}")
            pairs.append((await turn(ozzie, session), await turn(ozzie, new)))
        done = turns + PAIRS
        rows.append(_row(f"a turn after {turns:,} turns, against the first of a session", pairs, target))
    await ozzie.stop()

    ozzie = await InstantOzzie.start(home, project)
    new = await session_of(ozzie, "another")
    await turn(ozzie, new)  # what only the first turn of a gateway loads
    cold = [(await turn(ozzie, session), await turn(ozzie, await session_of(ozzie, "the last")))]
    await ozzie.stop()
    rows.append(
        _row(f"the first turn after a restart, {done:,} turns, against the first of a session", cold, TARGET_COLD)
    )
    return rows


def _row(name: str, pairs: list[tuple[float, float]], target: float) -> Result:
    ours, first = (statistics.median(times) for times in zip(*pairs, strict=True))
    return Result(
        name=name,
        ours=round(ours * 1000, 1),
        against=round(first * 1000, 1),
        ratio=round(ours / first, 2),
        unit="ms",
        target=f"<= {target:g}x",
        met=ours / first <= target,
    )


if __name__ == "__main__":
    main()
