"""Unified diffs of two texts in bounded time."""

from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import Match, SequenceMatcher
from itertools import accumulate, islice

CONTEXT = 3
MOST_STEPS = 1_000_000
"""Pairs of equal lines examined: some tenths of a second at most. Then passages are shown as a whole."""
_NO_END = "\\ No newline at end of file"

_Block = tuple[str, int, int, int, int]


def unified(old: str, new: str, most_steps: int = MOST_STEPS) -> str:
    """Return the diff without file names, "" for equal texts. Use fewer `most_steps` for one of many files."""
    before, after = lines_of(old), lines_of(new)
    groups = _groups(before, after, most_steps)
    shown = "".join(part for group in groups for part in _hunk(before, after, group))
    return shown.removesuffix("\n")


def lines_of(text: str) -> list[str]:
    """Split a text, keeping line feeds: a last line without one differs from the same line with one."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def _groups(before: list[str], after: list[str], most_steps: int) -> Iterator[list[_Block]]:
    first = _common(before, after)
    last = _common(islice(reversed(before), len(before) - first), islice(reversed(after), len(after) - first))
    begin, end = min(first, CONTEXT), min(last, CONTEXT)
    start, kept = first - begin, last - end
    old, new = before[start : len(before) - kept], after[start : len(after) - kept]
    for group in _Bounded(old, new, begin, end, most_steps).get_grouped_opcodes(CONTEXT):
        if any(tag != "equal" for tag, *_ in group):
            yield [(tag, a + start, b + start, c + start, d + start) for tag, a, b, c, d in group]


class _Bounded(SequenceMatcher[str]):
    """A matcher for lines with `begin` first and `end` last ones in common, which examines `most_steps` pairs."""

    def __init__(self, old: list[str], new: list[str], begin: int, end: int, most_steps: int) -> None:
        super().__init__(None, old, new, autojunk=False)
        self._begin, self._end = begin, end
        self._sizes = len(old), len(new)
        there = Counter(new)
        self._steps = list(accumulate((1 + there[line] for line in old), initial=0))
        self._left = most_steps

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        """Override the source of all of difflib's answers; any match is a correct one."""
        old, new = self._sizes
        ahi, bhi = old if ahi is None else ahi, new if bhi is None else bhi
        if (alo, blo) == (0, 0) and self._begin:
            return Match(0, 0, self._begin)
        if (ahi, bhi) == (old, new) and self._end:
            return Match(old - self._end, new - self._end, self._end)
        steps = self._steps[ahi] - self._steps[alo]
        if steps > self._left:
            return Match(alo, blo, 0)
        self._left -= steps
        return super().find_longest_match(alo, ahi, blo, bhi)


def _common(one: Iterable[str], other: Iterable[str]) -> int:
    """Return how many lines both begin with."""
    count = 0
    for line, same in zip(one, other, strict=False):
        if line != same:
            break
        count += 1
    return count


def _hunk(before: list[str], after: list[str], group: list[_Block]) -> Iterator[str]:
    (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = group[0], group[-1]
    yield f"@@ -{_span(old_from, old_to)} +{_span(new_from, new_to)} @@\n"
    for tag, a, b, c, d in group:
        if tag == "equal":
            yield _marked(" ", before[a:b])
        else:
            yield _marked("-", before[a:b]) + _marked("+", after[c:d])


def _span(begin: int, end: int) -> str:
    """Format a range as POSIX diff -u does: an empty one names the line before it."""
    count = end - begin
    return f"{begin + 1 if count else begin},{count}"


def _marked(sign: str, lines: list[str]) -> str:
    if not lines:
        return ""
    shown = sign + sign.join(lines)
    return shown if shown.endswith("\n") else f"{shown}\n{_NO_END}\n"
