"""How a message names a file of the project: `@data/sales.csv`, or `@"two words.csv"` where plain text would end it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_PATH_CHARS = 1024
"""As much of a line is looked at around the cursor; the tools take no longer path either."""

_BEFORE = r"(?<![\w@/.])@"  # an address of mail, a decorator's path and a second @ are none
_TYPED = re.compile(_BEFORE + r'(?:"(?P<quoted>[^"]*)|(?P<plain>[^\s"@][^\s"]*)?)\Z')
_WHOLE = re.compile(_BEFORE + r'(?:"(?P<quoted>[^"]+)"|(?P<plain>[^\s"@]\S*))')
_CLOSING = ".,;:!?)]}'\"`"
"""What ends a sentence or a bracket, and not a path: the offline script and most models drop it, too."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A path and where it stands, from its `@` on; in characters of the text, as Jupyter counts them."""

    start: int
    end: int
    path: str


def typed_mention(text: str, cursor: int) -> Mention | None:
    """The mention that is being written at the cursor; None where none is. Its path may be empty."""
    start, line = _line_before(text, cursor)
    match = _TYPED.search(line)
    if match is None:
        return None
    closed = match["quoted"] is not None and text[cursor : cursor + 1] == '"'
    return Mention(start + match.start(), cursor + closed, match["quoted"] or match["plain"] or "")


def mention_at(text: str, cursor: int) -> Mention | None:
    """The whole mention in which the cursor stands, or behind which."""
    start, before = _line_before(text, cursor)
    line = before + text[cursor : cursor + MAX_PATH_CHARS].split("\n", 1)[0]
    for match in _WHOLE.finditer(line):
        if match.start() <= cursor - start <= match.end():
            path = match["quoted"] or match["plain"].rstrip(_CLOSING)
            return Mention(start + match.start(), start + match.end(), path) if path else None
    return None


def mentions_in(text: str) -> Iterator[Mention]:
    """All mentions of a message, in their order."""
    start = 0
    for line in text.split("\n"):
        for match in _WHOLE.finditer(line):
            path = match["quoted"] or match["plain"].rstrip(_CLOSING)
            if 0 < len(path) <= MAX_PATH_CHARS:
                yield Mention(start + match.start(), start + match.end(), path)
        start += len(line) + 1


def write_mention(path: str) -> str | None:
    """How a message names `path`; None where it can't. A folder ends with a slash, and its quotes stay open."""
    if '"' in path or "\n" in path or not path:
        return None
    if not re.search(r"\s", path) and path[-1] not in _CLOSING and path[0] != "@":
        return f"@{path}"
    return f'@"{path}' if path.endswith("/") else f'@"{path}"'


def _line_before(text: str, cursor: int) -> tuple[int, str]:
    """Where the part of the cursor's line that is looked at begins, and that part up to the cursor."""
    start = max(text.rfind("\n", 0, cursor) + 1, cursor - MAX_PATH_CHARS)
    return start, text[start:cursor]
