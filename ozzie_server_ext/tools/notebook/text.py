"""A notebook's file as text, in which one cell is changed and every other byte stays as it is.

A notebook that is read and written whole comes back in another spelling: numbers, escapes, the order of names. Nobody
finds the one cell in such a diff, and what a newer Jupyter wrote may be lost.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from json.decoder import WHITESPACE, scanstring  # type: ignore[attr-defined]
from typing import Any

from ozzie_server_ext.domain.content import CLEAN, MAX_SOURCE, MOST_SOURCES, Content, Label
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.jupyter.cells import (
    Cell,
    Delete,
    Edit,
    Insert,
    Move,
    Notebook,
    Replace,
    Show,
    behind,
    lines,
    place_of,
)
from ozzie_server_ext.tools.base import ToolFailed

OZZIE, MADE_FROM = "ozzie", "made_from"
"""The key of the cell's metadata, and the one in it that holds the sources."""


def marked(metadata: Mapping[str, Json], sources: tuple[str, ...]) -> JsonObject:
    """The metadata of a cell with these sources among those that it has."""
    if not sources:
        return dict(metadata)
    own = metadata.get(OZZIE)
    known = dict(own) if isinstance(own, dict) else {}
    both = sorted({*_sources(known.get(MADE_FROM)), *sources})[:MOST_SOURCES]
    return {**metadata, OZZIE: {**known, MADE_FROM: [*both]}}


def content_of(cell: Cell) -> Content:
    """What the cell says that it was made from. Whoever writes into it can only say more than is so."""
    metadata = cell.whole.get("metadata")
    own = metadata.get(OZZIE) if isinstance(metadata, dict) else None
    found = CLEAN
    for source in _sources(own.get(MADE_FROM) if isinstance(own, dict) else None):
        label, _, place = source.partition(":")
        found = found | Content.of(Label(label), [place])
    return found


def _sources(said: Json) -> list[str]:
    labels = {str(label) for label in Label}
    return [
        each
        for each in (said[:MOST_SOURCES] if isinstance(said, list) else ())
        if isinstance(each, str) and len(each) <= MAX_SOURCE and each.partition(":")[0] in labels
    ]


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


_FORMAT = 4
_WITH_IDS = 5
"""The minor version from which on cells have ids."""


@dataclass(frozen=True)
class NotebookText:
    """`cells` are the spans of the cells, `array` that of what holds them; `metadata` are the notebook's own."""

    text: str
    notebook: Notebook
    metadata: Any
    cells: tuple[Span, ...]
    array: Span

    @classmethod
    def of(cls, content: bytes, path: str) -> "NotebookText":
        """Raises ToolFailed for what is no notebook, or one of a format that nobody writes any more."""
        try:
            text = content.decode()
            top, end = members(text, first(text), by_item="cells")
            expect_nothing_behind(text, end)
            array = top["cells"]
            spans: list[Span] = array.value
            metadata = top["metadata"].value if "metadata" in top else {}
            major, minor = top["nbformat"].value, top["nbformat_minor"].value if "nbformat_minor" in top else 0
            if major != _FORMAT or not isinstance(minor, int):
                raise NotRead(f"it is of format {str(major)[:20]}, and not {_FORMAT}")
            named = minor >= _WITH_IDS
            notebook = Notebook.of([span.value for span in spans], named=named, language=_language(metadata))
        except UnicodeDecodeError:
            raise ToolFailed(f"{path} can't be read as a notebook: it is not UTF-8 text.") from None
        except KeyError as missing:
            raise ToolFailed(f"{path} can't be read as a notebook: it has no {missing.args[0]}.") from None
        except ValueError as error:
            raise ToolFailed(f"{path} can't be read as a notebook: {error}.") from None
        return cls(text, notebook, metadata, tuple(spans), array)

    def edited(self, edit: Edit) -> bytes:
        """The file with the edit made. Raises CellChanged where it is not about what is there."""
        index = place_of(edit, self.notebook)
        match edit:
            case Insert():
                whole = edit.cell if self.notebook.named else {k: v for k, v in edit.cell.items() if k != "id"}
                text = self._with(index, self._written(whole, self._cell_indent))
            case Replace():
                # As it was spelt: a list of lines, or one text.
                as_lines = not isinstance(self._part(index, "source").value, str)
                new: JsonObject = {"source": lines(edit.source) if as_lines else edit.source}
                if edit.made_from:
                    new["metadata"] = marked(self._part(index, "metadata").value, edit.made_from)
                text = self._replaced(index, new)
            case Move():
                text = self._moved(index, behind(edit.after, self.notebook))
            case Delete():
                text = self._without(index)
            case Show():
                shown = {"execution_count": edit.execution_count, "outputs": list(edit.outputs)}
                text = self._replaced(index, shown)
        return text.encode("utf-8", "surrogatepass")

    def _part(self, index: int, name: str) -> Span:
        """Raises ToolFailed where the cell lacks it."""
        parts, _ = members(self.text, self.cells[index].start)
        if name not in parts:
            raise ToolFailed(f"The cell {self.notebook.cells[index].cell_id} has no {name}, which every such cell has.")
        return parts[name]

    def _replaced(self, index: int, values: JsonObject) -> str:
        text = self.text
        # From the end on, so that what comes before stays where it is.
        parts = sorted(
            ((self._part(index, name), value) for name, value in values.items()), key=lambda each: -each[0].start
        )
        for part, value in parts:
            text = text[: part.start] + self._written(value, self._cell_indent + self._unit) + text[part.end :]
        return text

    def _with(self, index: int, cell: str) -> str:
        """With a cell, as it is written, at that place among the others."""
        text = self.text
        if not self.cells:
            inner, outer = self._gap or "", self._outer_gap
            return text[: self.array.start] + f"[{inner}{cell}{outer}]" + text[self.array.end :]
        if index == 0:
            at = self.cells[0].start
            return text[:at] + cell + "," + self._gap + text[at:]
        at = self.cells[index - 1].end
        return text[:at] + "," + self._gap + cell + text[at:]

    def _without(self, index: int) -> str:
        text, cells = self.text, self.cells
        if len(cells) == 1:
            return text[: self.array.start] + "[]" + text[self.array.end :]
        if index < len(cells) - 1:
            return text[: cells[index].start] + text[cells[index + 1].start :]
        return text[: cells[index - 1].end] + text[cells[index].end :]

    def _moved(self, index: int, to: int) -> str:
        """The cell at `index` behind those that now stand before `to`."""
        order = list(range(len(self.cells)))
        order.remove(index)
        order.insert(to - (to > index), index)
        return self._in_order(order)

    def _in_order(self, order: Sequence[int]) -> str:
        """What stands between the cells stays where it is."""
        text, cells = self.text, self.cells
        pieces = [text[: cells[0].start]]
        for place, which in enumerate(order):
            pieces.append(cells[which].of(text))
            end = cells[place + 1].start if place + 1 < len(cells) else len(text)
            pieces.append(text[cells[place].end : end])
        return "".join(pieces)

    def _written(self, value: Any, indent: str) -> str:
        """As this file writes its cells: over several lines, or all in one."""
        if not self._unit:
            return _dumped(value, None)
        return _dumped(value, self._unit).replace("\n", f"\n{indent}")

    @cached_property
    def _gap(self) -> str:
        """What stands before a cell on its own line; empty where all stand in one."""
        if not self.cells:
            # nbformat's own: two levels of a space each.
            return "\n  " if "\n" in self.text else ""
        start = self.cells[0].start
        before = self.text[self.array.start + 1 : start]
        return before if before.startswith("\n") else ""

    @property
    def _cell_indent(self) -> str:
        return self._gap.rpartition("\n")[2]

    @property
    def _outer_gap(self) -> str:
        return f"\n{self._unit}" if self._gap else ""

    @property
    def _unit(self) -> str:
        """One level: cells stand two levels deep."""
        indent = self._cell_indent
        return indent[: max(len(indent) // 2, 1)] if indent else ""


def _dumped(value: Any, indent: str | None) -> str:
    """With the names in their order, as nbformat has them."""
    how = partial(json.dumps, value, sort_keys=True, indent=indent, separators=None if indent else (",", ":"))
    text = how(ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a pair, which only an escape can write
        return how()
    return text


def _language(metadata: Any) -> str:
    """What its code is written in, as the notebook itself says; empty where it does not."""
    for part, name in (("language_info", "name"), ("kernelspec", "language")):
        found = metadata.get(part) if isinstance(metadata, dict) else None
        if isinstance(found, dict) and isinstance(found.get(name), str):
            return found[name][:40]
    return ""
