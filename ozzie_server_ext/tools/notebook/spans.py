"""Where the parts of a JSON text stand, so that one of them can be replaced and every other byte stays as it is."""

import json
from dataclasses import dataclass
from json.decoder import WHITESPACE, scanstring  # type: ignore[attr-defined]
from typing import Any

_DECODER = json.JSONDecoder()


class NotRead(ValueError):
    """The text is not what it was taken for."""


@dataclass(frozen=True, slots=True)
class Span:
    """A value of the text, from `start` up to, not including, `end`, in characters."""

    start: int
    end: int
    value: Any

    def of(self, text: str) -> str:
        return text[self.start : self.end]


def members(text: str, start: int, *, by_item: str = "") -> tuple[dict[str, Span], int]:
    """The values of the object that begins at `start`, by their names, and where it ends. What is called `by_item` is
    an array, whose value is the list of the spans of its items: to read a large one at once holds everybody else up.
    Raises NotRead, also where a name stands twice: two readers would take it for two things."""
    found: dict[str, Span] = {}
    at = _expect(text, start, "{")
    if text[at : at + 1] == "}":
        return found, at + 1
    while True:
        name, at = _name(text, at)
        at = _expect(text, _skip(text, at), ":")
        if name in found:
            raise NotRead(f"{name[:40]} stands twice in one object")
        if name == by_item:
            each, end = items(text, at)
            found[name] = span = Span(at, end, each)
        else:
            found[name] = span = _value(text, at)
        at = _skip(text, span.end)
        if text[at : at + 1] == "}":
            return found, at + 1
        at = _expect(text, at, ",")


def items(text: str, start: int) -> tuple[list[Span], int]:
    """The values of the array that begins at `start`, and where it ends. Raises NotRead."""
    found: list[Span] = []
    at = _expect(text, start, "[")
    if text[at : at + 1] == "]":
        return found, at + 1
    while True:
        found.append(span := _value(text, at))
        at = _skip(text, span.end)
        if text[at : at + 1] == "]":
            return found, at + 1
        at = _expect(text, at, ",")


def first(text: str) -> int:
    """Where the one value of the text begins."""
    return _skip(text, 0)


def expect_nothing_behind(text: str, end: int) -> None:
    """Raises NotRead where more than one value stands in the text."""
    if _skip(text, end) != len(text):
        raise NotRead("something stands behind its end")


def _name(text: str, at: int) -> tuple[str, int]:
    _expect(text, at, '"')
    try:
        return scanstring(text, at + 1, True)
    except ValueError as error:
        raise NotRead(str(error)) from None


def _value(text: str, at: int) -> Span:
    try:
        value, end = _DECODER.raw_decode(text, at)
    except RecursionError:
        raise NotRead("it is nested too deep") from None
    except ValueError as error:
        raise NotRead(str(error)) from None
    return Span(at, end, value)


def _expect(text: str, at: int, sign: str) -> int:
    """Where the next thing behind that sign begins."""
    if text[at : at + 1] != sign:
        raise NotRead(f"{sign} is missing at character {at:,}")
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    match = WHITESPACE.match(text, at)
    return at if match is None else match.end()
