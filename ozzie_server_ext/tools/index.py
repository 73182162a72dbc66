"""The tool index: full-text search (BM25) for the tools that fit a text.

It uses FTS5 if SQLite has it, else FTS4 ranked by `sqlite-fts4`. Both rank a single column the same way, so a tool's
name is weighted by repeating it.
"""

import re
import sqlite3
import threading
import unicodedata
import weakref
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter

from sqlite_fts4 import register_functions

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.registry import ToolRegistry

MAX_TEXT = 8000
"""Characters searched; of a longer text, half from its beginning and half from its end."""

_WORD = re.compile(r"[^\W_]+")
_ACCENTS = re.compile(r"[\u0300-\u036f]+")
_CASES = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)
"""Scripts without spaces between words."""
_SILENT = frozenset(
    re.findall(
        r"\w+",
        """
        a an and any are as at be by can could do does for from get give had has have how i if in into is it its just
        let me my no not of off on or our please should so some tell than that the their them then there these they this
        to us want was we were what when where which who will with would you your
        """,
    )
)
"""Words of every question, which say nothing about its topic."""


def terms(text: str) -> list[str]:
    """Return the terms of a text in order. Names are split at `_`, `.` and capitals that begin a word."""
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", clipped(text)))
    text = clipped(unicodedata.normalize("NFC", bare))  # one character can have become eighteen
    return [term for word in _WORD.findall(_CASES.sub(" ", text)) for term in _parts(word.casefold())]


def pairs(found: list[str]) -> list[str]:
    """Return each two adjacent terms as one: "read the file" means `read_file` more than other tools that read."""
    return [first + second for first, second in pairwise(found)]


def clipped(text: str) -> str:
    """Cut a long text in the middle: a request stands before or behind what was pasted."""
    half = MAX_TEXT // 2
    return text if len(text) <= MAX_TEXT else f"{text[:half]} {text[-half:]}"


def _parts(word: str) -> Iterator[str]:
    """Return a word's stem; without spaces between words, each pair of characters, to find parts of sentences."""
    at = 0
    for run in _UNSPACED.finditer(word):
        yield from _spoken(word[at : run.start()])
        yield from (run[0][i : i + 2] for i in range(max(len(run[0]) - 1, 1)))
        at = run.end()
    yield from _spoken(word[at:])


def _spoken(word: str) -> Iterator[str]:
    if word and word not in _SILENT:
        yield _stem(word)


def _stem(word: str) -> str:
    """Remove English endings, so that "deleting files" finds `delete_file`. Prefixes would mix note and notebook."""
    if not word.isascii() or not word.isalpha() or len(word) < 4:
        return word
    if word.endswith("ies") and len(word) > 4:
        word = f"{word[:-3]}y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            word = word.removesuffix(ending)
            if word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word


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
