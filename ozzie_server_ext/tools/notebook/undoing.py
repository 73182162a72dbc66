"""What takes an edit of a notebook back, as it is kept among the artifacts beside the edit (NB-9)."""

import json
from hashlib import sha256

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.jupyter.edits import Delete, Edit, Insert, Move, Replace, Show
from ozzie_server_ext.protocol.codec import InvalidShape, decode, encode
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads_object
from ozzie_server_ext.tools.base import ToolFailed

FOLDER = "cells/"
"""Where they stand among the artifacts."""
MAX_UNDO_BYTES = 16 * 1024 * 1024
_FORMAT = 1
_KINDS = {"insert": Insert, "replace": Replace, "move": Move, "delete": Delete, "show": Show}


def undo_text(path: str, edit: Edit) -> str:
    """The artifact's content: `edit` takes something back that was done to the notebook at `path`."""
    said = encode(edit)
    document: JsonObject = {"format": _FORMAT, "path": path, "sha256": _hash(said), "edit": said}
    return json.dumps(document, ensure_ascii=False, indent=1)


def undo_name(text: str) -> str:
    return f"{FOLDER}{sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}.json"


def read_undo(content: bytes, name: str) -> tuple[str, Edit]:
    """The path of the notebook, and what takes the edit back. Raises ToolFailed, also where it is not what was kept:
    secrets are taken out of artifacts, and would be lost."""
    try:
        said = loads_object(content, max_bytes=MAX_UNDO_BYTES)
        edit = said["edit"]
        if said["format"] != _FORMAT or not isinstance(edit, dict) or not isinstance(said["path"], str):
            raise ValueError
        found = decode(_KINDS[str(edit["does"])], edit)
    except (InvalidJson, InvalidShape, KeyError, ValueError):
        raise ToolFailed(f"{name} holds nothing that takes an edit of a notebook back.") from None
    if _hash(edit) != said["sha256"]:
        raise ToolFailed(
            f"{name} can't be used: the cell had what looks like a secret, which Ozzie does not keep. Where the "
            "notebook was open, a person can undo the edit there."
        )
    return said["path"], found


def _hash(said: JsonObject) -> str:
    return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
