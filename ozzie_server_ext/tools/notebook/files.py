"""Notebook files of the project: read, one cell changed, or written whole without active content."""

import asyncio
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.toolmeta import Category
from ozzie_server_ext.jupyter.cells import Cell, CellKind, Edit, Notebook
from ozzie_server_ext.jupyter.documents import Edited, OpenNotebook, Where
from ozzie_server_ext.tools.base import ToolContext, ToolFailed
from ozzie_server_ext.tools.changes.replace import replace
from ozzie_server_ext.tools.changes.seen import FileChanged, Looked, look
from ozzie_server_ext.tools.notebook.text import NotebookText
from ozzie_server_ext.tools.safe_open import open_below, readable_parts
from ozzie_server_ext.tools.timeout import to_its_end

_REMOTE = r"(?:[a-z][a-z0-9+.\-]*+:|[/\\]|\.\.?+[/\\]\.\.)"
"""An address not beside the notebook: with a protocol, from a server's root, or upwards."""
_PICTURE = re.compile(r"!\[")
# No pattern here backtracks: a text could be made to exploit that.
_TARGET = re.compile(rf"\]\s*+\(\s*+<?+\s*+(?!data:image/(?:png|jpeg|gif|webp);base64,|attachment:){_REMOTE}", re.I)
_DEFINED = re.compile(rf"^[ \t>]*+\[[^\]\n]{{1,999}}+\]:\s*+<?+\s*+(?!attachment:){_REMOTE}", re.I | re.M)
_TAG = re.compile(r"<[a-z!/?]", re.I)
_LOADING_TAG = re.compile(
    r"<\s*+/?+\s*+(img|image|picture|source|video|audio|track|iframe|frame|embed|object|applet|link|style|base|meta"
    r"|script|svg|math|input|form|portal|template|bgsound)\b",
    re.I,
)
_LOADING_ATTRIBUTE = re.compile(
    rf"[\s\"'/](?:(?:src|srcset|poster|formaction|xlink:href|ping)\s*+=|background\s*+=\s*+[\"']?+\s*+{_REMOTE})"
    r"|url\s*+\(",
    re.I,
)
_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_MOST = 100_000
"""Characters searched; a longer text counts as loading something."""


def what_loads(markdown: str) -> str:
    """Return what a text loads when it is displayed, in a few words, or ""."""
    if len(markdown) > _MOST:
        return "perhaps something: it is too long to be sure"
    if found := _LOADING_TAG.search(markdown):
        return f"something by HTML ({found[1].lower()})"
    if _TAG.search(markdown) and _LOADING_ATTRIBUTE.search(markdown):
        return "something by an attribute of HTML"
    paragraphs = [part for part in _PARAGRAPHS.split(markdown) if _PICTURE.search(part)]
    # A definition may stand anywhere, and any picture may use it.
    if paragraphs and (_DEFINED.search(markdown) or any(_TARGET.search(part) for part in paragraphs)):
        return "a picture from elsewhere"
    return ""


INERT = frozenset({"text/plain", "image/png", "image/jpeg", "image/gif", "image/webp"})
"""Forms of output without active content: text, and embedded pictures. Markdown is not among them, since Lab fetches
the pictures that it shows."""
_WITH_DATA = frozenset({"display_data", "execute_result"})
_OUTPUTS = frozenset({"stream", "error", *_WITH_DATA})


class NewContent(msgspec.Struct, frozen=True, kw_only=True):
    """What a new version brings. `problems` are sentences about what is not allowed; `has_code`: it has new code."""

    problems: tuple[str, ...] = ()
    has_code: bool = False


def is_inert(output: JsonObject) -> bool:
    """Whether the output does nothing when displayed, trusted or not."""
    kind, data = output.get("output_type"), output.get("data")
    if kind not in _OUTPUTS:
        return False
    return kind not in _WITH_DATA or (isinstance(data, dict) and INERT.issuperset(data))


def made_inert(output: JsonObject) -> JsonObject | None:
    """Return the output without active forms; None if nothing is left."""
    if is_inert(output):
        return output
    data = output.get("data")
    if output.get("output_type") not in _WITH_DATA or not isinstance(data, dict):
        return None
    kept = {form: value for form, value in data.items() if form in INERT}
    return {**output, "data": kept, "metadata": {}} if kept else None


def outputs_made_inert(cell: JsonObject) -> list[Json]:
    """Return the outputs of an nbformat cell without active forms."""
    found = cell.get("outputs")
    each = [made_inert(output) for output in found if isinstance(output, dict)] if isinstance(found, list) else []
    return [output for output in each if output is not None]


def new_content(new: Notebook, metadata: Any, old: Notebook | None, old_metadata: Any) -> NewContent:
    """Return what a notebook brings that the previous version, if any, did not have. What was there may stay: it is the
    user's own, and a changed file is no longer trusted."""
    problems = [*_of_the_whole(metadata, old_metadata)]
    had = Counter(map(_canonical, (output for cell in old.cells for output in cell.outputs))) if old else Counter[str]()
    sources = Counter((cell.kind, cell.source) for cell in old.cells) if old else Counter[tuple[CellKind, str]]()
    has_code = False
    for number, cell in enumerate(new.cells, 1):
        is_new = not _pop(sources, (cell.kind, cell.source))
        problems += _of_a_cell(number, cell, is_new, had)
        has_code |= is_new and cell.kind is CellKind.CODE and bool(cell.source.strip())
    return NewContent(problems=tuple(problems), has_code=has_code)


def _of_the_whole(metadata: Any, before: Any) -> Iterator[str]:
    known = before if isinstance(before, dict) else {}
    for name, what in (("trusted", "a mark that it is trusted"), ("widgets", "the state of widgets")):
        if isinstance(metadata, dict) and metadata.get(name) not in (None, False, known.get(name)):
            yield f"its metadata hold {what}"


def _of_a_cell(number: int, cell: Cell, is_new: bool, had: Counter[str]) -> Iterator[str]:
    metadata = cell.whole.get("metadata")
    if isinstance(metadata, dict) and metadata.get("trusted"):
        yield f"cell {number} says that it is trusted"
    acting = [output for output in cell.outputs if not _pop(had, _canonical(output)) and not is_inert(output)]
    if acting:
        forms = sorted({form for output in acting for form in _acting(output)})
        yield f"cell {number} has outputs that act or load something ({', '.join(forms)})"
    if is_new and cell.kind is CellKind.MARKDOWN and (loaded := what_loads(cell.source)):
        yield f"cell {number} loads {loaded}"


def _acting(output: JsonObject) -> Iterator[str]:
    data = output.get("data")
    if output.get("output_type") in _WITH_DATA and isinstance(data, dict):
        yield from (form[:60] for form in data if form not in INERT)
    else:
        yield str(output.get("output_type"))[:60]


def _pop(there: "Counter[Any]", what: Any) -> bool:
    """Remove one occurrence; return whether there was one."""
    if there[what] <= 0:
        return False
    there[what] -= 1
    return True


def _canonical(output: Json) -> str:
    return json.dumps(output, sort_keys=True)


ENDING = ".ipynb"


def is_notebook(path: str) -> bool:
    return path.casefold().endswith(ENDING)


def expect_inert(path: str, old: bytes | None, new: bytes | None) -> frozenset[Category]:
    """Return the further effects of a file change: new code in a notebook. `old` is None if there is no file, `new` if
    it is removed. Raises ToolFailed if a notebook would get active content or become unreadable."""
    if new is None or not is_notebook(path):
        return frozenset()
    found = NotebookText.of(new, path)
    before = _readable(path, old)
    brings = new_content(
        found.notebook,
        found.metadata,
        before.notebook if before else None,
        before.metadata if before else None,
    )
    if brings.problems:
        problems = "; ".join(brings.problems[:5])
        if len(brings.problems) > 5:
            problems += f"; and {len(brings.problems) - 5} more"
        raise ToolFailed(
            f"{path} was not written: {problems}. A notebook that a tool writes can't bring content that "
            "acts or loads by itself: leave that out. Outputs come when a person runs the cells."
        )
    return frozenset({Category.CODE_CELL}) if brings.has_code else frozenset[Any]()


def _readable(path: str, old: bytes | None) -> NotebookText | None:
    if old is None:
        return None
    try:
        return NotebookText.of(old, path)
    except ToolFailed:
        return None  # an unreadable notebook had nothing to keep


MAX_NOTEBOOK_BYTES = 32 * 1024 * 1024
_TRIES = 5
"""Attempts if others save the file during the edit."""


class FileNotebook:
    """See `OpenNotebook`. It is written like every file (ADR 26), not by Jupyter's contents service, which overwrites
    what was saved meanwhile and signs what it considers trusted (ADR 36)."""

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
        """Make the edit. The state of the file is valid only for the moment, but the edit holds the cell's state: if
        others save the file meanwhile, look again and retry if the edit still fits."""
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


def path_of(path: str) -> str:
    """Return a notebook's path in canonical form. Raises ToolFailed for another file or an inaccessible path."""
    parts = readable_parts(path)
    if not is_notebook(parts[-1]):
        raise ToolFailed(f"{path} is not a notebook: its name does not end with {ENDING}.")
    return "/".join(parts)


async def opened(context: ToolContext, path: str) -> OpenNotebook:
    """Open the notebook at a canonical path. Raises ToolFailed if it is missing or not in the project (somebody may
    have opened it through a link), DocumentBusy as `LiveDocuments.opened`."""
    await asyncio.to_thread(_expect_there, context.project, path)
    live = await context.jupyter.documents.opened(context.project.resolve() / path)
    return live if live is not None else FileNotebook(context.project, path)


def _expect_there(project: Path, path: str) -> None:
    os.close(open_below(project, path, folder=False))
