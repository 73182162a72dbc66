"""What a person is shown of an edit of a notebook before it is made."""

from ozzie_server_ext.jupyter.cells import Cell, CellKind, Notebook
from ozzie_server_ext.jupyter.edits import TOP, Delete, Edit, Insert, Move, Replace, Show, above, behind, index_of
from ozzie_server_ext.render.text import line_count, quoted
from ozzie_server_ext.tools.base import Preview
from ozzie_server_ext.tools.builtin.writing import change_question
from ozzie_server_ext.tools.changes.diff import lines_of, unified

_UNDO = "Undo it in the notebook where it is open, or tell Ozzie to take it back."
_NO_UNDO = "Undo it in the notebook where it is open. Ozzie can't: the cell has what looks like a secret."
_KINDS = {CellKind.CODE: "code cell", CellKind.MARKDOWN: "Markdown cell", CellKind.RAW: "raw cell"}


def preview(path: str, edit: Edit, notebook: Notebook, *, can_undo: bool) -> Preview:
    """Of an edit that is about what is there."""
    undo = _UNDO if can_undo else _NO_UNDO
    name = quoted(path)
    match edit:
        case Insert():
            new = Notebook.of([edit.cell]).cells[0]
            size = line_count(len(lines_of(new.source)))
            sentence = (
                f"Add a {_KINDS[new.kind]} of {size} to {name}, {_place(behind(edit.after, notebook), notebook)}?"
            )
            return Preview(sentence=sentence, proof=unified("", new.source), shown="diff", undo=undo)
        case Replace():
            what = f"{_said(edit.cell_id, notebook)} of {name}"
            proof = unified(edit.was, edit.source)
            return Preview(sentence=change_question(what, edit.was, edit.source), proof=proof, shown="diff", undo=undo)
        case Move():
            where = "to the top" if edit.after == TOP else f"behind {_said(edit.after, notebook)}"
            sentence = f"Move {_said(edit.cell_id, notebook)} of {name} {where}?"
            return Preview(sentence=sentence, proof=edit.was, shown="text", undo=undo)
        case Delete():
            cell = notebook.cells[index_of(edit.cell_id, notebook)]
            sentence = f"Delete {_said(edit.cell_id, notebook)} of {name}?"
            return Preview(sentence=sentence, proof=_all_of(cell), shown="text", undo=undo)
        case Show():
            sentence = f"Put other outputs below {_said(edit.cell_id, notebook)} of {name}?"
            return Preview(sentence=sentence, proof=edit.was, shown="text", undo=undo)


def _said(cell_id: str, notebook: Notebook) -> str:
    """By its number, from 1, as a person counts them."""
    index = index_of(cell_id, notebook)
    return f"cell {index + 1} ({_KINDS[notebook.cells[index].kind]})"


def _place(index: int, notebook: Notebook) -> str:
    if index == len(notebook.cells):
        return "at its end"
    return "at its top" if not index else f"behind {_said(above(index, notebook), notebook)}"


def _all_of(cell: Cell) -> str:
    printed = cell.printed
    return f"{cell.source}\n\nIts outputs, which go with it:\n{printed}" if printed else cell.source
