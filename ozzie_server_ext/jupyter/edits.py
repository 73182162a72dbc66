"""What can be done to the cells of a notebook: each to exactly what was seen, and each with a way back (NB-9).

The same shapes go to pages over the WebSocket, and into the artifact that takes an edit back.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.jupyter.cells import CellKind, Notebook, name_of


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
