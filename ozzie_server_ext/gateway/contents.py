"""Closed notebooks, edited through Jupyter's contents manager where that does more than write a file (ADR 36)."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any, cast

import nbformat
from jupyter_core.utils import ensure_async
from jupyter_server.services.contents.filemanager import AsyncFileContentsManager, FileContentsManager
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager, LargeFileManager
from tornado.web import HTTPError

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.jupyter.cells import Edit, Notebook
from ozzie_server_ext.jupyter.documents import DocumentBusy, DocumentSilent, Edited, OpenNotebook, Where
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.store.shielded import shielded
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.notebook.text import NotebookText

log = logger(__name__)

_ONLY_FILES = (FileContentsManager, AsyncFileContentsManager, LargeFileManager, AsyncLargeFileManager)
_TRIES = 5
"""Attempts if others save the notebook during the edit."""


class ManagedNotebooks:
    """The closed notebooks of a Jupyter Server whose contents manager has hooks, or is not Jupyter's own: it may keep
    a script beside each notebook, or a copy elsewhere, which an edit of the file alone would leave behind."""

    def __init__(self, serverapp: Any) -> None:
        self._serverapp = serverapp

    async def opened(self, path: Path) -> OpenNotebook | None:
        """Return the notebook at this absolute path; None if writing its file is enough."""
        manager = self._serverapp.contents_manager
        root = Path(await asyncio.to_thread(os.path.realpath, self._serverapp.root_dir))
        if not path.is_relative_to(root) or not does_more(manager):
            return None
        return ManagedNotebook(manager, path.relative_to(root).as_posix())


def does_more(manager: Any) -> bool:
    """Whether saving with this contents manager does more than write the file."""
    hooks = [manager.pre_save_hook, manager.post_save_hook, *manager._pre_save_hooks, *manager._post_save_hooks]
    return type(manager) not in _ONLY_FILES or any(hook is not None for hook in hooks)


class ManagedNotebook:
    """An `OpenNotebook` that nobody has open, at this path of the contents manager."""

    def __init__(self, manager: Any, path: str) -> None:
        self._manager = manager
        self._path = path

    @property
    def where(self) -> Where:
        return "file"

    async def read(self) -> Notebook:
        return (await self._got())[1].notebook

    async def edit(self, edit: Edit) -> Edited:
        """See `OpenNotebook`. Others may save meanwhile; then look again, and retry if the edit still fits."""
        return await shielded(self._edit(edit))

    async def _edit(self, edit: Edit) -> Edited:
        for _ in range(_TRIES):
            seen, text = await self._got()
            content = json.loads(text.edited(edit))
            if (await self._get(content=False))["last_modified"] != seen["last_modified"]:
                continue
            await self._save({"type": "notebook", "format": "json", "path": self._path, "content": content})
            return Edited()
        raise DocumentBusy(f"{self._path} is saved by others all the time; nothing was done.")

    async def _got(self) -> tuple[JsonObject, NotebookText]:
        model = await self._get(content=True)
        content = cast("JsonObject", model["content"])
        _distrust(content)
        raw = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return model, NotebookText.of(raw, self._path)

    async def _get(self, *, content: bool) -> JsonObject:
        try:
            return await ensure_async(self._manager.get(self._path, content=content, type="notebook"))
        except HTTPError as error:
            raise ToolFailed(f"{self._path} can't be read: {_reason(error)}") from None

    async def _save(self, model: JsonObject) -> None:
        """Save, and take back the signature that the manager gives: only a person trusts what a tool wrote."""
        try:
            await ensure_async(self._manager.save(model, self._path))
            self._manager.notary.unsign(nbformat.from_dict(model["content"]))
        except HTTPError as error:
            if error.status_code < 500:  # a hook refused it, before anything was written
                raise ToolFailed(f"{self._path} was not saved: {_reason(error)}") from None
            log.exception("%s was saved, or not", self._path)
            raise DocumentSilent(f"{self._path} may or may not have been saved: {_reason(error)}") from None


def _distrust(content: JsonObject) -> None:
    """Remove the marks that cells are trusted: to show what acts again, a person has to run them or trust them."""
    for cell in cast("list[JsonObject]", content.get("cells", [])):
        metadata = cell.get("metadata")
        if isinstance(metadata, dict):
            metadata.pop("trusted", None)


def _reason(error: HTTPError) -> str:
    return (error.log_message or error.reason or f"HTTP {error.status_code}")[:300]
