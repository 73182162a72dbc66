"""The tool index: full-text search (BM25) for the tools that fit a text.

It uses FTS5 if SQLite has it, else FTS4 ranked by `sqlite-fts4`. Both rank a single column the same way, so a tool's
name is weighted by repeating it.
"""

import sqlite3
import threading
import weakref
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter

from sqlite_fts4 import register_functions

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.terms import pairs, terms
from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.registry import ToolRegistry

MOST_TERMS = 32
"""Terms of one query: FTS4's ranking takes quadratic time."""
MAX_TOLD = 4000
"""Indexed characters of one tool's texts, so that a wordy outsider is not found for everything."""
_NAME_WEIGHT = 3
_MIN_BEGINNING = 4

# Terms are normalized already, so `unicode61` only splits at spaces; of the tokenizers that both have, it alone knows
# the letters of every script. Trigrams, which FTS4 lacks, find neither words of two letters nor Chinese ones.
_FTS5 = (
    "CREATE VIRTUAL TABLE told USING fts5(text, content='', tokenize='unicode61')",
    "SELECT rowid, bm25(told) FROM told WHERE told MATCH ? ORDER BY 1",
    '"{}"*',
)
_FTS4 = (
    "CREATE VIRTUAL TABLE told USING fts4(text, content='', tokenize=unicode61)",
    "SELECT docid, rank_bm25(matchinfo(told, 'pcnalx')) FROM told WHERE told MATCH ? ORDER BY 1",
    '"{}*"',
)
"""How to create the table, query it, and write a prefix."""


class ToolIndex:
    """An index of a registry's tools, in memory; built on first use and rebuilt when the tools change."""

    def __init__(self, registry: ToolRegistry, *, fts5: bool = True) -> None:
        """`fts5=False` uses FTS4 even if FTS5 is available."""
        self.registry = registry
        self._variants = (_FTS5, _FTS4) if fts5 else (_FTS4,)
        self._indexed: tuple[Tool, ...] = ()
        self._vocabulary: Counter[str] = Counter()
        self._sorted: list[str] = []
        self._connection: sqlite3.Connection | None = None
        self._select = self._beginning = ""
        self._close: Callable[[], object] | None = None
        self._lock = threading.Lock()

    def search(self, text: str) -> tuple[Tool, ...]:
        """Return the matching tools, best first, equals by id. Raises Unavailable if SQLite lacks full-text search."""
        with self._lock:
            connection = self._fresh()
            query = self._query(text)
            found = connection.execute(self._select, (query,)).fetchall() if query else []
            indexed = self._indexed
        # Rows come by id, and sorting is stable.
        return tuple(indexed[row - 1] for row, _ in sorted(found, key=itemgetter(1)))

    def refresh(self) -> None:
        """Index the current tools. May run in a thread: a thousand descriptions take a while. Raises as `search`."""
        with self._lock:
            self._fresh()

    def _query(self, text: str) -> str:
        """Query the text's known terms, the rarest of many; others as prefixes: "calc" means the calculator."""
        requested = terms(text)
        wanted: dict[str, int] = {}
        for term in dict.fromkeys((*requested, *pairs(requested))):
            if term in self._vocabulary:
                wanted[f'"{term}"'] = self._vocabulary[term]
            elif len(term) >= _MIN_BEGINNING and self._begins(term):
                wanted[self._beginning.format(term)] = 1
        return " OR ".join(sorted(wanted, key=lambda term: wanted[term])[:MOST_TERMS])

    def _begins(self, beginning: str) -> bool:
        at = bisect_left(self._sorted, beginning)
        return at < len(self._sorted) and self._sorted[at].startswith(beginning)

    def _fresh(self) -> sqlite3.Connection:
        tools = self.registry.all()
        if self._connection is None or tools != self._indexed:
            documents = [list(_tool_terms(tool)) for tool in tools]
            self._connection = self._build(documents)
            self._vocabulary = Counter(term for each in documents for term in set(each))
            self._sorted = sorted(self._vocabulary)
            self._indexed = tools
        return self._connection

    def _build(self, documents: Sequence[Sequence[str]]) -> sqlite3.Connection:
        # The garbage collector may close it in any thread.
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        if self._close is not None:
            self._close()
        self._close = weakref.finalize(self, connection.close)
        register_functions(connection)
        for create, select, beginning in self._variants:
            try:
                connection.execute(create)
            except sqlite3.OperationalError:
                continue
            self._select, self._beginning = select, beginning
            break
        else:
            raise Unavailable("The SQLite of this Python has no full-text search, FTS5 or FTS4, to find tools with.")
        rows = [(number, " ".join(each)) for number, each in enumerate(documents, start=1)]
        connection.executemany("INSERT INTO told(rowid, text) VALUES (?, ?)", rows)
        return connection


def _tool_terms(tool: Tool) -> Iterator[str]:
    meta = tool.meta
    for name in (meta.name, meta.tool_id, *meta.further_names):
        parts = terms(name)
        yield from parts * _NAME_WEIGHT
        yield from pairs(parts) * _NAME_WEIGHT
    words = (tool.spec.description, *meta.tags, *meta.examples, *_parameters(tool.spec.parameters))
    yield from terms(" ".join(_bounded(words, MAX_TOLD)))


def _parameters(schema: JsonObject) -> Iterator[str]:
    """Return parameter names and descriptions. An outsider's schema may hold anything."""
    properties = schema.get("properties")
    for name, each in (properties if isinstance(properties, dict) else {}).items():
        yield name
        about: Json = each.get("description") if isinstance(each, dict) else None
        if isinstance(about, str):
            yield about


def _bounded(words: Iterable[str], room: int) -> Iterator[str]:
    for each in words:
        yield each[:room]
        room -= len(each)
        if room <= 0:
            return
