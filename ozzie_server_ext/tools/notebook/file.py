"""A notebook of the project as a file that nobody has open: read, and one cell of it changed."""

import asyncio
from functools import partial
from pathlib import Path

from ozzie_server_ext.jupyter.cells import Notebook
from ozzie_server_ext.jupyter.documents import Edited, Where
from ozzie_server_ext.jupyter.edits import Edit
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes.outcome import FileChanged
from ozzie_server_ext.tools.changes.replace import replace
from ozzie_server_ext.tools.changes.seen import Looked, look
from ozzie_server_ext.tools.notebook.text import NotebookText
from ozzie_server_ext.tools.threads import to_its_end

MAX_NOTEBOOK_BYTES = 32 * 1024 * 1024
_TRIES = 5
"""How often the file is looked at anew where others save it in the moment of the edit."""


class FileNotebook:
    """See `OpenNotebook`. It is written as every file is (ADR 26), and not by Jupyter's contents service: that writes
    over whatever was saved since it looked, and signs what it takes for trusted (ADR 36)."""

    def __init__(self, project: Path, path: str) -> None:
        self._project = project
        self._path = path

    @property
    def where(self) -> Where:
        return "file"

    async def read(self) -> Notebook:
        return (await asyncio.to_thread(self._looked))[1].notebook

    async def edit(self, edit: Edit) -> Edited:
        return await to_its_end(partial(self._edit, edit))

    def _looked(self) -> tuple[Looked, NotebookText]:
        looked = look(self._project, self._path, most=MAX_NOTEBOOK_BYTES)
        if looked.seen.file is None:
            raise ToolFailed(f"{self._path} does not exist.")
        return looked, NotebookText.of(looked.content, self._path)

    def _edit(self, edit: Edit) -> Edited:
        """What was seen of a file is good for this moment; what was seen of the cell is in the edit. So where others
        save the file in between, it is looked at again, and the edit is made if it is still about what is there."""
        for left in range(_TRIES - 1, -1, -1):
            looked, text = self._looked()
            try:
                done = replace(self._project, looked.seen, text.edited(edit), most=MAX_NOTEBOOK_BYTES)
            except FileChanged:
                if not left:
                    raise
            else:
                return Edited(notes=done.notes)
        raise AssertionError
