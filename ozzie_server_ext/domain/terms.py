"""The terms that texts are found by: words without endings, accents and case; of scripts without spaces, each pair of
characters."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

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


def terms(text: str, most: int = MAX_TEXT) -> list[str]:
    """Return the terms of a text in order. Names are split at `_`, `.` and capitals that begin a word. Of a text of
    more than `most` characters, only the beginning and the end are read."""
    text = clipped(text, most)
    if not text.isascii():
        bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
        text = clipped(unicodedata.normalize("NFC", bare), most)  # one character can have become eighteen
    found: list[str] = []
    for word in _WORD.findall(text):
        found += _known_terms(word) if len(word) <= _MOST_KNOWN else _terms_of(word)
    return found


_MOST_KNOWN = 24
"""Characters of a word that is kept in memory. Longer ones hardly ever come again, and may be keys."""


def _terms_of(word: str) -> tuple[str, ...]:
    return tuple(term for part in _CASES.split(word) for term in _parts(part.casefold()))


_known_terms = lru_cache(maxsize=20_000)(_terms_of)


def forget_words() -> None:
    """Forget the words that are kept in memory: something was erased, and they may be its own."""
    _known_terms.cache_clear()


def pairs(found: list[str]) -> list[str]:
    """Return each two adjacent terms as one: "read the file" means `read_file` more than other tools that read."""
    return [first + second for first, second in pairwise(found)]


def clipped(text: str, most: int = MAX_TEXT) -> str:
    """Cut a long text in the middle: a request stands before or behind what was pasted."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} {text[-half:]}"


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


Kind: TypeAlias = Literal["message", "reply", "tool", "artifact", "title"]
"""A text that is searched: what a person wrote, what a model answered, a tool call or its result, an artifact, a
session's title."""
AUTHORS: dict[str, str] = {
    "message": "you",
    "reply": "Ozzie",
    "tool": "tool",
    "artifact": "artifact",
    "title": "title",
}
"""How lists name whose text it is, by kind."""


class Phrase(NamedTuple):
    """Terms that stand one behind the other. With `is_beginning`, the last of them may go on: "calc" in "calculate".
    `words` is how they were written."""

    terms: tuple[str, ...]
    is_beginning: bool = False
    words: str = ""


LEAST_BEGINNING = 3
"""Letters of a beginning that is searched for: shorter ones stand in almost every text."""
_WORDS = re.compile(r'"([^"]*)"|(\S+)')


def phrases(query: str) -> list[Phrase]:
    """Return what a text must contain: each word, each "quoted phrase", each beg* of a word. A name like `read_file`
    counts as a phrase. Words of every question are left out."""
    found: dict[tuple[tuple[str, ...], bool], Phrase] = {}
    for quoted, word in _WORDS.findall(clipped(query)):
        is_beginning = word.endswith("*")
        parts = _unstemmed(word) if is_beginning else terms(quoted or word)
        if is_beginning and sum(map(len, parts)) < LEAST_BEGINNING:
            is_beginning, parts = False, terms(word)
        if len(parts) == 1 and len(parts[0]) == 1 and _UNSPACED.match(parts[0]):
            is_beginning = True  # it begins each pair of which it is the first
        if parts:
            found.setdefault((tuple(parts), is_beginning), Phrase(tuple(parts), is_beginning, quoted or word))
    return list(found.values())


def _unstemmed(word: str) -> list[str]:
    """Return the terms of a word of which the last is cut off anywhere, so that it has no ending to remove."""
    whole = _WORD.findall(_ACCENTS.sub("", unicodedata.normalize("NFKD", word)).casefold())
    last = [each.removesuffix("e") if len(each) > 3 else each for each in whole[-1:]]  # no term ends with it
    return [*terms(" ".join(whole[:-1])), *last]


def found_at(text: str, wanted: Sequence[Phrase]) -> list[tuple[int, int]]:
    """Return where the words stand that any of the phrases contains, as start and end, in order."""
    exact = {term for phrase in wanted for term in (phrase.terms[:-1] if phrase.is_beginning else phrase.terms)}
    beginnings = tuple(phrase.terms[-1] for phrase in wanted if phrase.is_beginning)
    spans: list[tuple[int, int]] = []
    for word in _WORD.finditer(text):
        for start, end in _pieces(word):
            piece = text[start:end]
            is_one = any(term in exact for term in terms(piece))
            if is_one or (beginnings and any(term.startswith(beginnings) for term in _unstemmed(piece))):
                if spans and spans[-1][1] >= start:  # pairs of characters overlap
                    spans[-1] = (spans[-1][0], end)
                else:
                    spans.append((start, end))
    return spans


def _pieces(word: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Return the parts of a word that are terms by themselves."""
    start, at = word.start(), 0
    for run in _UNSPACED.finditer(word[0]):
        yield from _between(word[0], start, at, run.start())
        pairs_in = max(len(run[0]) - 1, 1)
        yield from ((start + run.start() + i, start + min(run.start() + i + 2, run.end())) for i in range(pairs_in))
        at = run.end()
    yield from _between(word[0], start, at, len(word[0]))


def _between(word: str, start: int, at: int, end: int) -> Iterator[tuple[int, int]]:
    cuts = [at, *(cut.start() for cut in _CASES.finditer(word, at, end)), end]
    yield from ((start + a, start + b) for a, b in pairwise(cuts) if a < b)
