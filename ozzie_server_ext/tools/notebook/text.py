"""A notebook's file as text, in which one cell is changed and every other byte stays.

Reading and rewriting a whole notebook would change its spelling (numbers, escapes, key order), hide the one cell in the
diff, and lose what a newer Jupyter wrote.
"""

import json
from collections.abc import Mapping
from functools import cached_property, partial
from json.decoder import WHITESPACE, scanstring  # type: ignore[attr-defined]
from typing import Any

import msgspec

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
"""The key in a cell's metadata, and the key in it that holds the sources."""


def marked(metadata: Mapping[str, Json], sources: tuple[str, ...]) -> JsonObject:
    """Return a cell's metadata with these sources added."""
    if not sources:
        return dict(metadata)
    own = metadata.get(OZZIE)
    known = dict(own) if isinstance(own, dict) else {}
    both = sorted({*_sources(known.get(MADE_FROM)), *sources})[:MOST_SOURCES]
    return {**metadata, OZZIE: {**known, MADE_FROM: [*both]}}


def content_of(cell: Cell) -> Content:
    """Return the sources that a cell declares. Anybody who edits them can only add more."""
    metadata = cell.whole.get("metadata")
    own = metadata.get(OZZIE) if isinstance(metadata, dict) else None
    found = CLEAN
    for source in _sources(own.get(MADE_FROM) if isinstance(own, dict) else None):
        label, _, place = source.partition(":")
        found = found | Content.of(Label(label), [place])
    return found


def _sources(value: Json) -> list[str]:
    labels = {str(label) for label in Label}
    return [
        each
        for each in (value[:MOST_SOURCES] if isinstance(value, list) else ())
        if isinstance(each, str) and len(each) <= MAX_SOURCE and each.partition(":")[0] in labels
    ]


_DECODER = json.JSONDecoder()


class NotRead(ValueError):
    """The text does not have the expected form."""


class Span(msgspec.Struct, frozen=True):
    """A value in the text, from `start` to before `end`, in characters."""

    start: int
    end: int
    value: Any

    def of(self, text: str) -> str:
        return text[self.start : self.end]


def members(text: str, start: int, *, by_item: str = "") -> tuple[dict[str, Span], int]:
    """Return the values of the object that begins at `start`, by name, and its end. The value of `by_item` is an array
    whose items are read one by one as spans: reading a large one at once would block other threads. Raises NotRead,
    also for a duplicate name, which readers interpret differently."""
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
    """Return the values of the array that begins at `start`, and its end. Raises NotRead."""
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
    """Return where the next token after the sign begins."""
    if text[at : at + 1] != sign:
        raise NotRead(f"{sign} is missing at character {at:,}")
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    match = WHITESPACE.match(text, at)
    return at if match is None else match.end()


_FORMAT = 4
_WITH_IDS = 5
"""The first minor version in which cells have ids."""


class NotebookText(msgspec.Struct, frozen=True, dict=True):
    """`cells` are the spans of the cells, `array` is that of their array; `metadata` are the notebook's own."""

    text: str
    notebook: Notebook
    metadata: Any
    cells: tuple[Span, ...]
    array: Span

    @classmethod
    def of(cls, content: bytes, path: str) -> "NotebookText":
        """Parse a notebook. Raises ToolFailed for anything else, or an outdated format."""
        try:
            text = content.decode()
            top, end = members(text, _skip(text, 0), by_item="cells")
            if _skip(text, end) != len(text):
                raise NotRead("there is something after its end")
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
        """Return the file with the edit made. Raises CellChanged if it does not fit the present state."""
        index = place_of(edit, self.notebook)
        match edit:
            case Insert():
                whole = edit.cell if self.notebook.named else {k: v for k, v in edit.cell.items() if k != "id"}
                text = self._with(index, self._written(whole, self._cell_indent))
            case Replace():
                # Keep the form of the source: a list of lines, or one text.
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
        """Return the span of a cell's key. Raises ToolFailed if the cell lacks it."""
        parts, _ = members(self.text, self.cells[index].start)
        if name not in parts:
            raise ToolFailed(f"The cell {self.notebook.cells[index].cell_id} has no {name}, which every such cell has.")
        return parts[name]

    def _replaced(self, index: int, values: JsonObject) -> str:
        text = self.text
        # Back to front, so that earlier positions stay valid.
        parts = sorted(
            ((self._part(index, name), value) for name, value in values.items()), key=lambda each: -each[0].start
        )
        for part, value in parts:
            text = text[: part.start] + self._written(value, self._cell_indent + self._unit) + text[part.end :]
        return text

    def _with(self, index: int, cell: str) -> str:
        """Insert a formatted cell at that index."""
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
        """Move the cell at `index` before the one that is now at `to`. The text between cells stays in place."""
        order = list(range(len(self.cells)))
        order.remove(index)
        order.insert(to - (to > index), index)
        text, cells = self.text, self.cells
        pieces = [text[: cells[0].start]]
        for place, which in enumerate(order):
            pieces.append(cells[which].of(text))
            end = cells[place + 1].start if place + 1 < len(cells) else len(text)
            pieces.append(text[cells[place].end : end])
        return "".join(pieces)

    def _written(self, value: Any, indent: str) -> str:
        """Format a value like this file's cells: over several lines, or on one."""
        if not self._unit:
            return _dumped(value, None)
        return _dumped(value, self._unit).replace("\n", f"\n{indent}")

    @cached_property
    def _gap(self) -> str:
        """The text before a cell on its own line; "" if all are on one line."""
        if not self.cells:
            # nbformat's default: two levels of one space.
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
        """One level of indentation: cells are two levels deep."""
        indent = self._cell_indent
        return indent[: max(len(indent) // 2, 1)] if indent else ""


def _dumped(value: Any, indent: str | None) -> str:
    """Format with sorted keys, as nbformat does."""
    how = partial(json.dumps, value, sort_keys=True, indent=indent, separators=None if indent else (",", ":"))
    text = how(ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can write
        return how()
    return text


def _language(metadata: Any) -> str:
    """Return the notebook's declared language, or ""."""
    for part, name in (("language_info", "name"), ("kernelspec", "language")):
        found = metadata.get(part) if isinstance(metadata, dict) else None
        if isinstance(found, dict) and isinstance(found.get(name), str):
            return found[name][:40]
    return ""
