"""Long text in pieces that a model can take, and that joined again are the whole.

Places are told by line and character, both from 1. A line ends at a line feed and at nothing else, so that no character
is lost between two pieces.
"""

from dataclasses import dataclass

from ozzie_server_ext.domain.errors import InputError


@dataclass(frozen=True, slots=True)
class TextPlace:
    """Where a character of a text stands."""

    line: int
    character: int


@dataclass(frozen=True, slots=True)
class Page:
    """A piece of a text, and the place behind it; None at the text's end."""

    text: str
    next: TextPlace | None


def count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n")) if text else 0


def page_of(text: str, start: TextPlace, *, max_lines: int, room: int) -> Page:
    """What begins at `start`, at most so many lines and `room` characters in the JSON that carries it. It ends at a
    line's end, unless that would leave less than half of it. Raises InputError where `start` lies behind the end."""
    begin = _offset(text, start)
    end = begin
    for _ in range(max_lines):
        end = text.find("\n", end) + 1
        if not end:
            end = len(text)
            break
    piece = _to_line_end(fitting(text[begin:end], room), whole=end - begin)
    behind = begin + len(piece)
    return Page(piece, None if behind >= len(text) else _place(text, behind))


def head_and_tail(text: str, room: int) -> tuple[Page, str]:
    """The beginning and the end of a text that is longer, within `room` together: three quarters of it and one."""
    head = _to_line_end(fitting(text, room - room // 4), whole=len(text))
    tail = fitting(text[len(head) :][-(room // 4 or 1) :][::-1], room // 4)[::-1]
    at_line = tail.find("\n") + 1
    return Page(head, _place(text, len(head))), tail[at_line:] if at_line <= len(tail) // 2 else tail


def fitting(text: str, room: int) -> str:
    """The longest beginning of `text` that takes at most `room` characters within JSON, where some need escapes."""
    used = 0
    for index, character in enumerate(text[:room]):
        used += 1 if character >= " " and character not in '"\\' else 2 if character in '"\\\n\r\t\b\f' else 6
        if used > room:
            return text[:index]
    return text[:room]


def _to_line_end(piece: str, *, whole: int) -> str:
    end = piece.rfind("\n") + 1
    return piece[:end] if len(piece) < whole and end > len(piece) // 2 else piece


def _place(text: str, offset: int) -> TextPlace:
    return TextPlace(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


def _offset(text: str, place: TextPlace) -> int:
    offset = 0
    for line in range(1, place.line):
        offset = text.find("\n", offset) + 1
        if not offset or offset == len(text):
            raise InputError(f"There is no line {place.line:,}: the last one is {line:,}.")
    end = text.find("\n", offset)
    length = len(text) - offset if end < 0 else end + 1 - offset  # with its line feed, where it has one
    if place.character > max(length, 1):
        raise InputError(
            f"There is no character {place.character:,} in line {place.line:,}: the last one is {length:,}."
        )
    return offset + place.character - 1
