"""Where private keys stand in a text (RFC 7468, RFC 4880 §6.2), however their lines are quoted, indented or prefixed.

A key is followed line by line from its BEGIN, or backwards from its END where the beginning is missing, and no further
than its lines go: what comes after a BEGIN that only a program compares with is left alone. Each line is looked at
once, so the time is in proportion to the text.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

Span = tuple[int, int]
"""Where it begins, and where what follows it does."""

_OF = r"(?:RSA |EC |DSA |OPENSSH |ENCRYPTED |PGP )?PRIVATE KEY(?: BLOCK)?-----"
_BEGIN = re.compile(f"-----BEGIN {_OF}")
_END = re.compile(f"-----END {_OF}")

# Behind a line: the end of a literal, an escaped line break, a comma. Before one: quotes, comments, numbers, names of
# files. Neither holds what a key is made of for long.
_JOIN = r"(?:\\{1,4}+[rnt]|[^\w+/\n-]){0,16}+(?:\n[^\n]{0,24}?){0,3}?"
_HEADER = re.compile(
    _JOIN + r"(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash|MessageID):(?:[^\n\\\"']|\\(?![rn])){0,100}+"
)
_LINE = re.compile(_JOIN + r"[A-Za-z0-9+/]{40,}+={0,2}+")
_SHORT = re.compile(
    r"(?:\\{1,4}+[rnt]|[\"',\s\\]){1,16}+(?:[^\w+/\n-]{0,16}+)(?P<run>=?[A-Za-z0-9+/]{4,75}+={0,2}+)(?![A-Za-z0-9_:.=(-])"
)
_LAST = re.compile(rf"(?:{_JOIN}=?[A-Za-z0-9+/]{{1,75}}+={{0,2}}+){{0,2}}?{_JOIN}-----END [A-Z ]{{0,30}}+-----")
_MIXED = re.compile(r"(?=.*[A-Z])(?=.*[a-z])|.*=")

_LINE_BEFORE_END = re.compile(r"[^\n]{0,24}?[A-Za-z0-9+/]{64,76}={0,2}(?![A-Za-z0-9+/])[^\n]{0,16}")
_SHORT_BEFORE_END = re.compile(r"[^\w\n]{0,24}=?[A-Za-z0-9+/]{1,75}={0,2}(?:\\n)?[^\w\n]{0,16}")
_LONGEST_LINE = 128


def private_keys(text: str) -> list[Span]:
    """The places of all private keys, in order, none within another."""
    found: list[Span] = []
    at = 0
    for begin, end in sorted([*_from_begins(text), *_from_ends(text)]):
        if begin >= at:
            found.append((begin, end))
        elif end > at:
            found[-1] = found[-1][0], end
        at = max(at, end)
    return found


def in_lines(lines: list[str]) -> list[list[Span]]:
    """The places, in each of the lines, of keys that are spread over several. A key's first piece is not empty."""
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    places: list[list[Span]] = [[] for _ in lines]
    at = 0
    for begin, end in private_keys("\n".join(lines)):
        while starts[at + 1] <= begin:
            at += 1
        for number, (start, following) in enumerate(pairwise(starts[at:]), at):
            if start >= end:
                break
            places[number].append((max(begin - start, 0), min(end, following - 1) - start))
    return places


def _from_begins(text: str) -> Iterator[Span]:
    at = 0
    while (begin := _BEGIN.search(text, at)) is not None:
        at = begin.end()
        while (header := _HEADER.match(text, at)) is not None:
            at = header.end()
        lines_from = at
        while (line := _LINE.match(text, at)) is not None:
            at = line.end()
        if at > lines_from:
            yield begin.start(), _end_of(text, at)
        at = max(at, begin.end())


def _end_of(text: str, at: int) -> int:
    """Behind the last line of a key, which is shorter, and the END that may follow."""
    if (last := _LAST.match(text, at)) is not None:
        return last.end()
    short = _SHORT.match(text, at)
    return short.end() if short is not None and _MIXED.match(short["run"]) else at


def _from_ends(text: str) -> Iterator[Span]:
    for end in _END.finditer(text):
        begin, at = None, text.rfind("\n", max(end.start() - _LONGEST_LINE, 0), end.start())
        short = 0
        while at > 0:
            start = text.rfind("\n", max(at - _LONGEST_LINE, 0), at) + 1
            if start == 0 and at > _LONGEST_LINE:
                break
            if _LINE_BEFORE_END.fullmatch(text, start, at):
                begin = start
            elif begin is None and short < 2 and _SHORT_BEFORE_END.fullmatch(text, start, at):
                short += 1
            else:
                break
            at = start - 1
        if begin is not None:
            yield begin, end.end()
