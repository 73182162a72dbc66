"""Notebooks that several people edit at once, where jupyter-collaboration is installed: as shared documents (NB-9).

Its room holds the truth as long as somebody is in it. A file that is written behind its back overwrites what they
typed, so where there is a room, nothing else is changed (ADR 36).
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.jupyter.cells import Notebook, joined
from ozzie_server_ext.jupyter.documents import Edited, OpenNotebook, Where
from ozzie_server_ext.jupyter.edits import Delete, Edit, Insert, Move, Replace, Show, behind, place_of
from ozzie_server_ext.tools.notebook.inert import outputs_made_inert
from ozzie_server_ext.tools.notebook.marks import marked

_EXTENSION = "jupyter_server_ydoc"


class SharedDocuments:
    """The rooms of one Jupyter Server; none where the extension is not there."""

    def __init__(self, serverapp: Any) -> None:
        self._serverapp = serverapp

    async def opened(self, path: Path) -> OpenNotebook | None:
        """The notebook of that whole path, where there is a room for it."""
        extension = self._extension()
        root = Path(await asyncio.to_thread(os.path.realpath, self._serverapp.root_dir))
        if extension is None or not path.is_relative_to(root):
            return None
        document = await extension.get_document(
            path=path.relative_to(root).as_posix(), content_type="notebook", file_format="json", copy=False
        )
        return None if document is None else SharedNotebook(document)

    def _extension(self) -> Any:
        manager = getattr(self._serverapp, "extension_manager", None)
        found = manager.extension_apps.get(_EXTENSION) if manager is not None else None
        return next((each for each in found or () if hasattr(each, "get_document")), None)


class SharedNotebook:
    """See `OpenNotebook`. `document` is jupyter_ydoc's YNotebook, the one that is shared."""

    def __init__(self, document: Any) -> None:
        self._document = document

    @property
    def where(self) -> Where:
        return "shared document"

    async def read(self) -> Notebook:
        # Asks for pauses in between: a large notebook does not hold the loop.
        content = await self._document.aget(deduplicate=False)
        return Notebook.of(content["cells"], language=_language(content["metadata"]))

    async def edit(self, edit: Edit) -> Edited:
        """Looked at and made in one step: nobody's change comes in between, as those come over the loop too."""
        document, cells = self._document, self._document.ycells
        index = place_of(edit, self._as_it_is(edit))
        if isinstance(edit, Move):
            self._move(index, behind(edit.after, self._as_it_is(edit)))
            return Edited()
        with document.ydoc.transaction():
            match edit:
                case Insert():
                    cells.insert(index, document.create_ycell(_inserted(edit.cell)))
                case Replace():
                    document.set_cell(index, source=edit.source)
                    if edit.made_from:
                        metadata = cells[index]["metadata"]
                        for name, value in marked(metadata.to_py(), edit.made_from).items():
                            metadata[name] = value
                case Delete():
                    cells.pop(index)
                case Show():
                    outputs = cells[index]["outputs"]
                    outputs.clear()
                    outputs.extend(map(_shared, edit.outputs))
                    cells[index]["execution_count"] = edit.execution_count
        return Edited()

    def _as_it_is(self, edit: Edit) -> Notebook:
        """The cells in this moment; with the outputs of the one that goes, as those of all can be large."""
        gone = edit.cell_id if isinstance(edit, Delete) else None
        found: list[JsonObject] = []
        for cell in self._document.ycells:
            light: JsonObject = {"id": cell["id"], "cell_type": cell["cell_type"], "source": str(cell["source"])}
            if cell["id"] == gone:
                light = self._document.get_cell(len(found)) | {"id": gone}
            found.append(light)
        return Notebook.of(found)

    def _move(self, index: int, to: int) -> None:
        """A shared list knows no move: the cell is taken out, and put in anew, as Lab does it. In two steps: of both in
        one, Lab counts the cursor's own cell wrong, and what somebody types goes into the next one."""
        cells = self._document.ycells
        cell = self._document.get_cell(index)
        cell.setdefault("id", cells[index]["id"])
        cells.pop(index)
        cells.insert(to - (to > index), self._document.create_ycell(cell))


def _shared(output: JsonObject) -> Any:
    """As Lab shares an output: the text of a stream can grow."""
    from pycrdt import Map, Text  # pyright: ignore[reportMissingImports]

    if output.get("output_type") == "stream":
        return Map({**output, "text": Text(joined(output.get("text", "")))})
    return Map(output)


def _inserted(cell: JsonObject) -> JsonObject:
    """What is shared is trusted where it is shown, so nothing that acts comes in this way."""
    inert = {"outputs": outputs_made_inert(cell)} if "outputs" in cell else {}
    return {**cell, "source": joined(cell["source"]), **inert}


def _language(metadata: Any) -> str:
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name[:40] if isinstance(name, str) else ""
