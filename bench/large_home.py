"""A home of a year beside one of a day: the gateway's start, lists, and the first turn.

In the large one, it also measures how soon sessions are listed, one of them is opened, and a search is answered. An
erasure is measured beside a `VACUUM` of the same file.

A start of the large home is measured once its readable files are written, as of a gateway that ran before.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.histories import fill
from bench.instant import InstantOzzie, session_of, turn
from bench.result import Result, emit
from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.store.database import open_writable
from ozzie_server_ext.store.lineage import lineage_of
from ozzie_server_ext.tasks.search import Question
from ozzie_server_ext.tasks.turns import turns_of

EVENTS, SESSIONS, DAYS = 1_000_000, 2000, 365
EVENTS_OF_A_DAY = 3000
ROUNDS = 5
LISTED = 50
TARGET = 1.2
TARGET_MS = 100
SEARCHES = {"a word of every turn": "sales", "the words of one title": '"0 ipynb"'}
TARGET_ERASURE = 10


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds until the gateway is ready, for the lists of sessions and of tasks, and for the first turn."""

    start: float
    lists: float
    turn: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CONFIG_HOME"] = f"{folder}/config"
        large, small = _home(Path(folder, "large")), _home(Path(folder, "small"))
        events = fill(large.database, options.events, sessions=options.sessions, days=DAYS)
        fill(small.database, EVENTS_OF_A_DAY, sessions=LISTED)
        for home in (large, small):
            asyncio.run(_write_files(home))
        pairs = [
            (asyncio.run(_times(large, number)), asyncio.run(_times(small, number)))
            for number in range(options.rounds + 1)
        ][1:]  # the first ones read the program and the file into memory
        where = f"in a home of {events:,} events and {options.sessions:,} sessions"
        emit([_row(what, where, pairs) for what in ("start", "lists", "turn")])
        emit(asyncio.run(_views(large, where)))
        emit([asyncio.run(_erasure(large, events))])


def _home(folder: Path) -> Home:
    home = Home(folder / "home")
    home.create()
    (folder / "project").mkdir()
    return home


def _project(home: Home) -> Path:
    return home.root.with_name("project")


async def _write_files(home: Home) -> None:
    ozzie = await InstantOzzie.start(home, _project(home))
    await ozzie._readable.catch_up()
    await ozzie.stop()


async def _times(home: Home, number: int) -> Times:
    began = time.perf_counter()
    ozzie = await InstantOzzie.start(home, _project(home))
    start = time.perf_counter() - began
    lists = await _took(_lists(ozzie))
    first = await turn(ozzie, await session_of(ozzie, f"new {number}"))
    await ozzie.stop()
    return Times(start, lists, first)


async def _lists(ozzie: Ozzie) -> None:
    await ozzie.sessions.list(limit=LISTED)
    await ozzie.tasks.list(limit=LISTED)


def _row(what: str, where: str, pairs: list[tuple[Times, Times]]) -> Result:
    large, small = (statistics.median(getattr(each, what) for each in side) for side in zip(*pairs, strict=True))
    names = {"start": "gateway ready", "lists": "newest sessions and tasks", "turn": "first turn"}
    return Result(
        name=f"{names[what]}, {where}, against a small one",
        ours=round(large * 1000, 1),
        against=round(small * 1000, 1),
        ratio=round(large / small, 2),
        unit="ms",
        target=f"<= {TARGET:g}x",
        met=large / small <= TARGET,
    )


async def _views(home: Home, where: str) -> list[Result]:
    """A list of sessions, one of them with its messages, turns and forks, and searches with titles and snippets; ten
    times each."""
    ozzie = await InstantOzzie.start(home, _project(home))
    middle = (await ozzie.log.rows("sessions", order_by="last_position", limit=1000))[-1]
    session_id = SessionId(str(middle["session_id"]))

    async def opened() -> None:
        messages = {"session_id": session_id}
        await ozzie.sessions.row(session_id)
        await ozzie.log.rows("messages", where=messages, order_by="position", descending=True, limit=100)
        await turns_of(ozzie.log, await lineage_of(ozzie.log, session_id))
        await ozzie.sessions.tree(session_id, most=1000)

    found = {what: await ozzie.search.find(Question(text=text)) for what, text in SEARCHES.items()}
    views: list[tuple[str, str, Callable[[], Awaitable[Any]]]] = [
        ("list the newest sessions", f"{LISTED} of them", lambda: ozzie.sessions.list(limit=LISTED)),
        ("open a session", f"{middle['message_count']} messages", opened),
        *(
            (f"search for {what}", f"{found[what].count:,} ranked", partial(ozzie.search.find, Question(text=text)))
            for what, text in SEARCHES.items()
        ),
    ]
    results = [
        Result(
            name=f"{what}, {where}",
            ours=round((took := statistics.median([await _took(view()) for _ in range(10)])) * 1000, 1),
            against=None,
            ratio=None,
            unit="ms",
            target=f"<= {TARGET_MS} ms",
            met=took * 1000 <= TARGET_MS,
            note=note,
        )
        for what, note, view in views
    ]
    await ozzie.stop()
    return results


async def _erasure(home: Home, events: int) -> Result:
    """One session is erased, until no trace of it is left; then SQLite writes the same file anew."""
    ozzie = await InstantOzzie.start(home, _project(home))
    session = SessionId(str((await ozzie.sessions.list(limit=LISTED))[-1]["session_id"]))
    erased = await _took(ozzie.erasures.erase_session(session, "bench"))
    await ozzie.stop()
    with closing(open_writable(home.database)) as connection:
        began = time.perf_counter()
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        plain = time.perf_counter() - began
    return Result(
        name=f"a session erased in a home of {events:,} events, against SQLite writing the file anew",
        ours=round(erased, 1),
        against=round(plain, 1),
        ratio=round(erased / plain, 1),
        unit="s",
        target=f"<= {TARGET_ERASURE:g}x",
        met=erased / plain <= TARGET_ERASURE,
    )


async def _took(work: Awaitable[Any]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
