"""`notebook.…`: changing notebooks of the project cell by cell.

A cell is named by its id and the version from `read_notebook`: it is changed as it was read, or not at all. A notebook
that is open somewhere is changed there, beside the user's own edits (ADR 36).
"""

import asyncio
from functools import partial
from hashlib import sha256
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace
from pydantic import Field

from ozzie_server_ext.domain.artifacts import REPLACED_BY
from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.redaction import REDACTED, redact_text
from ozzie_server_ext.domain.toolmeta import Category, Target, TargetKind, ToolMeta, ToolResult
from ozzie_server_ext.jupyter.cells import (
    MAX_CELL_ID,
    TOP,
    Cell,
    CellChanged,
    CellKind,
    Delete,
    Edit,
    Insert,
    Move,
    Notebook,
    Replace,
    Show,
    above,
    behind,
    index_of,
    inverse,
    lines,
    place_of,
)
from ozzie_server_ext.jupyter.documents import DocumentSilent
from ozzie_server_ext.render.text import line_count, quoted
from ozzie_server_ext.tools.base import (
    Before,
    EffectTool,
    FunctionTool,
    Plan,
    Preview,
    ToolContext,
    ToolFailed,
    Unsettled,
    file_change,
    read_only,
)
from ozzie_server_ext.tools.builtin.writing import change_question, counts, root_of
from ozzie_server_ext.tools.changes.diff import lines_of, unified
from ozzie_server_ext.tools.notebook.effects import (
    FOLDER,
    MAX_UNDO_BYTES,
    brings_code,
    cell_after,
    effect_of,
    read_undo,
    undo_name,
    undo_text,
    was_made,
)
from ozzie_server_ext.tools.notebook.files import opened, path_of, what_loads
from ozzie_server_ext.tools.notebook.text import content_of, marked

_UNDO = "Undo it in the notebook where it is open, or tell Ozzie to take it back."
_NO_UNDO = "Undo it in the notebook where it is open. Ozzie can't: the cell has what looks like a secret."
_KINDS = {CellKind.CODE: "code cell", CellKind.MARKDOWN: "Markdown cell", CellKind.RAW: "raw cell"}


def preview(path: str, edit: Edit, notebook: Notebook, *, can_undo: bool) -> Preview:
    """The card of an edit that fits the notebook."""
    undo = _UNDO if can_undo else _NO_UNDO
    name = quoted(path)
    match edit:
        case Insert():
            new = Notebook.of([edit.cell]).cells[0]
            size = line_count(len(lines_of(new.source)))
            sentence = (
                f"Add a {_KINDS[new.kind]} of {size} to {name}, {_place(behind(edit.after, notebook), notebook)}?"
            )
            return Preview(sentence=sentence, proof=_diff("", new.source), shown="diff", undo=undo)
        case Replace():
            what = f"{_cell_name(edit.cell_id, notebook)} of {name}"
            proof = _diff(edit.was, edit.source)
            return Preview(sentence=change_question(what, edit.was, edit.source), proof=proof, shown="diff", undo=undo)
        case Move():
            where = "to the top" if edit.after == TOP else f"behind {_cell_name(edit.after, notebook)}"
            sentence = f"Move {_cell_name(edit.cell_id, notebook)} of {name} {where}?"
            return Preview(sentence=sentence, proof=edit.was, shown="text", undo=undo)
        case Delete():
            cell = notebook.cells[index_of(edit.cell_id, notebook)]
            sentence = f"Delete {_cell_name(edit.cell_id, notebook)} of {name}?"
            return Preview(sentence=sentence, proof=_all_of(cell), shown="text", undo=undo)
        case Show():
            sentence = f"Put other outputs below {_cell_name(edit.cell_id, notebook)} of {name}?"
            return Preview(sentence=sentence, proof=edit.was, shown="text", undo=undo)


def _diff(old: str, new: str) -> str:
    """Return the diff of two sources. A cell's last line has no end, which is nothing to be told."""
    return unified(old and f"{old}\n", new and f"{new}\n")


def _cell_name(cell_id: str, notebook: Notebook) -> str:
    """Name a cell by its number, from 1, as people count."""
    index = index_of(cell_id, notebook)
    return f"cell {index + 1} ({_KINDS[notebook.cells[index].kind]})"


def _place(index: int, notebook: Notebook) -> str:
    if index == len(notebook.cells):
        return "at its end"
    return "at its top" if not index else f"behind {_cell_name(above(index, notebook), notebook)}"


def _all_of(cell: Cell) -> str:
    printed = cell.printed
    return f"{cell.source}\n\nIts outputs, which go with it:\n{printed}" if printed else cell.source


MAX_CELLS = 200
MAX_CHARACTERS = 16_000
"""Characters of sources and outputs in one answer. A longer cell comes in part."""
MAX_PRINTED = 4_000
"""Characters of one cell's outputs."""


async def read_notebook(
    context: ToolContext,
    *,
    path: Annotated[str, Field(description="Relative to the project folder.", max_length=1024)],
    first_cell: Annotated[int, Field(description="Where to begin, from 1.", ge=1)] = 1,
    max_cells: Annotated[int, Field(ge=1, le=MAX_CELLS)] = MAX_CELLS,
    outputs: Annotated[bool, Field(description="Whether to tell what the cells put out, as text.")] = False,
) -> ToolResult:
    """Read a notebook of the project, or some of its cells. Each has an `id`, and a `version` that a call which changes
    it has to name; a cell without one was shown in part. `next` is the cell to read on with, null at the end."""
    path = path_of(path)
    found = await opened(context, path)
    notebook = await found.read()
    data, content = await asyncio.to_thread(_page, notebook, path, first_cell, max_cells, outputs)
    data = {"path": path, "read_from": found.where, **data}
    count = len(notebook.cells)
    return ToolResult(ok=True, data=data, summary="1 cell" if count == 1 else f"{count:,} cells", content=content)


def _page(notebook: Notebook, path: str, first: int, most: int, outputs: bool) -> tuple[JsonObject, Content]:
    shown: list[Json] = []
    content = Content()
    room = MAX_CHARACTERS
    wanted = notebook.cells[first - 1 :][:most]
    for number, cell in enumerate(wanted, first):
        printed = redact_text(cell.printed)[:MAX_PRINTED] if outputs else ""
        # Redact before cutting: half of a secret would not be recognized.
        source = redact_text(cell.source)
        if shown and len(source) + len(printed) > room:
            break
        is_whole = len(source) <= room
        shown.append(_cell(number, cell, source[: max(room, 0)], printed, is_whole))
        room -= len(source) + len(printed)
        content = content | content_of(cell)
        if printed:
            content = content | Content.of(Label.OUTPUT, [path])
    behind = first + len(shown)
    data: JsonObject = {
        "language": notebook.language or None,
        "cells": shown,
        "count": len(notebook.cells),
        "next": behind if behind <= len(notebook.cells) else None,
    }
    return data, content


def _cell(number: int, cell: Cell, source: str, printed: str, is_whole: bool) -> JsonObject:
    shown: JsonObject = {
        "number": number,
        "id": cell.cell_id,
        "version": cell.version if is_whole else "",
        "kind": cell.kind.value,
        "source": source,
    }
    if printed:
        shown["outputs"] = printed
    elif cell.outputs:
        shown["has_outputs"] = [form[:60] for form in cell.forms[:8]]
    return shown


MAX_SOURCE = 100_000
"""Characters of one cell."""
_FAMILY = "notebook."
_MAX_NAME = MAX_CELL_ID + 16
"""Characters of a cell's name."""
END = "end"
_TOP = "top"

Path = Annotated[str, Field(description="Of the notebook, relative to the project folder.", max_length=1024)]
CellId = Annotated[str, Field(description="As read_notebook told it.", min_length=1, max_length=_MAX_NAME)]
Version = Annotated[str, Field(description="The cell's version, as read_notebook told it.", max_length=64)]
Behind = Annotated[
    str,
    Field(
        description=f"Id of the cell that it comes behind; {_TOP} or {END}.", min_length=1, max_length=MAX_CELL_ID + 16
    ),
]
Source = Annotated[str, Field(description="All of the cell's text.", max_length=MAX_SOURCE)]


class _Work(msgspec.Struct, frozen=True):
    path: str
    edit: Edit
    result: JsonObject
    summary: str


async def plan_insert(
    context: ToolContext, *, path: Path, kind: Literal["code", "markdown"], source: Source, after: Behind = END
) -> Plan:
    """Add a cell to a notebook of the project. Code in it is not run."""
    args: JsonObject = {"path": path, "kind": kind, "source": source, "after": after}
    path, notebook = await read_at(context, path)
    _expect_quiet(CellKind(kind), source, "")
    cell: JsonObject = {
        "cell_type": kind,
        "id": _new_id(context.key),
        "metadata": marked({}, context.reading.content.sources),
        "source": lines(source),
    }
    if kind == CellKind.CODE:
        cell |= {"execution_count": None, "outputs": []}
    place = TOP if after == _TOP else above(len(notebook.cells), notebook) if after == END else after
    return await _plan(context, args, path, Insert(cell=cell, after=place), notebook, "1 cell added")


async def plan_edit(context: ToolContext, *, path: Path, cell: CellId, version: Version, source: Source) -> Plan:
    """Give a cell of a notebook, which was read before, another text. Its outputs stay until it is run."""
    args: JsonObject = {"path": path, "cell": cell, "version": version, "source": source}
    path, notebook = await read_at(context, path)
    found = as_read(notebook, cell, version)
    _expect_quiet(found.kind, source, found.source)
    if source == found.source:
        data: JsonObject = {"path": path, "cell": cell, "version": version, "changed": False}
        return Plan(args=args, nothing=ToolResult(ok=True, data=data, summary="nothing to change"))
    edit = Replace(
        cell_id=cell, kind=found.kind, was=found.source, source=source, made_from=context.reading.content.sources
    )
    return await _plan(context, args, path, edit, notebook, counts(found.source, source))


async def plan_move(context: ToolContext, *, path: Path, cell: CellId, version: Version, after: Behind) -> Plan:
    """Move a cell of a notebook, which was read before, to another place in it."""
    args: JsonObject = {"path": path, "cell": cell, "version": version, "after": after}
    path, notebook = await read_at(context, path)
    found = as_read(notebook, cell, version)
    was_after = above(index_of(cell, notebook), notebook)
    others = replace(notebook, cells=tuple(each for each in notebook.cells if each is not found))
    place = TOP if after == _TOP else above(len(others.cells), others) if after == END else after
    behind(place, others)  # a cell can't come behind itself
    if place == was_after:
        data: JsonObject = {"path": path, "cell": cell, "changed": False}
        return Plan(args=args, nothing=ToolResult(ok=True, data=data, summary="nothing to change"))
    edit = Move(cell_id=cell, was=found.source, was_after=was_after, after=place)
    return await _plan(context, args, path, edit, notebook, "1 cell moved")


async def plan_delete(context: ToolContext, *, path: Path, cell: CellId, version: Version) -> Plan:
    """Take a cell, which was read before, out of a notebook, with all that it put out."""
    args: JsonObject = {"path": path, "cell": cell, "version": version}
    path, notebook = await read_at(context, path)
    found = as_read(notebook, cell, version)
    was_after = above(index_of(cell, notebook), notebook)
    edit = Delete(cell_id=cell, was=found.source, was_outputs=found.outputs, was_after=was_after)
    return await _plan(context, args, path, edit, notebook, "1 cell deleted")


async def plan_undo(
    context: ToolContext,
    *,
    path: Path,
    undo: Annotated[str, Field(description="What the edit told as `undo`.", min_length=1, max_length=200)],
) -> Plan:
    """Take an edit of a notebook back that was made in this session, unless somebody has changed the cell since."""
    args: JsonObject = {"path": path, "undo": undo}
    path, notebook = await read_at(context, path)
    there = await context.artifacts.under(undo, "file") if undo.startswith(FOLDER) else ()
    ours = [each for each in there if each.name == undo and str(each.meta.get(REPLACED_BY, "")).startswith(_FAMILY)]
    if not ours:
        raise ToolFailed(f"There is nothing {quoted(undo)} in this session that takes an edit back.")
    artifact, content = await context.artifacts.open(ours[0].artifact_id)
    noted, edit = await asyncio.to_thread(read_undo, content, undo)
    if noted != path:
        raise ToolFailed(f"{quoted(undo)} is about {quoted(noted)}, and not about this notebook.")
    return await _plan(context, args, path, edit, notebook, "taken back", artifact.content)


async def read_at(context: ToolContext, path: str) -> tuple[str, Notebook]:
    """Return the canonical path and the present notebook. Raises as `path_of` and `opened`."""
    path = path_of(path)
    return path, await (await opened(context, path)).read()


def as_read(notebook: Notebook, cell_id: str, version: str) -> Cell:
    """Return the cell. Raises ToolFailed if it is not the version that was read."""
    found = notebook.cells[index_of(cell_id, notebook)]
    if not version:
        raise ToolFailed("Read the cell first, all of it, and name its version.")
    if version != found.version:
        raise CellChanged(f"The cell {cell_id} has changed since it was read; read it again.")
    return found


def _expect_quiet(kind: CellKind, source: str, before: str) -> None:
    """Raises ToolFailed for a text that loses a secret or loads something when displayed."""
    if source.count(REDACTED) > before.count(REDACTED):
        raise ToolFailed(
            "The new text has [redacted: …], which stands for a secret that would be lost. Leave that cell to a person."
        )
    loaded = what_loads(source) if kind is CellKind.MARKDOWN else ""
    if loaded and loaded != what_loads(before):
        raise ToolFailed(
            f"The cell would load {loaded} whenever somebody looks at it. Write it as a link, which people follow only "
            "if they want to."
        )


def _new_id(key: str) -> str:
    """Derive an id from the call's key, so that planning again, after an answer or a crash, gives the same."""
    return f"ozzie-{sha256(key.encode()).hexdigest()[:24]}"


async def _plan(
    context: ToolContext,
    args: JsonObject,
    path: str,
    edit: Edit,
    notebook: Notebook,
    summary: str,
    content: Content = CLEAN,
) -> Plan:
    place_of(edit, notebook)  # fail before anybody is asked
    before = await asyncio.to_thread(_undo_artifact, path, edit, notebook)
    result: JsonObject = {"path": path, **cell_after(edit, notebook), "undo": before.name if before else None}
    return Plan(
        args=args,
        categories=frozenset({Category.CODE_CELL}) if brings_code(edit) else frozenset(),
        content=content,
        effect={"root": root_of(context), "path": path, **effect_of(edit)},
        writes=(f"{root_of(context)}/{path}",),
        before=before,
        preview=partial(preview, path, edit, notebook, can_undo=before is not None),
        work=_Work(path, edit, result, summary),
    )


def _undo_artifact(path: str, edit: Edit, notebook: Notebook) -> Before | None:
    """Return the artifact that undoes the edit; None if it can't be undone."""
    try:
        text = undo_text(path, inverse(edit, notebook))
    except CellChanged:
        return None
    if len(text) > MAX_UNDO_BYTES // 4 or redact_text(text) != text:  # a character takes at most four bytes
        return None
    return Before(name=undo_name(text), mime="application/json", content=text.encode())


async def make(context: ToolContext, plan: Plan) -> ToolResult:
    """Make any of the edits, where the notebook is open or in its file."""
    work: _Work = plan.work
    found = await opened(context, work.path)
    try:
        done = await found.edit(work.edit)
    except DocumentSilent as error:
        raise Unsettled(str(error), hint=error.hint) from error
    data: JsonObject = {**work.result, "changed_in": found.where, "notes": [*done.notes]}
    return ToolResult(ok=True, data=data, summary=work.summary, wrote=plan.writes)


async def made(context: ToolContext, effect: JsonObject) -> bool | None:
    if effect["root"] != root_of(context):
        return None
    path = str(effect["path"])
    return was_made(effect, await (await opened(context, path)).read())


def _meta(tool_id: str, name: str) -> ToolMeta:
    return file_change(
        tool_id=f"{_FAMILY}{tool_id}", name=name, timeout_s=45.0, targets=(Target("path", TargetKind.PATH),)
    )


TOOLS = (
    FunctionTool(
        read_notebook,
        read_only(
            tool_id="notebook.read",
            name="read_notebook",
            timeout_s=30,
            max_inline_chars=3 * MAX_CHARACTERS,
            targets=(Target("path", TargetKind.PATH),),
        ),
    ),
    EffectTool(plan_insert, make, _meta("insert", "insert_cell"), happened=made),
    EffectTool(plan_edit, make, _meta("edit", "edit_cell"), happened=made),
    EffectTool(plan_move, make, _meta("move", "move_cell"), happened=made),
    EffectTool(plan_delete, make, _meta("delete", "delete_cell"), happened=made),
    EffectTool(plan_undo, make, _meta("undo", "undo_cell_edit"), happened=made),
)
