"""The tool index: which tools fit what somebody says, by full text and BM25.

FTS5 where SQLite has it, else FTS4, which `sqlite-fts4` ranks. Both give the same order of one column alone; so
what a tool is called weighs more than what is said of it by standing there more than once.
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
"""In characters, of what terms are taken from: of a longer text, as much of its beginning and of its end."""

_WORD = re.compile(r"[^\W_]+")
_ACCENTS = re.compile(r"[\u0300-\u036f]+")
_CASES = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)
"""Scripts without blanks between words."""
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
"""What is in every question, and tells nothing of what it is about."""


def terms(text: str) -> list[str]:
    """The terms of a text, in order. A name is parted at `_`, `.` and where its capitals begin a word."""
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", clipped(text)))
    text = clipped(unicodedata.normalize("NFC", bare))  # one character can have become eighteen
    return [term for word in _WORD.findall(_CASES.sub(" ", text)) for term in _parts(word.casefold())]


def pairs(found: list[str]) -> list[str]:
    """Each two terms behind each other, as one: who writes "read the file" means `read_file` more than what reads, or
    has to do with files."""
    return [first + second for first, second in pairwise(found)]


def clipped(text: str) -> str:
    """Its beginning and end, where it is long: what somebody wants stands before or behind what they paste."""
    half = MAX_TEXT // 2
    return text if len(text) <= MAX_TEXT else f"{text[:half]} {text[-half:]}"


def _parts(word: str) -> Iterator[str]:
    """A word without its ending; of a script without blanks, each two characters behind each other, as a search by
    words would find nothing but whole sentences."""
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
    """Without what English puts behind a verb or a noun, so that "deleting files" finds what deletes a file. The index
    has no prefixes for that: they would take a note for a notebook."""
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
"""Of a question: FTS4's ranking takes quadratic time."""
MAX_TOLD = 4000
"""In characters, of what one tool says of itself. An outsider who says much is not found for everything."""
_NAME_WEIGHT = 3
_MIN_BEGINNING = 4

# As terms come in one form already, `unicode61` has nothing to do but to part them at blanks; of those that both have,
# it alone takes the letters of every script for letters. Trigrams, which FTS4 lacks, find neither words of two letters
# nor any Chinese one.
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
"""How the table is made, how it is asked, and how the beginning of a word is written."""


class ToolIndex:
    """Over the tools of a registry, in memory. It is made when it is first asked, and again when there are others."""

    def __init__(self, registry: ToolRegistry, *, fts5: bool = True) -> None:
        """Without `fts5`, FTS4 is used even where the other one is there."""
        self.registry = registry
        self._ways = (_FTS5, _FTS4) if fts5 else (_FTS4,)
        self._indexed: tuple[Tool, ...] = ()
        self._vocabulary: Counter[str] = Counter()
        self._sorted: list[str] = []
        self._connection: sqlite3.Connection | None = None
        self._select = self._beginning = ""
        self._close: Callable[[], object] | None = None
        self._lock = threading.Lock()

    def search(self, text: str) -> tuple[Tool, ...]:
        """The tools that have to do with the text, what fits best first; of equals, by id. Any text will do.

        Raises Unavailable where SQLite has no full-text search.
        """
        with self._lock:
            connection = self._fresh()
            query = self._query(text)
            found = connection.execute(self._select, (query,)).fetchall() if query else []
            indexed = self._indexed
        # The rows come by id, and sorting leaves equals as they are.
        return tuple(indexed[row - 1] for row, _ in sorted(found, key=itemgetter(1)))

    def refresh(self) -> None:
        """Index the tools that there are now. It may be called in a thread: what a thousand tools say takes a while to
        read. Raises as `search`."""
        with self._lock:
            self._fresh()

    def _query(self, text: str) -> str:
        """Its terms that any tool has, each in quotation marks; of many, the rarest. One that none has may be the
        beginning of one: somebody says "calc" for the calculator."""
        asked = terms(text)
        wanted: dict[str, int] = {}
        for term in dict.fromkeys((*asked, *pairs(asked))):
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
            told = [list(_told(tool)) for tool in tools]
            self._connection = self._made(told)
            self._vocabulary = Counter(term for each in told for term in set(each))
            self._sorted = sorted(self._vocabulary)
            self._indexed = tools
        return self._connection

    def _made(self, told: Sequence[Sequence[str]]) -> sqlite3.Connection:
        # The garbage collector may close it in any thread.
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        if self._close is not None:
            self._close()
        self._close = weakref.finalize(self, connection.close)
        register_functions(connection)
        for create, select, beginning in self._ways:
            try:
                connection.execute(create)
            except sqlite3.OperationalError:
                continue
            self._select, self._beginning = select, beginning
            break
        else:
            raise Unavailable("The SQLite of this Python has no full-text search, FTS5 or FTS4, to find tools with.")
        rows = [(number, " ".join(each)) for number, each in enumerate(told, start=1)]
        connection.executemany("INSERT INTO told(rowid, text) VALUES (?, ?)", rows)
        return connection


def _told(tool: Tool) -> Iterator[str]:
    """All terms by which a tool is found."""
    meta = tool.meta
    for name in (meta.name, meta.tool_id, *meta.further_names):
        parts = terms(name)
        yield from parts * _NAME_WEIGHT
        yield from pairs(parts) * _NAME_WEIGHT
    words = (tool.spec.description, *meta.tags, *meta.examples, *_parameters(tool.spec.parameters))
    yield from terms(" ".join(_bounded(words, MAX_TOLD)))


def _parameters(schema: JsonObject) -> Iterator[str]:
    """Their names and what is said of them; whose schema somebody outside wrote may be anything."""
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
