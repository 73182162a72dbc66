"""How a home grows with a session: turns of one kind, answered by the offline script, in one session.

Linear growth: turns 21 to 60 add twice what turns 1 to 20 added. Beside it, what 1,000 turns need against what was said
and answered in them: turns of a line with a call of a tool, and turns with an answer of a page. The log's own share, an
envelope of some 700 bytes for each event, is told apart.
"""

import argparse
import asyncio
import os
import random
import sqlite3
import tempfile
from collections.abc import AsyncGenerator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bench.instant import InstantOzzie
from bench.result import Result, emit
from bench.steps import ENDS
from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.events import Origin
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.jupyter.documents import Jupyter
from ozzie_server_ext.models.driver import ModelEvent, ModelRequest, TextDelta, finished
from ozzie_server_ext.models.offline import OfflineDriver
from ozzie_server_ext.store.database import open_readable
from ozzie_server_ext.tasks.service import NewTurn

TURNS = 1000
MARKS = (0, 20, 60)
WORDS = 300
"""In an answer of a page."""


class _Page(OfflineDriver):
    """Answers at once, with random words in lines, and never the same."""

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        chance = random.Random(request.call_id)
        words = (f"{chance.randrange(36**6):x}" for _ in range(WORDS))
        text = "".join(f"{word}\n" if number % 12 == 11 else f"{word} " for number, word in enumerate(words))
        yield TextDelta(text)
        yield finished(text=text, finish="stop", usage=Usage(), cost=0, ttft_ms=0.0)


class _OfPages(Ozzie):
    def __init__(self, home: Home, project: Path, jupyter: Jupyter) -> None:
        super().__init__(home, project, jupyter)
        self.offline = _Page()


@dataclass(frozen=True, slots=True)
class Size:
    """In bytes: `data` is the database with all blobs, `blobs` are the blobs alone, `said` is all text of messages."""

    data: int
    blobs: int
    said: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CONFIG_HOME"] = f"{folder}/config"
        sizes = asyncio.run(_sizes(Path(folder, "lines"), (*MARKS, turns)))
        pages = asyncio.run(_sizes(Path(folder, "pages"), (0, turns), _OfPages))
    begin, early, late, end = sizes
    growth = (late.blobs - early.blobs) / (early.blobs - begin.blobs)
    emit(
        [
            Result(
                name="storage of turns 21 to 60 against turns 1 to 20, without the log",
                ours=round((late.blobs - early.blobs) / 1024),
                against=round((early.blobs - begin.blobs) / 1024),
                ratio=round(growth, 2),
                unit="KiB",
                target="<= 2.3x (linear is 2)",
                met=growth <= 2.3,
            ),
            _against_what_was_said(f"{turns:,} turns of a line and a call", begin, end),
            _against_what_was_said(f"{turns:,} turns with an answer of a page", *pages),
        ]
    )


def _against_what_was_said(what: str, begin: Size, end: Size) -> Result:
    ours, said = end.blobs - begin.blobs, end.said - begin.said
    return Result(
        name=f"storage of {what} against what was said and answered, without the log",
        ours=round(ours / 1024),
        against=round(said / 1024),
        ratio=round(ours / said, 2),
        unit="KiB",
        target="<= 2x",
        met=ours <= 2 * said,
        note=f"with the log {(end.data - begin.data) / 1024:,.0f} KiB",
    )


async def _sizes(folder: Path, marks: tuple[int, ...], kind: type[Ozzie] = InstantOzzie) -> list[Size]:
    """Return the sizes of a home after so many turns, which a gateway of this kind runs."""
    home, project = Home(folder / "home"), folder / "project"
    home.create()
    project.mkdir(parents=True)
    sizes: list[Size] = []
    session: SessionId | None = None
    for done, wanted in zip((0, *marks), marks, strict=False):
        ozzie = await kind.start(home, project)
        session = session or (await ozzie.sessions.open("s", title="bench", channel="notebook")).session_id
        for number in range(done, wanted):
            await _turn(ozzie, session, number)
        await ozzie.stop()  # merges what SQLite wrote beside the database
        sizes.append(_size(home))
    return sizes


async def _turn(ozzie: Ozzie, session: SessionId, number: int) -> None:
    origin = Origin(channel="notebook", sender_id="bench")
    text = f"What is {number} * 7? {'Explain it in some detail. ' * 8}"
    sent = await ozzie.submit(NewTurn(session, text, origin))
    async with ozzie.feed.subscribe(0, types=ENDS, task_id=sent.task_id) as events:
        end = await anext(events)
    if end.type != "task.succeeded":
        raise ValueError(f"a turn did not come to its end: {end}")


def _size(home: Home) -> Size:
    files = sum(path.stat().st_size for path in home.blobs.rglob("*") if path.is_file())
    with closing(open_readable(home.database)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        kept = [name for name in tables if name in {"contents", "parts", "part_scopes"}]
        rows = sum(_bytes_of(connection, name) for name in kept)
        (said,) = connection.execute("SELECT coalesce(sum(length(CAST(text AS BLOB))), 0) FROM messages").fetchone()
    return Size(data=home.database.stat().st_size + files, blobs=files + rows, said=said)


def _bytes_of(connection: sqlite3.Connection, table: str) -> int:
    """Return about how many bytes a table has: those of its values, and 16 for each row."""
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    lengths = " + ".join(f"coalesce(length(CAST({column} AS BLOB)), 0)" for column in columns)
    (found,) = connection.execute(f"SELECT coalesce(sum({lengths} + 16), 0) FROM {table}").fetchone()
    return found


if __name__ == "__main__":
    main()
