"""How many columns text takes in a terminal, where a letter of Chinese takes two and an accent none; cutting, padding
and wrapping by that."""

import unicodedata

LINE_WIDTH = 80
"""What a console is taken to have (UX §5)."""

_NONE = frozenset({"Mn", "Me", "Cf"})
_EMOJI_FORM = "\ufe0f"


def columns(text: str) -> int:
    """The columns of one line without control characters."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def cut_columns(text: str, width: int) -> str:
    """`text` in at most `width` columns, the end dropped."""
    if columns(text) <= width:
        return text
    return f"{_head(text, width - 1).rstrip()}…" if width > 0 else ""


def cut_middle_columns(text: str, width: int) -> str:
    """`text` in at most `width` columns, the middle dropped: a path keeps its root and its name."""
    if columns(text) <= width:
        return text
    tail = _head(text[::-1], width // 2)[::-1]
    return f"{_head(text, width - 1 - columns(tail))}…{tail}" if width > 0 else ""


def padded(text: str, width: int, *, right: bool = False) -> str:
    """`text` with the blanks that it lacks of `width` columns; before it where it belongs to the right."""
    blanks = " " * max(width - columns(text), 0)
    return f"{blanks}{text}" if right else f"{text}{blanks}"


def wrapped(text: str, width: int = LINE_WIDTH, *, indent: str = "") -> list[str]:
    """One paragraph in lines of at most `width` columns, broken at blanks; `indent` stands before all but the first. A
    word that fits no line stays whole: an address that is cut can't be copied."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        longer = f"{line} {word}" if line.strip() else f"{line}{word}"
        if line.strip() and columns(longer) > width:
            lines.append(line)
            longer = f"{indent}{word}"
        line = longer
    return [*lines, line] if line.strip() else lines


def folded(text: str, width: int = LINE_WIDTH) -> list[str]:
    """One line in pieces of at most `width` columns, wherever they break: nothing of it is left out."""
    pieces: list[str] = []
    while columns(text) > width:
        piece = _head(text, width) or text[:1]
        pieces.append(piece)
        text = text[len(piece) :]
    return [*pieces, text]


def _head(text: str, width: int) -> str:
    taken = 0
    for index, char in enumerate(text):
        taken += _columns(char)
        if taken > width:
            return text[:index]
    return text


def _columns(char: str) -> int:
    if char == _EMOJI_FORM or unicodedata.category(char) in _NONE:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
