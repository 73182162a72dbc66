"""The surrounding Jupyter Server: its kernels, shared documents, and moved notebooks."""

import asyncio
import os
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_runtime_dir
from jupyter_server.services.contents.manager import ContentsManager

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.contents import ManagedNotebooks
from ozzie_server_ext.gateway.kernels import LiveKernels
from ozzie_server_ext.gateway.page_notebooks import PageNotebooks
from ozzie_server_ext.gateway.relay import Forwarded, Relay
from ozzie_server_ext.gateway.rest.handler import Collected
from ozzie_server_ext.gateway.state import GatewayState
from ozzie_server_ext.jupyter.cells import Delete, Edit, Insert, Move, Notebook, Replace, Show, behind, joined, place_of
from ozzie_server_ext.jupyter.documents import Edited, Jupyter, OpenNotebook, Where
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.tools.notebook.files import outputs_made_inert
from ozzie_server_ext.tools.notebook.text import marked

_EXTENSION = "jupyter_server_ydoc"


class SharedDocuments:
    """Shared notebooks of one Jupyter Server; none without jupyter-collaboration."""

    def __init__(self, serverapp: Any) -> None:
        self._serverapp = serverapp

    async def opened(self, path: Path) -> OpenNotebook | None:
        """Return the shared notebook at this absolute path, or None."""
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
    """An `OpenNotebook` over jupyter_ydoc's shared YNotebook `document`."""

    def __init__(self, document: Any) -> None:
        self._document = document

    @property
    def where(self) -> Where:
        return "shared document"

    async def read(self) -> Notebook:
        # Yields now and then, so that a large notebook doesn't block the loop.
        content = await self._document.aget(deduplicate=False)
        return Notebook.of(content["cells"], language=_language(content["metadata"]))

    async def edit(self, edit: Edit) -> Edited:
        """Check and edit in one step of the event loop, so that no other change comes between."""
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
        """Return the cells as they are now. Only a cell to be deleted has its outputs: those of all can be large."""
        gone = edit.cell_id if isinstance(edit, Delete) else None
        found: list[JsonObject] = []
        for cell in self._document.ycells:
            light: JsonObject = {"id": cell["id"], "cell_type": cell["cell_type"], "source": str(cell["source"])}
            if cell["id"] == gone:
                light = self._document.get_cell(len(found)) | {"id": gone}
            found.append(light)
        return Notebook.of(found)

    def _move(self, index: int, to: int) -> None:
        """Remove the cell and insert it again, as Lab does: a shared list has no move. Two transactions, because with
        one Lab miscounts the cell with the cursor, and what somebody types lands in the next one."""
        cells = self._document.ycells
        cell = self._document.get_cell(index)
        cell.setdefault("id", cells[index]["id"])
        cells.pop(index)
        cells.insert(to - (to > index), self._document.create_ycell(cell))


def _shared(output: JsonObject) -> Any:
    """Return an output as Lab shares it: the text of a stream can grow."""
    from pycrdt import Map, Text  # pyright: ignore[reportMissingImports]

    if output.get("output_type") == "stream":
        return Map({**output, "text": Text(joined(output.get("text", "")))})
    return Map(output)


def _inserted(cell: JsonObject) -> JsonObject:
    """Return the cell without active content: shared content is trusted where it is shown."""
    inert = {"outputs": outputs_made_inert(cell)} if "outputs" in cell else {}
    return {**cell, "source": joined(cell["source"]), **inert}


def _language(metadata: Any) -> str:
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name[:40] if isinstance(name, str) else ""


log = logger(__name__)

BY = "jupyter"


def follow_contents(serverapp: Any, state: GatewayState) -> None:
    """Move and delete sessions along with their notebooks, or the notebooks' folders, in Jupyter."""

    def path_of(name: str) -> str:
        # The same name that Jupyter tells the notebook's kernel.
        return os.path.join(serverapp.root_dir, *name.strip("/").split("/"))

    # Jupyter reports each change in its own task. Handle them in order: a path that was left and reused must end with
    # the later notebook.
    in_turn = asyncio.Lock()

    async def changed(logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        try:
            async with in_turn:
                if data["action"] == "rename":
                    await _moved(state, path_of(data["source_path"]), path_of(data["path"]))
                elif data["action"] == "delete":
                    await _moved(state, path_of(data["path"]), None)
        except OzzieError:
            log.exception("a notebook was moved, and its session was not")

    serverapp.event_logger.add_listener(schema_id=ContentsManager.event_schema_id, listener=changed)


async def _moved(state: GatewayState, source: str, path: str | None) -> None:
    """Notify Ozzie, here or at the owner: `path` is the new path, None if deleted. Raises OzzieError."""
    if state.relay is not None and await _relay_move(state.relay, source, path):
        return
    if state.ozzie is None:
        return
    if path is None:
        await state.ozzie.notebooks.deleted(source, by=BY)
    else:
        await state.ozzie.notebooks.moved(source, path, by=BY)


async def _relay_move(relay: Relay, source: str, path: str | None) -> bool:
    body = dumps({"source": source} | ({} if path is None else {"path": path}))
    forwarded = Forwarded(method="POST", path="ozzie/api/notebooks/move", user=BY, body=body.encode())
    collected = Collected()
    was_relayed = await relay.exchange(forwarded, collected, asyncio.Event())
    if was_relayed and collected.status != 200:
        log.error("the owner did not take the move of a notebook: %s", collected.object())
    return was_relayed


def jupyter_around(serverapp: Any, state: GatewayState, home: Home) -> Jupyter:
    """Return this server's kernels, and the notebooks that are open in it or in pages of attached servers."""
    state.pages.remember_in(home.open_notebooks)
    return Jupyter(
        kernels=LiveKernels(serverapp.kernel_manager, serverapp.session_manager),
        documents=_Documents(SharedDocuments(serverapp), state.pages, ManagedNotebooks(serverapp)),
        private=(Path(jupyter_runtime_dir()),),
    )


class _Documents:
    """Notebooks that are more than files. A shared document comes first: the pages that show it need no question."""

    def __init__(self, shared: SharedDocuments, pages: PageNotebooks, managed: ManagedNotebooks) -> None:
        self._shared = shared
        self._pages = pages
        self._managed = managed

    async def opened(self, path: Path) -> OpenNotebook | None:
        is_open = await self._shared.opened(path) or await self._pages.opened(path)
        return is_open or await self._managed.opened(path)
