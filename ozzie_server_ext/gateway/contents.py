"""Closed notebooks, edited through Jupyter's contents manager where that does more than write a file (ADR 36)."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any, cast
from weakref import WeakValueDictionary

import msgspec
import nbformat
from jupyter_core.utils import ensure_async
from jupyter_server.services.contents.filemanager import AsyncFileContentsManager, FileContentsManager
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager, LargeFileManager
from tornado.web import HTTPError

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.jupyter.cells import Edit, Notebook
from ozzie_server_ext.jupyter.documents import DocumentBusy, DocumentSilent, Edited, OpenNotebook, Where
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.store.shielded import shielded
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes.seen import Looked, Seen, look
from ozzie_server_ext.tools.notebook.files import MAX_NOTEBOOK_BYTES
from ozzie_server_ext.tools.notebook.text import NotebookText

log = logger(__name__)

_ONLY_FILES = (FileContentsManager, AsyncFileContentsManager, LargeFileManager, AsyncLargeFileManager)
_TRIES = 5
"""Attempts if others save the notebook during the edit."""


class ManagedNotebooks:
    """The closed notebooks of a Jupyter Server whose contents manager has hooks, or is not Jupyter's own: it may keep
    a script beside each notebook, or a copy elsewhere, which an edit of the file alone would leave behind.

    `locks` has one lock per manager and path, as long as somebody edits there.
    """

    def __init__(self, serverapp: Any) -> None:
        self._serverapp = serverapp
        self.locks: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    async def opened(self, path: Path) -> OpenNotebook | None:
        """Return the notebook at this absolute path; None if writing its file is enough. Raises ToolFailed, as `look`,
        if the manager might write through a link, or the file is larger than MAX_NOTEBOOK_BYTES."""
        manager = self._serverapp.contents_manager
        if not does_more(manager):
            return None
        # The server's root may be another one: a manager of files resolves paths below its own.
        top = manager.root_dir if isinstance(manager, FileContentsManager) else self._serverapp.root_dir
        root = Path(await asyncio.to_thread(os.path.realpath, top))
        if not path.is_relative_to(root):
            return None
        name = path.relative_to(root).as_posix()
        lock = self.locks.setdefault((id(manager), name), asyncio.Lock())
        notebook = ManagedNotebook(manager, root, name, lock)
        await notebook.look()
        return notebook


def does_more(manager: Any) -> bool:
    """Whether saving with this contents manager does more than write the file."""
    hooks = [manager.pre_save_hook, manager.post_save_hook, *manager._pre_save_hooks, *manager._post_save_hooks]
    return type(manager) not in _ONLY_FILES or any(hook is not None for hook in hooks)


class _Got(msgspec.Struct, frozen=True):
    """What the manager gave. `seen` is the file's state just before, `modified` the time that the manager names."""

    seen: Seen
    modified: Json
    text: NotebookText


class ManagedNotebook:
    """An `OpenNotebook` that nobody has open, at this path of the contents manager, and below this folder.

    The manager opens the file by its path, and follows links. So the path is walked without following any, before and
    after each reading and directly before each save (`look`).
    """

    def __init__(self, manager: Any, root: Path, path: str, lock: asyncio.Lock) -> None:
        self._manager = manager
        self._root = root
        self._path = path
        self._lock = lock

    @property
    def where(self) -> Where:
        return "file"

    async def read(self) -> Notebook:
        for _ in range(_TRIES):
            got = await self._got()
            if (await self.look()).seen == got.seen:
                return got.text.notebook
        raise self._restless()

    async def edit(self, edit: Edit) -> Edited:
        """See `OpenNotebook`. Others may save meanwhile; then look again, and retry if the edit still fits."""
        # The manager writes the whole notebook, so a second edit must begin with what the first one saved.
        async with self._lock:
            return await shielded(self._edit(edit))

    async def look(self) -> Looked:
        """Return the file's state and bytes. Raises ToolFailed if it is missing, too large, not a plain file with one
        name, or if its path passes a symbolic link."""
        looked = await asyncio.to_thread(look, self._root, self._path, most=MAX_NOTEBOOK_BYTES)
        if looked.seen.file is None:
            raise ToolFailed(f"{self._path} does not exist.")
        return looked

    async def _edit(self, edit: Edit) -> Edited:
        for _ in range(_TRIES):
            got = await self._got()
            content = await asyncio.to_thread(self._edited, got.text, edit)
            if (await self._get(content=False)).get("last_modified") != got.modified:
                continue
            if (await self.look()).seen != got.seen:
                continue
            await self._save(got, {"type": "notebook", "format": "json", "path": self._path, "content": content})
            return Edited()
        raise self._restless()

    def _edited(self, text: NotebookText, edit: Edit) -> JsonObject:
        raw = text.edited(edit)
        if len(raw) > MAX_NOTEBOOK_BYTES:
            raise ToolFailed(f"{self._path} would be larger than {MAX_NOTEBOOK_BYTES:,} bytes; nothing was written.")
        return json.loads(raw)

    async def _got(self) -> _Got:
        seen = (await self.look()).seen
        model = await self._get(content=True)
        text = await asyncio.to_thread(_text_of, cast("JsonObject", model["content"]), self._path)
        return _Got(seen, model.get("last_modified"), text)

    async def _get(self, *, content: bool) -> JsonObject:
        try:
            return await ensure_async(self._manager.get(self._path, content=content, type="notebook"))
        except HTTPError as error:
            raise ToolFailed(f"{self._path} can't be read: {_reason(error)}") from None

    async def _save(self, before: _Got, model: JsonObject) -> None:
        """Save, and take back the signature that the manager gives: only a person trusts what a tool wrote. Raise
        ToolFailed if it was not saved, DocumentSilent if that is not known."""
        try:
            await ensure_async(self._manager.save(model, self._path))
        except Exception as error:
            # A status does not tell: Jupyter's own manager answers 403 if it can't make the first checkpoint, which it
            # does after the save, and another one may refuse the notebook after it wrote the script.
            is_refusal = isinstance(error, HTTPError) and error.status_code < 500
            if is_refusal and await self._is_still(before):
                raise ToolFailed(f"{self._path} was not saved: {_reason(error)}") from None
            log.exception("%s was saved, or not", self._path)
            raise DocumentSilent(f"{self._path} may or may not have been saved: {_reason(error)}") from None
        finally:
            await self._unsign(before, cast("JsonObject", model["content"]))

    async def _is_still(self, before: _Got) -> bool:
        """Whether the file is untouched, and the manager gives the same notebook as before."""
        try:
            got = await self._got()
            return got.seen == before.seen == (await self.look()).seen and got.text.text == before.text.text
        except Exception:
            log.exception("%s can't be read after it was not saved", self._path)
            return False

    async def _unsign(self, before: _Got, content: JsonObject) -> None:
        """Remove the signatures of what was to be saved and of what the file holds now, if that is another version: a
        manager may write other metadata than it got (Jupytext does), and has signed those."""
        notary = self._manager.notary
        written = [await asyncio.to_thread(nbformat.from_dict, content)]
        try:
            looked = await self.look()
            if looked.seen != before.seen:
                written.append(await asyncio.to_thread(nbformat.reads, looked.content.decode(), as_version=4))
        except Exception:  # nobody can trust what can't be read
            log.exception("%s can't be read after it was saved", self._path)
        for each in written:
            signature = await asyncio.to_thread(notary.compute_signature, each)
            notary.store.remove_signature(signature, notary.algorithm)

    def _restless(self) -> DocumentBusy:
        return DocumentBusy(f"{self._path} is saved by others all the time; nothing was done.")


def _text_of(content: JsonObject, path: str) -> NotebookText:
    """Return the notebook without marks of trust. Raises ToolFailed above MAX_NOTEBOOK_BYTES."""
    _distrust(content)
    raw = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")
    if len(raw) > MAX_NOTEBOOK_BYTES:
        raise ToolFailed(f"{path} is larger than {MAX_NOTEBOOK_BYTES:,} bytes; tools do not change such files.")
    return NotebookText.of(raw, path)


def _distrust(content: JsonObject) -> None:
    """Remove the marks that cells are trusted: to show what acts again, a person has to run them or trust them."""
    for cell in cast("list[JsonObject]", content.get("cells", [])):
        metadata = cell.get("metadata")
        if isinstance(metadata, dict):
            metadata.pop("trusted", None)


def _reason(error: Exception) -> str:
    if not isinstance(error, HTTPError):
        return (str(error) or type(error).__name__)[:300]
    return (error.log_message or error.reason or f"HTTP {error.status_code}")[:300]
