"""Patterns over names, paths and commands, matched in bounded time (THREATS 15).

A `*` stands for any run of characters, and that is all: between two stars the leftmost place is as good as any other,
so no place is ever gone back to, and no pattern can be made slow by a text.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

MANY = "**"
"""Any number of components of a path, or of words at the end of a command."""


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern over one text."""

    pieces: tuple[str, ...]

    @classmethod
    def of(cls, pattern: str) -> "Glob":
        return cls(tuple(pattern.split("*")))

    def matches(self, text: str) -> bool:
        first, *middle = self.pieces
        if not middle:
            return text == first
        last = middle.pop()
        if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
            return False
        at, end = len(first), len(text) - len(last)
        for piece in middle:
            at = text.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return True


@dataclass(frozen=True, slots=True)
class SequenceGlob:
    """A pattern over a sequence of texts, in which `**` stands for any number of them, also none.

    A run of patterns between two `**` is tried at each place until it stands: the work is at most the number of texts
    times the length of the longest run, and both are bounded (`MAX_PATH_COMPONENTS`, `MAX_COMPONENTS`).
    """

    runs: tuple[tuple[Glob, ...], ...]

    @classmethod
    def of(cls, patterns: Sequence[str]) -> "SequenceGlob":
        runs: list[list[Glob]] = [[]]
        for pattern in patterns:
            if pattern == MANY:
                runs.append([])
            else:
                runs[-1].append(Glob.of(pattern))
        return cls(tuple(map(tuple, runs)))

    def matches(self, texts: Sequence[str]) -> bool:
        first, *middle = self.runs
        if not middle:
            return len(texts) == len(first) and _stands(first, texts, 0)
        last = middle.pop()
        end = len(texts) - len(last)
        if end < len(first) or not _stands(first, texts, 0) or not _stands(last, texts, end):
            return False
        at = len(first)
        for run in middle:
            found = next((place for place in range(at, end - len(run) + 1) if _stands(run, texts, place)), None)
            if found is None:
                return False
            at = found + len(run)
        return True


def _stands(run: Sequence[Glob], texts: Sequence[str], at: int) -> bool:
    return all(glob.matches(texts[at + index]) for index, glob in enumerate(run))


def folded(text: str) -> str:
    """The text as it is compared where the case of letters and the form of accents do not matter."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
