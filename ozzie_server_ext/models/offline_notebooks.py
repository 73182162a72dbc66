"""The offline script's rules for notebooks: what their cells say, and one of them added, changed, moved or deleted."""

import re
from collections.abc import Sequence

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.models.driver import ChatMessage
from ozzie_server_ext.models.offline_moves import Ask, Move, Rule, Say, Seen, given_by, path_in
from ozzie_server_ext.models.offline_results import code, field
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads

_CELLS = re.compile(r"\b(which|what|show|list|read)\b[^.?!]*\bcells?\b", re.I)
_ADD = re.compile(r"\badd an? (code|markdown) cell\b[^:]*:\s*(.+)", re.I)
_CHANGE = re.compile(r"\bchange cell (\d{1,4})\b[^:]*\bto:\s*(.+)", re.I)
_DELETE = re.compile(r"\bdelete cell (\d{1,4})\b", re.I)
_MOVE = re.compile(r"\bmove cell (\d{1,4})\b.*\bto the (top|end)\b", re.I)
_UNDO = re.compile(r"\btake the last edit\b.*\bback\b", re.I)
_ENDING = ".ipynb"
_SHOWN = 60


def _add(question: str, seen: Sequence[Seen]) -> Move | None:
    wanted, path = _ADD.search(question), _notebook(question)
    if wanted is None or not path:
        return None
    given = given_by("insert_cell", seen)
    if given is not None:
        return _done(path, given, "The cell stands in")
    return Ask("insert_cell", {"path": path, "kind": wanted[1].lower(), "source": wanted[2].strip("` ")})


def _change(question: str, seen: Sequence[Seen]) -> Move | None:
    wanted = _CHANGE.search(question)
    return wanted and _with_cell(question, seen, "edit_cell", wanted[1], {"source": wanted[2].strip("` ")})


def _delete(question: str, seen: Sequence[Seen]) -> Move | None:
    wanted = _DELETE.search(question)
    return wanted and _with_cell(question, seen, "delete_cell", wanted[1], {})


def _move(question: str, seen: Sequence[Seen]) -> Move | None:
    wanted = _MOVE.search(question)
    return wanted and _with_cell(question, seen, "move_cell", wanted[1], {"after": wanted[2].lower()})


def _with_cell(question: str, seen: Sequence[Seen], tool: str, number: str, more: JsonObject) -> Move | None:
    """Reads the notebook, for what the cell is called; then the edit."""
    path = _notebook(question)
    if not path:
        return None
    read, done = given_by("read_notebook", seen), given_by(tool, seen)
    if done is not None:
        return _done(path, done, "Done in")
    if read is None:
        return Ask("read_notebook", {"path": path})
    cell = next((each for each in _cells_of(read.data) if field(each, "number") == str(int(number))), None)
    if cell is None:
        return Say(f"{code(path)} has no cell {number}.\n\n{_table(path, read.data)}")
    return Ask(tool, {"path": path, "cell": cell.get("id"), "version": cell.get("version"), **more})


def _show(question: str, seen: Sequence[Seen]) -> Move | None:
    path = _notebook(question)
    if not path or not _CELLS.search(question):
        return None
    read = given_by("read_notebook", seen)
    return Ask("read_notebook", {"path": path}) if read is None else Say(_table(path, read.data))


def _taken_back(question: str, seen: Sequence[Seen]) -> Move | None:
    if not _UNDO.search(question):
        return None
    given = given_by("undo_cell_edit", seen)
    return Say("There is no edit of a notebook to take back.") if given is None else Say("The last edit is taken back.")


def taken_back(question: str, messages: Sequence[ChatMessage]) -> Ask | None:
    """Takes the last edit of a notebook back, where the question wants that and there was one."""
    if not _UNDO.search(question):
        return None
    for message in reversed(messages):
        data = _result(message) if message.role == "tool" else {}
        path, undo = data.get("path"), data.get("undo")
        if isinstance(path, str) and isinstance(undo, str) and path.endswith(_ENDING):
            return Ask("undo_cell_edit", {"path": path, "undo": undo})
    return None


def _result(message: ChatMessage) -> JsonObject:
    try:
        data = loads(message.content, surrogates="repair")
    except InvalidJson:
        return {}
    return data if isinstance(data, dict) else {}


def _notebook(question: str) -> str:
    path = path_in(question)
    return path if path.endswith(_ENDING) else ""


def _cells_of(data: Json) -> list[JsonObject]:
    cells = data.get("cells") if isinstance(data, dict) else None
    return [each for each in cells if isinstance(each, dict)] if isinstance(cells, list) else []


def _table(path: str, data: Json) -> str:
    cells = _cells_of(data)
    if not cells:
        return f"{code(path)} has no cells."
    rows = [f"{field(each, 'number')}. {field(each, 'kind')}: {code(_first_line(each))}" for each in cells]
    return f"The cells of {code(path)}:\n\n" + "\n".join(rows)


def _first_line(cell: JsonObject) -> str:
    lines = [line for line in str(cell.get("source", "")).splitlines() if line.strip()]
    return lines[0][:_SHOWN] if lines else "(empty)"


def _done(path: str, given: Seen, what: str) -> Say:
    data = given.data if isinstance(given.data, dict) else {}
    notes = data.get("notes")
    more = " ".join(str(note) for note in notes) if isinstance(notes, list) else ""
    return Say(f"{what} {code(path)}. {more}".rstrip())


NOTEBOOK_RULES: tuple[Rule, ...] = (_add, _change, _delete, _move, _taken_back, _show)
