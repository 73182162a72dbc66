"""Full-text search in a million texts, beside FTS4 ranked by `rank_bm25`; and what the index adds to an append.

The rival is what the same rows need with FTS4 and `sqlite-fts4` alone: all matches are ranked, and sorted in SQL. Both
have the same rows, in one file each. The words of the texts are drawn as words of a language are: a few stand in almost
every text.
"""

import argparse
import itertools
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

from sqlite_fts4 import register_functions

from bench.append import interleaved, seconds_of
from bench.result import Result, emit
from ozzie_server_ext.domain.terms import phrases
from ozzie_server_ext.store import search
from ozzie_server_ext.store.documents import Wanted

DOCUMENTS = 1_000_000
WORDS = 20_000
"""Words of the language."""
IN_A_TEXT = 14
QUERIES = 20
ROUNDS = 5
APPENDS = 161

Rows = Iterator[tuple[int, str, str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fts5 = _filled(Path(folder) / "fts5.db", options.documents, is_fts5=True)
        fts4 = _filled(Path(folder) / "fts4.db", options.documents, is_fts5=False)
        with closing(fts5), closing(fts4):
            register_functions(fts4)
            rare = [f"w{number}" for number in range(WORDS - QUERIES, WORDS)]
            common = [f"w{number}" for number in range(3, 7)]
            emit(
                [
                    _compared("a rare word", rare, fts5, fts4, 0.4),
                    _compared("a common word", common, fts5, fts4, 0.2),
                    _overlap(fts5, fts4),
                ]
            )
        emit([_append(Path(folder), options.rounds)])


def _filled(path: Path, documents: int, *, is_fts5: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE events (position INTEGER PRIMARY KEY)")  # which no query here looks into
    search.create(connection, fts5=is_fts5)
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO search (rowid, terms, scope) VALUES (?, ?, ?)", _rows(documents))
    connection.execute("COMMIT")
    return connection


def _rows(documents: int) -> Rows:
    chance = random.Random(1)
    words = [f"w{number}" for number in range(WORDS)]
    weights = [*itertools.accumulate(1 / (number + 1) for number in range(WORDS))]
    for position in range(1, documents + 1):
        drawn = chance.choices(words, cum_weights=weights, k=chance.randint(3, 2 * IN_A_TEXT))
        yield position, " ".join(drawn), f"0kindmessage 0session{position % 1000}"


def _ours(connection: sqlite3.Connection, word: str) -> list[int]:
    return [hit.position for hit in search.find(connection, Wanted(phrases=tuple(phrases(word)))).best]


def _rival(connection: sqlite3.Connection, word: str) -> list[int]:
    sql = """SELECT docid FROM search WHERE search MATCH ?
        ORDER BY rank_bm25(matchinfo(search, 'pcnalx')), docid DESC LIMIT 10"""
    return [docid for (docid,) in connection.execute(sql, (f"terms:{word}",))]


def _seconds(ask: Callable[[], object]) -> float:
    begun = time.perf_counter()
    ask()
    return time.perf_counter() - begun


def _compared(what: str, words: list[str], ours: sqlite3.Connection, rival: sqlite3.Connection, most: float) -> Result:
    for word in words:  # into the cache
        _ours(ours, word)
        _rival(rival, word)
    times = [(_seconds(lambda w=word: _ours(ours, w)), _seconds(lambda w=word: _rival(rival, w))) for word in words]
    own, others = (statistics.median(column) for column in zip(*times, strict=True))
    return Result(
        name=f"search of {what}, top 10, against FTS4 with rank_bm25",
        ours=round(own * 1e3, 2),
        against=round(others * 1e3, 2),
        ratio=round(own / others, 2),
        unit="ms",
        target=f"<= {most}x",
        met=own <= most * others,
    )


def _overlap(fts5: sqlite3.Connection, fts4: sqlite3.Connection) -> Result:
    """How many of the best ten FTS5 and FTS4 have in common, by `find` over both: of single words and of pairs."""
    words = [f"w{number}" for number in range(200, WORDS, 997)]
    both = [(_ours(fts5, query), _ours(fts4, query)) for query in (*words, *(f"w{n} w{n + 7}" for n in range(9, 60)))]
    shares = [len({*best} & {*others}) / len(best) for best, others in both if best]
    share = statistics.mean(shares)
    return Result(
        name="search: the best ten of FTS5 that FTS4 has too",
        ours=round(100 * share, 1),
        against=None,
        ratio=None,
        unit="%",
        target=">= 95 %",
        met=share >= 0.95,
        note=f"{len(shares)} queries",
    )


def _append(folder: Path, rounds: int) -> Result:
    """Sixteen clients, with the index and without, in turns."""
    histories = interleaved(APPENDS)
    numbers = itertools.count()

    def once(with_index: bool) -> float:
        path = folder / f"append-{next(numbers)}.db"
        if with_index:
            return seconds_of(histories, path)[-1]
        with patch.object(search, "add", lambda *_: None):
            return seconds_of(histories, path)[-1]

    times = [(once(True), once(False)) for _ in range(rounds)]
    ratio = statistics.median(on / off for on, off in times)
    appends = sum(map(len, histories))
    return Result(
        name="append with the search index, against without",
        ours=round(statistics.median(on for on, _ in times) / appends * 1e6),
        against=round(statistics.median(off for _, off in times) / appends * 1e6),
        ratio=round(ratio, 2),
        unit="us",
        target="<= 1.08x",
        met=ratio <= 1.08,
    )


if __name__ == "__main__":
    main()
