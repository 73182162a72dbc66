"""Cells of a notebook (nbformat 4), the edits that change them, and how each edit is undone."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeAlias

import msgspec

from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.json import Json, JsonObject

MAX_CELL_ID = 64
"""In characters (nbformat 4.5)."""
_TEXT = "text/plain"


class CellKind(StrEnum):
    CODE = "code"
    MARKDOWN = "markdown"
    RAW = "raw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """`whole` is the cell as it is in the notebook, with its outputs. Without an id of its own, `cell_id` is its
    `name_of`."""

    cell_id: str
    kind: CellKind
    source: str
    whole: JsonObject = field(repr=False, compare=False, default_factory=dict[str, Json])

    @property
    def version(self) -> str:
        """The version that must have been seen before a change: of kind and source only, as outputs come and go."""
        return version_of(self.kind, self.source)

    @property
    def outputs(self) -> tuple[JsonObject, ...]:
        found = self.whole.get("outputs")
        return tuple(each for each in found if isinstance(each, dict)) if isinstance(found, list) else ()

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms of its outputs, each once: media types, "stream", "error"."""
        return tuple(dict.fromkeys(form for output in self.outputs for form in _forms(output)))

    @property
    def printed(self) -> str:
        """The outputs as text, one below the other; for a picture and the like, only its media type."""
        return "\n".join(text.removesuffix("\n") for output in self.outputs if (text := _printed(output)))


def version_of(kind: CellKind, source: str) -> str:
    return hashlib.sha256(f"{kind}\0{source}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Notebook(msgspec.Struct, frozen=True, kw_only=True):
    """The cells in their order. `named`: they have ids of their own (nbformat 4.5)."""

    cells: tuple[Cell, ...]
    named: bool = True
    language: str = ""

    @classmethod
    def of(cls, cells: Sequence[object], *, named: bool = True, language: str = "") -> "Notebook":
        """Return the notebook of these nbformat cells. Raises ValueError for an invalid one."""
        return cls(cells=tuple(_cell(*each, named) for each in enumerate(cells)), named=named, language=language)

    def find(self, cell_id: str) -> Cell | None:
        """Return the cell with this id; None if there is none, or more than one."""
        found = [cell for cell in self.cells if cell.cell_id == cell_id]
        return found[0] if len(found) == 1 else None


def joined(text: object) -> str:
    """Return a multiline string of nbformat, which may be a list of lines, as text. Raises ValueError."""
    if isinstance(text, str):
        return text
    if isinstance(text, list):
        lines = [line for line in text if isinstance(line, str)]
        if len(lines) == len(text):
            return "".join(lines)
    raise ValueError("a text is neither a string nor a list of strings")


def lines(text: str) -> list[Json]:
    """Return a text as nbformat writes it, a list of lines."""
    *whole, rest = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([rest] if rest else [])]


def name_of(index: int, kind: CellKind, source: str) -> str:
    """Return the id of a cell without one: from its place, from 0, and its content. It never means another cell."""
    return f"{index + 1}-{version_of(kind, source)}"


def _cell(index: int, whole: Any, named: bool) -> Cell:
    if not isinstance(whole, dict):
        raise ValueError("a cell is not an object")
    try:
        kind = CellKind(whole.get("cell_type", ""))
    except ValueError:
        raise ValueError("a cell has an unknown type") from None
    source = joined(whole.get("source", ""))
    own = whole.get("id") if named else None
    if own is not None and not (isinstance(own, str) and 0 < len(own) <= MAX_CELL_ID and own.isprintable()):
        raise ValueError("a cell has an invalid id")
    return Cell(cell_id=own or name_of(index, kind, source), kind=kind, source=source, whole=whole)


def _forms(output: JsonObject) -> Iterator[str]:
    data = output.get("data")
    if isinstance(data, dict):
        yield from sorted(data)
    else:
        yield str(output.get("output_type", ""))[:40]


def _printed(output: JsonObject) -> str:
    try:
        match output.get("output_type"):
            case "stream":
                return joined(output.get("text", ""))
            case "error":
                return f"{output.get('ename', '')}: {output.get('evalue', '')}"
            case _:
                data = output.get("data")
                if isinstance(data, Mapping) and _TEXT in data:
                    return joined(data[_TEXT])
                return f"[{', '.join(_forms(output))}]"
    except ValueError:
        return ""


class CellChanged(Conflict):
    """The cell is not as it was seen, or elsewhere; nothing was done."""

    code = "tool.cell_changed"


class Insert(msgspec.Struct, frozen=True, kw_only=True):
    """Insert a cell, as nbformat has it, below the cell `after`; at the top if that is empty."""

    cell: JsonObject
    after: str
    does: Literal["insert"] = "insert"


class Replace(msgspec.Struct, frozen=True, kw_only=True):
    """Replace the source of a cell whose kind and source were these. Its outputs stay, as when a person types.
    `made_from` are outside sources, which are added to those that the cell notes."""

    cell_id: str
    kind: CellKind
    was: str
    source: str
    made_from: tuple[str, ...] = ()
    does: Literal["replace"] = "replace"


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """Move a cell whose source was this from below `was_after` to below `after`."""

    cell_id: str
    was: str
    was_after: str
    after: str
    does: Literal["move"] = "move"


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a cell whose source and outputs were these, and which was below `was_after`."""

    cell_id: str
    was: str
    was_outputs: tuple[JsonObject, ...]
    was_after: str
    does: Literal["delete"] = "delete"


class Show(msgspec.Struct, frozen=True, kw_only=True):
    """Put these outputs below a code cell with this source, which was run."""

    cell_id: str
    was: str
    outputs: tuple[JsonObject, ...]
    execution_count: int | None
    does: Literal["show"] = "show"


Edit: TypeAlias = Insert | Replace | Move | Delete | Show
TOP = ""


def place_of(edit: Edit, notebook: Notebook) -> int:
    """Return the index of the cell that the edit is about, or that a new cell will get. Raises CellChanged if the edit
    does not match the notebook."""
    if isinstance(edit, Insert):
        if notebook.named and any(cell.cell_id == edit.cell.get("id") for cell in notebook.cells):
            raise CellChanged(f"There is a cell {edit.cell.get('id')} already.")
        return behind(edit.after, notebook)
    index = index_of(edit.cell_id, notebook)
    cell = notebook.cells[index]
    if cell.source != edit.was or (isinstance(edit, Replace) and cell.kind is not edit.kind):
        raise CellChanged(f"The cell {edit.cell_id} has changed since it was read.")
    if isinstance(edit, Delete) and cell.outputs != edit.was_outputs:
        raise CellChanged(f"The cell {edit.cell_id} has other outputs than when it was looked at.")
    if isinstance(edit, Show) and cell.kind is not CellKind.CODE:
        raise CellChanged(f"The cell {edit.cell_id} has no code any more.")
    if isinstance(edit, Move):
        if above(index, notebook) != edit.was_after:
            raise CellChanged(f"The cell {edit.cell_id} was moved since it was read.")
        behind(edit.after, notebook)
    return index


def index_of(cell_id: str, notebook: Notebook) -> int:
    """Return the index of the cell. Raises CellChanged if there is none, or more than one."""
    found = [index for index, cell in enumerate(notebook.cells) if cell.cell_id == cell_id]
    if len(found) > 1:
        raise CellChanged(f"Two cells are called {cell_id}. Saved once in Jupyter, each has a name of its own.")
    if not found:
        raise CellChanged(f"There is no cell {cell_id} in it.")
    return found[0]


def behind(after: str, notebook: Notebook) -> int:
    """Return the index of a cell below the cell `after`. Raises CellChanged."""
    return 0 if after == TOP else index_of(after, notebook) + 1


def above(index: int, notebook: Notebook) -> str:
    """Return the id of the cell above; TOP for the first cell."""
    return notebook.cells[index - 1].cell_id if index else TOP


def inverse(edit: Edit, notebook: Notebook) -> Edit:
    """Return the edit that undoes `edit`, for the notebook before it. Raises CellChanged."""
    index = place_of(edit, notebook)
    match edit:
        case Insert():
            cell = Notebook.of([edit.cell]).cells[0]
            name = cell.cell_id if notebook.named else name_of(index, cell.kind, cell.source)
            return Delete(cell_id=name, was=cell.source, was_outputs=cell.outputs, was_after=edit.after)
        case Replace():
            name = edit.cell_id if notebook.named else name_of(index, edit.kind, edit.source)
            return Replace(cell_id=name, kind=edit.kind, was=edit.source, source=edit.was)
        case Move():
            # Without ids, the names of the cells that it passes change too.
            if not notebook.named:
                raise CellChanged("In a notebook whose cells have no ids, a move can't be taken back.")
            return Move(cell_id=edit.cell_id, was=edit.was, was_after=edit.after, after=edit.was_after)
        case Delete():
            return Insert(cell=notebook.cells[index].whole, after=edit.was_after)
        case Show():
            cell = notebook.cells[index]
            count = cell.whole.get("execution_count")
            return Show(
                cell_id=edit.cell_id,
                was=edit.was,
                outputs=cell.outputs,
                execution_count=count if isinstance(count, int) else None,
            )
