"""A cell of a notebook, as nbformat 4 has it, and what of it a model is told."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeAlias

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
    """`whole` is the cell as it stands in the notebook, outputs and all. Of a cell that has no id of its own, `cell_id`
    is `name_of` it."""

    cell_id: str
    kind: CellKind
    source: str
    whole: JsonObject = field(repr=False, compare=False, default_factory=dict[str, Json])

    @property
    def version(self) -> str:
        """What the cell is called where somebody has to have seen it before it is changed: by its kind and its source,
        as outputs come and go while one works."""
        return version_of(self.kind, self.source)

    @property
    def outputs(self) -> tuple[JsonObject, ...]:
        found = self.whole.get("outputs")
        return tuple(each for each in found if isinstance(each, dict)) if isinstance(found, list) else ()

    @property
    def forms(self) -> tuple[str, ...]:
        """In which forms it has outputs, each once: media types, "stream", "error"."""
        return tuple(dict.fromkeys(form for output in self.outputs for form in _forms(output)))

    @property
    def printed(self) -> str:
        """The outputs as text, one below the other; of a picture and the like, that there is one."""
        return "\n".join(text.removesuffix("\n") for output in self.outputs if (text := _printed(output)))


def version_of(kind: CellKind, source: str) -> str:
    return hashlib.sha256(f"{kind}\0{source}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notebook:
    """The cells in their order. `named`: they have ids of their own, as new ones get (nbformat 4.5)."""

    cells: tuple[Cell, ...]
    named: bool = True
    language: str = ""

    @classmethod
    def of(cls, cells: Sequence[object], *, named: bool = True, language: str = "") -> "Notebook":
        """From the cells as nbformat has them. Raises ValueError for what is none."""
        return cls(cells=tuple(_cell(*each, named) for each in enumerate(cells)), named=named, language=language)

    def find(self, cell_id: str) -> Cell | None:
        """The one that is called so; None where none is, or two are."""
        found = [cell for cell in self.cells if cell.cell_id == cell_id]
        return found[0] if len(found) == 1 else None


def joined(text: object) -> str:
    """What nbformat calls a multiline string: a text, or a list of its lines. Raises ValueError."""
    if isinstance(text, str):
        return text
    if isinstance(text, list):
        lines = [line for line in text if isinstance(line, str)]
        if len(lines) == len(text):
            return "".join(lines)
    raise ValueError("a text is neither a text nor a list of lines")


def lines(text: str) -> list[Json]:
    """As nbformat writes a text of several lines."""
    *whole, rest = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([rest] if rest else [])]


def name_of(index: int, kind: CellKind, source: str) -> str:
    """What a cell without an id is called: by where it stands, from 0, and what it says. It means no other cell."""
    return f"{index + 1}-{version_of(kind, source)}"


def _cell(index: int, whole: Any, named: bool) -> Cell:
    if not isinstance(whole, dict):
        raise ValueError("a cell is no object")
    try:
        kind = CellKind(whole.get("cell_type", ""))
    except ValueError:
        raise ValueError("a cell is of no kind that is known") from None
    source = joined(whole.get("source", ""))
    own = whole.get("id") if named else None
    if own is not None and not (isinstance(own, str) and 0 < len(own) <= MAX_CELL_ID and own.isprintable()):
        raise ValueError("a cell has an id that is none")
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
    """The cell is not what was seen, or where it was; nothing was done."""

    code = "tool.cell_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """A new cell, as nbformat has it, behind the one called `after`; at the top where that is empty."""

    cell: JsonObject
    after: str
    does: Literal["insert"] = "insert"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Another source for a cell whose kind and source were these. Its outputs stay, as they do for who types.
    `made_from` are sources of content from outside; they are noted in the cell beside those that it has."""

    cell_id: str
    kind: CellKind
    was: str
    source: str
    made_from: tuple[str, ...] = ()
    does: Literal["replace"] = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A cell whose source was this, from behind the one called `was_after` to behind `after`."""

    cell_id: str
    was: str
    was_after: str
    after: str
    does: Literal["move"] = "move"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Away with a cell whose source and outputs were these, which stood behind `was_after`."""

    cell_id: str
    was: str
    was_outputs: tuple[JsonObject, ...]
    was_after: str
    does: Literal["delete"] = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """These outputs below a code cell whose source is this: it was run."""

    cell_id: str
    was: str
    outputs: tuple[JsonObject, ...]
    execution_count: int | None
    does: Literal["show"] = "show"


Edit: TypeAlias = Insert | Replace | Move | Delete | Show
TOP = ""


def place_of(edit: Edit, notebook: Notebook) -> int:
    """Where the cell stands that the edit is about, from 0; of a new one, where it will.

    Raises CellChanged where the edit is not about what is there.
    """
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
    """Where the cell called so stands, from 0. Raises CellChanged where there is none, or more than one."""
    found = [index for index, cell in enumerate(notebook.cells) if cell.cell_id == cell_id]
    if len(found) > 1:
        raise CellChanged(f"Two cells are called {cell_id}. Saved once in Jupyter, each has a name of its own.")
    if not found:
        raise CellChanged(f"There is no cell {cell_id} in it.")
    return found[0]


def behind(after: str, notebook: Notebook) -> int:
    """Where a cell stands that comes behind the one called `after`. Raises CellChanged."""
    return 0 if after == TOP else index_of(after, notebook) + 1


def above(index: int, notebook: Notebook) -> str:
    """What the cell above that one is called; TOP for the first."""
    return notebook.cells[index - 1].cell_id if index else TOP


def inverse(edit: Edit, notebook: Notebook) -> Edit:
    """What takes the edit back, of a notebook that is so before it. Raises CellChanged."""
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
            # Where the cells have no ids, the names of those that are passed change too.
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
