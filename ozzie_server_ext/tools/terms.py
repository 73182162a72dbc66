"""The terms by which tools are found: the words of a text in one form, whoever wrote it and however (TL-6).

Tools and questions go through the same function, so a term is a term. Only letters and digits are left in one: what a
full-text search takes for an operator never reaches it.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

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
