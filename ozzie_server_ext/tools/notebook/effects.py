"""The recorded effect of a notebook edit, checking whether it was made, and undoing it."""

import json
from hashlib import sha256

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.jupyter.cells import (
    CellKind,
    Delete,
    Edit,
    Insert,
    Move,
    Notebook,
    Replace,
    Show,
    above,
    index_of,
    name_of,
    place_of,
    version_of,
)
from ozzie_server_ext.protocol.codec import InvalidShape, decode, encode
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads_object
from ozzie_server_ext.tools.base import ToolFailed


def brings_code(edit: Edit) -> bool:
    """Whether the edit puts new code into the notebook."""
    match edit:
        case Insert():
            new = Notebook.of([edit.cell]).cells[0]
            return new.kind is CellKind.CODE and bool(new.source.strip())
        case Replace():
            return edit.kind is CellKind.CODE
        case Move() | Delete() | Show():
            return False


def effect_of(edit: Edit) -> JsonObject:
    """Describe the edit by hashes: an approval is for exactly this."""
    match edit:
        case Insert():
            new = Notebook.of([edit.cell]).cells[0]
            return {"does": edit.does, "cell": new.cell_id, "after": edit.after, "sha256": _hash(edit.cell)}
        case Replace():
            was, becomes = version_of(edit.kind, edit.was), version_of(edit.kind, edit.source)
            return {"does": edit.does, "cell": edit.cell_id, "was": was, "becomes": becomes}
        case Move():
            moved: JsonObject = {"was_after": edit.was_after, "after": edit.after, "was": _hash(edit.was)}
            return {"does": edit.does, "cell": edit.cell_id, **moved}
        case Delete():
            return {"does": edit.does, "cell": edit.cell_id, "was": _hash([edit.was, *edit.was_outputs])}
        case Show():
            return {"does": edit.does, "cell": edit.cell_id, "sha256": _hash([*edit.outputs])}


def cell_after(edit: Edit, notebook: Notebook) -> JsonObject:
    """Return the cell's name and version after the edit, for the model."""
    match edit:
        case Insert():
            new = Notebook.of([edit.cell]).cells[0]
            name = new.cell_id if notebook.named else name_of(place_of(edit, notebook), new.kind, new.source)
            return {"cell": name, "version": new.version}
        case Replace():
            name = edit.cell_id
            if not notebook.named:
                name = name_of(index_of(edit.cell_id, notebook), edit.kind, edit.source)
            return {"cell": name, "version": version_of(edit.kind, edit.source)}
        case Move() | Delete() | Show():
            return {"cell": edit.cell_id}


def was_made(effect: JsonObject, notebook: Notebook) -> bool | None:
    """Whether the edit with that effect was made to the notebook, given its present state; None if unknown."""
    if not notebook.named:
        return None
    cell = notebook.find(str(effect["cell"]))
    match effect["does"]:
        case "insert":
            return cell is not None
        case "replace":
            if cell is None:
                return None
            return True if cell.version == effect["becomes"] else False if cell.version == effect["was"] else None
        case "move":
            if cell is None:
                return None
            position = above(index_of(cell.cell_id, notebook), notebook)
            return True if position == effect["after"] else False if position == effect["was_after"] else None
        case "delete":
            return cell is None
        case _:
            return None


def _hash(value: Json) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


FOLDER = "cells/"
"""Where undo edits are among the artifacts."""
MAX_UNDO_BYTES = 16 * 1024 * 1024
_FORMAT = 1
_KINDS = {"insert": Insert, "replace": Replace, "move": Move, "delete": Delete, "show": Show}


def undo_text(path: str, edit: Edit) -> str:
    """Return the artifact that undoes an edit of the notebook at `path`."""
    encoded = encode(edit)
    document: JsonObject = {"format": _FORMAT, "path": path, "sha256": _hash(encoded), "edit": encoded}
    return json.dumps(document, ensure_ascii=False, indent=1)


def undo_name(text: str) -> str:
    return f"{FOLDER}{sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}.json"


def read_undo(content: bytes, name: str) -> tuple[str, Edit]:
    """Return the notebook's path and the undo edit. Raises ToolFailed, also if the artifact was redacted."""
    try:
        document = loads_object(content, max_bytes=MAX_UNDO_BYTES)
        edit, path = document["edit"], document["path"]
        if document["format"] != _FORMAT or not isinstance(edit, dict) or not isinstance(path, str):
            raise ValueError
        found = decode(_KINDS[str(edit["does"])], edit)
    except (InvalidJson, InvalidShape, KeyError, ValueError):
        raise ToolFailed(f"{name} holds nothing that takes an edit of a notebook back.") from None
    if _hash(edit) != document["sha256"]:
        raise ToolFailed(
            f"{name} can't be used: the cell had what looks like a secret, which Ozzie does not keep. Where the "
            "notebook was open, a person can undo the edit there."
        )
    return path, found
