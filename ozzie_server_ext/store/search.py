"""The full-text index of the log (docs/search.md): which documents contain all of some phrases, best first.

It is a projection in the same file as the others, rebuilt from the log: FTS5 if SQLite has it, else FTS4. It follows
the log (docs/adr/0081-index-behind-the-log.md), document by document, so that those which are missing are always the
last ones. Both rank by BM25 over one column; the other one, `scope`, holds a document's
session and kind, so that a search in one session does not go through all others.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from math import log
from typing import Any, NamedTuple
from unicodedata import unidata_version

from sqlite_fts4 import decode_matchinfo  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from ozzie_server_ext.domain.errors import NotFound, Unavailable
from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.domain.terms import Kind, Phrase, terms
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.documents import (
    DOCUMENT_TYPES,
    MOST_CHARACTERS,
    MOST_RANKED,
    TYPES_OF,
    Hit,
    Hits,
    TextOf,
    Wanted,
    document_of,
    no_text,
)
from ozzie_server_ext.store.log import DamagedStore

TABLE = "search"
VERSION = f"2 {unidata_version}"
"""Raise the number when the same events get other terms. The index is then rebuilt, as it is for another version of
Unicode in Python."""


class _Variant(NamedTuple):
    """How one of the two modules is used: to create the table, to name a row, to rank one, and to write a query."""

    create: str
    row: str
    rank: str
    both: str

    def phrase(self, phrase: Phrase) -> str:
        inner, star = " ".join(phrase.terms), "*" if phrase.is_beginning else ""
        if self is _FTS5:
            return f'terms : "{inner}" {star}'
        # FTS4 has no phrases of one column; what is in `scope` is no word that anybody writes.
        return f"terms:{inner}{star}" if len(phrase.terms) == 1 else f'"{inner}{star}"'

    def scope(self, token: str) -> str:
        return f'scope : "{token}"' if self is _FTS5 else f"scope:{token}"


_FTS5 = _Variant(
    "CREATE VIRTUAL TABLE search USING fts5(terms, scope, content='', tokenize='unicode61')",
    "rowid",
    "-bm25(search, 1.0, 0.0)",
    " AND ",
)
_FTS4 = _Variant(
    "CREATE VIRTUAL TABLE search USING fts4(terms, scope, content='', tokenize=unicode61)",
    "docid",
    "matchinfo(search, 'pcnalx')",
    " ",
)


def create(connection: sqlite3.Connection, *, fts5: bool = True) -> None:
    """Create the index, empty; replaces an existing one. `fts5=False` uses FTS4 even if FTS5 is available. Raise
    Unavailable if SQLite has neither."""
    connection.execute("DROP TABLE IF EXISTS search")
    for variant in (_FTS5, _FTS4) if fts5 else (_FTS4,):
        try:
            connection.execute(variant.create)
        except sqlite3.OperationalError as error:
            if "no such module" not in str(error):
                raise
            continue
        return
    raise Unavailable("The SQLite of this Python has no full-text search, neither FTS5 nor FTS4.")


def add(connection: sqlite3.Connection, events: Iterable[Event], text_of: TextOf = no_text) -> None:
    """Add those of the events that are documents."""
    connection.executemany("INSERT INTO search (rowid, terms, scope) VALUES (?, ?, ?)", _rows(events, text_of))


def last(connection: sqlite3.Connection) -> int:
    """Return the position of the last document in the index, 0 if it has none: later ones are still to be added."""
    return connection.execute("SELECT max(rowid) FROM search_docsize").fetchone()[0] or 0


def remove(connection: sqlite3.Connection, events: Iterable[Event], text_of: TextOf = no_text) -> bool:
    """Remove those of the events that are documents, while their bodies are there: the index needs the terms that it
    was given, so `text_of` must return the same texts or raise NotFound or DamagedStore. Until `optimize`, they are
    still in the file. Return whether it was done: it is not possible with FTS4, nor without a text. Then the caller
    must rebuild the index."""
    if _variant(connection) is not _FTS5:
        return False
    delete = "INSERT INTO search (search, rowid, terms, scope) VALUES ('delete', ?, ?, ?)"
    try:
        connection.executemany(delete, _rows(events, text_of))
    except (NotFound, DamagedStore):
        return False
    return True


def optimize(connection: sqlite3.Connection) -> None:
    """Merge all parts of the index, and drop what was removed. Takes about a second for a million documents."""
    connection.execute("INSERT INTO search (search) VALUES ('optimize')")


def is_same(connection: sqlite3.Connection, other: sqlite3.Connection) -> bool:
    """Whether two indexes have the same: the same terms at the same places of the same documents, with FTS4 as often in
    as many. Raise sqlite3.DatabaseError for one that can't be read."""
    return all(here == there for here, there in zip_longest(_contents(connection), _contents(other)))


def create_like(connection: sqlite3.Connection, other: sqlite3.Connection) -> None:
    """Create an empty index that uses the same module as another one."""
    create(connection, fts5=_variant(other) is _FTS5)


def _contents(connection: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    if _variant(connection) is _FTS5:
        connection.execute("CREATE VIRTUAL TABLE temp.found_terms USING fts5vocab(main, search, instance)")
        statements = ["SELECT term, doc, col, offset FROM temp.found_terms", "SELECT id, sz FROM search_docsize"]
        # The sums that ranks are computed from; without documents, there may be none, or zeros.
        statements.append("SELECT block FROM search_data WHERE id = 1 AND EXISTS (SELECT 1 FROM search_docsize)")
    else:
        connection.execute("CREATE VIRTUAL TABLE temp.found_terms USING fts4aux(main, search)")
        statements = ["SELECT term, col, documents, occurrences FROM temp.found_terms", "SELECT * FROM search_docsize"]
    for statement in statements:
        yield from connection.execute(statement)


def _rows(events: Iterable[Event], text_of: TextOf) -> Iterator[tuple[int, str, str]]:
    for event in events:
        document = document_of(event, text_of) if event.type in DOCUMENT_TYPES else None
        if document is not None:
            scope = " ".join((_kind(document.kind), *([_session(event.session_id)] if event.session_id else ())))
            yield event.position, " ".join(terms(document.text, MOST_CHARACTERS)), scope


def _kind(kind: Kind) -> str:
    return f"0kind{kind}"


def _session(session_id: SessionId) -> str:
    return f"0session{session_id.lower()}".replace("_", "")


def find(connection: sqlite3.Connection, wanted: Wanted) -> Hits:
    """Return the documents that match, best first, of equal ones the newest."""
    if not wanted.phrases or wanted.parts == ():
        return Hits()
    variant = _variant(connection)
    phrases = [variant.phrase(phrase) for phrase in wanted.phrases]
    conditions, values = _conditions(wanted)
    query = variant.both.join((*phrases, *map(variant.scope, _scope(wanted))))
    row = variant.row
    where = " AND ".join((f"search MATCH ? AND {row} <= ?", *conditions))
    newest = max((part.until for part in wanted.parts), default=0) if wanted.parts else (1 << 63) - 1
    sql = f"SELECT {row}, {variant.rank} FROM search WHERE {where} ORDER BY {row} DESC LIMIT ?"
    found = connection.execute(sql, (query, newest, *values, MOST_RANKED))
    scored = [(position, _score(rank, len(phrases))) for position, rank in found]
    best = sorted(scored, key=lambda each: (-each[1], -each[0]))[: wanted.limit]
    positions = [position for position, _ in best]
    shares = [_shares(connection, variant, phrase, positions) for phrase in phrases] if wanted.explain else []
    hits = (Hit(position, score, tuple(share[position] for share in shares)) for position, score in best)
    return Hits(tuple(hits), len(scored))


def _scope(wanted: Wanted) -> Iterator[str]:
    if len(wanted.kinds) == 1:
        yield _kind(wanted.kinds[0])
    if wanted.parts is not None and len(wanted.parts) == 1:
        yield _session(wanted.parts[0].session_id)


def _conditions(wanted: Wanted) -> tuple[list[str], list[Any]]:
    """Return what the event of a document must be besides what the index knows, as SQL, and the values in it."""
    event: list[tuple[str, Any]] = []
    if len(wanted.kinds) > 1:
        types = sorted(type_ for kind in wanted.kinds for type_ in TYPES_OF[kind])
        event.append(("e.type IN (SELECT value FROM json_each(?))", dumps(types)))
    if wanted.parts is not None and len(wanted.parts) > 1:
        of_part = "json_extract(p.value, '$[0]') = e.session_id AND e.position <= json_extract(p.value, '$[1]')"
        parts = dumps([[*part] for part in wanted.parts])
        event.append((f"EXISTS (SELECT 1 FROM json_each(?) AS p WHERE {of_part})", parts))
    if wanted.without:
        of_others = "e.task_id IS NULL OR e.task_id NOT IN (SELECT value FROM json_each(?))"
        event.append((f"({of_others})", dumps(sorted(wanted.without))))
    if wanted.projects is not None:
        its = "SELECT project FROM sessions AS s WHERE s.session_id = e.session_id"
        event.append((f"({its}) IN (SELECT value FROM json_each(?))", dumps(wanted.projects)))
    if wanted.since is not None:
        event.append(("e.ts >= ?", time_text(wanted.since)))
    if wanted.until is not None:
        event.append(("e.ts < ?", time_text(wanted.until)))
    if not event:
        return [], []
    all_of_it = " AND ".join(condition for condition, _ in event)
    exists = f"EXISTS (SELECT 1 FROM events AS e WHERE e.position = search.rowid AND {all_of_it})"
    return [exists], [value for _, value in event]


def _shares(
    connection: sqlite3.Connection, variant: _Variant, phrase: str, positions: Sequence[int]
) -> dict[int, float]:
    """Return the share of one phrase in the scores of documents: their scores for it alone."""
    sql = f"SELECT {variant.rank} FROM search WHERE search MATCH ? AND {variant.row} = ?"
    return {
        position: _score(rank, 1) for position in positions for (rank,) in connection.execute(sql, (phrase, position))
    }


def _variant(connection: sqlite3.Connection) -> _Variant:
    (sql,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'search'").fetchone()
    return _FTS5 if "fts5" in sql else _FTS4


_K1, _B = 1.2, 0.75
_LEAST_WEIGHT = 1e-6


def _score(rank: float | bytes, phrases: int) -> float:
    """Return the BM25 score, as FTS5 has it. FTS4 tells what it is computed from: the numbers that
    `matchinfo(…, 'pcnalx')` returns, of which the phrases in `terms` come first (https://sqlite.org/fts3.html#matchinfo,
    https://sqlite.org/fts5.html#the_bm25_function)."""
    if not isinstance(rank, bytes):
        return float(rank)
    _, columns, documents, *rest = decode_matchinfo(rank)
    average, length = sum(rest[:columns]), sum(rest[columns : 2 * columns])
    score = 0.0
    for number in range(phrases):
        here, _, having = rest[2 * columns + 3 * number * columns :][:3]
        weight = max(log((documents - having + 0.5) / (having + 0.5)), _LEAST_WEIGHT)
        score += weight * here * (_K1 + 1) / (here + _K1 * (1 - _B + _B * length / max(average, 1)))
    return score
