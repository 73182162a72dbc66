"""What comes and goes between two texts, as a unified diff, in bounded time."""

from collections.abc import Iterator
from difflib import SequenceMatcher

CONTEXT = 3
_MOST_PAIRS = 1_000_000
"""Lines of one side times lines of the other that are compared each with each. What differs in more places than that is
shown as one passage that goes and one that comes (THREATS 17)."""
_NO_END = "\\ No newline at end of file"

_Block = tuple[str, int, int, int, int]


def unified(old: str, new: str) -> str:
    """The diff without names of files; empty where the texts are the same."""
    before, after = lines_of(old), lines_of(new)
    return "\n".join(line for group in _groups(before, after) for line in _hunk(before, after, group))


def lines_of(text: str) -> list[str]:
    """With their line feeds: a last line without one is another line than the same with one."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def _groups(before: list[str], after: list[str]) -> Iterator[list[_Block]]:
    first = _common(before, after)
    last = _common(before[first:][::-1], after[first:][::-1])
    start = max(first - CONTEXT, 0)
    kept = max(last - CONTEXT, 0)
    old, new = before[start : len(before) - kept], after[start : len(after) - kept]
    if len(old) * len(new) <= _MOST_PAIRS:
        for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
            found = [(tag, a + start, b + start, c + start, d + start) for tag, a, b, c, d in group]
            if any(tag != "equal" for tag, *_ in found):
                yield found
        return
    old_end, new_end = len(before) - last, len(after) - last
    tail = last - kept
    yield [
        ("equal", start, first, start, first),
        ("replace", first, old_end, first, new_end),
        ("equal", old_end, old_end + tail, new_end, new_end + tail),
    ]


def _common(one: list[str], other: list[str]) -> int:
    """How many lines both begin with."""
    for number, (line, same) in enumerate(zip(one, other, strict=False)):
        if line != same:
            return number
    return min(len(one), len(other))


def _hunk(before: list[str], after: list[str], group: list[_Block]) -> Iterator[str]:
    (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = group[0], group[-1]
    yield f"@@ -{_span(old_from, old_to)} +{_span(new_from, new_to)} @@"
    for tag, a, b, c, d in group:
        if tag == "equal":
            yield from _marked(" ", before[a:b])
            continue
        yield from _marked("-", before[a:b])
        yield from _marked("+", after[c:d])


def _span(begin: int, end: int) -> str:
    """As POSIX diff -u writes a range: of no lines, the one before it is named."""
    count = end - begin
    return f"{begin + 1 if count else begin},{count}"


def _marked(sign: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield sign + line.removesuffix("\n")
        if not line.endswith("\n"):
            yield _NO_END
