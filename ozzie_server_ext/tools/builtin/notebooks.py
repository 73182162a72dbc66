"""`notebook.…`: changing notebooks of the project cell by cell (NB-9).

A cell is named by its id, and by the version that `read_notebook` told: it is changed as it was seen, or not at all.
Where somebody has the notebook open, it is changed there, beside what they type (ADR 36).
"""

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Annotated, Literal

from pydantic import Field

from ozzie_server_ext.domain.artifacts import REPLACED_BY
from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.redaction import REDACTED, redact_text
from ozzie_server_ext.domain.toolmeta import (
    Category,
    Idempotency,
    RiskLevel,
    SideEffect,
    Target,
    TargetKind,
    ToolMeta,
    ToolResult,
)
from ozzie_server_ext.jupyter.cells import MAX_CELL_ID, Cell, CellKind, Notebook, lines
from ozzie_server_ext.jupyter.documents import DocumentSilent
from ozzie_server_ext.jupyter.edits import (
    TOP,
    CellChanged,
    Delete,
    Edit,
    Insert,
    Move,
    Replace,
    above,
    behind,
    index_of,
    inverse,
    place_of,
)
from ozzie_server_ext.render.text import quoted
from ozzie_server_ext.tools.base import Before, EffectTool, Plan, ToolContext, ToolFailed, Unsettled
from ozzie_server_ext.tools.builtin.cellview import preview
from ozzie_server_ext.tools.builtin.writing import counts, root_of
from ozzie_server_ext.tools.notebook.effects import brings_code, effect_of, told_of, was_made
from ozzie_server_ext.tools.notebook.loading import what_loads
from ozzie_server_ext.tools.notebook.marks import marked
from ozzie_server_ext.tools.notebook.opened import opened, path_of
from ozzie_server_ext.tools.notebook.undoing import FOLDER, MAX_UNDO_BYTES, read_undo, undo_name, undo_text

MAX_SOURCE = 100_000
"""In characters, of one cell."""
_FAMILY = "notebook."
_MAX_NAME = MAX_CELL_ID + 16
"""In characters, of what a cell is called."""
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


@dataclass(frozen=True, slots=True)
class _Work:
    path: str
    edit: Edit
    told: JsonObject
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
    """The path in its one form, and what the notebook says now. Raises as `path_of` and `opened`."""
    path = path_of(path)
    return path, await (await opened(context, path)).read()


def as_read(notebook: Notebook, cell_id: str, version: str) -> Cell:
    """Raises ToolFailed where the cell is not the one that was read."""
    found = notebook.cells[index_of(cell_id, notebook)]
    if not version:
        raise ToolFailed("Read the cell first, all of it, and name its version.")
    if version != found.version:
        raise CellChanged(f"The cell {cell_id} has changed since it was read; read it again.")
    return found


def _expect_quiet(kind: CellKind, source: str, before: str) -> None:
    """Raises ToolFailed for a text that loses a secret, or loads something as soon as somebody looks at it."""
    if source.count(REDACTED) > before.count(REDACTED):
        raise ToolFailed(
            "The new text has [redacted: …], which stands where a secret was taken out, and the secret would be lost. "
            "Leave that cell to a person."
        )
    loaded = what_loads(source) if kind is CellKind.MARKDOWN else ""
    if loaded and loaded != what_loads(before):
        raise ToolFailed(
            f"The cell would load {loaded} whenever somebody looks at it. Name it as a link, which is followed by who "
            "wants to."
        )


def _new_id(key: str) -> str:
    """Made from the call's key: the same where it is planned again, after the answer or a crash (TL-10)."""
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
    place_of(edit, notebook)  # before anybody is asked for what is not possible
    before = await asyncio.to_thread(_way_back, path, edit, notebook)
    told: JsonObject = {"path": path, **told_of(edit, notebook), "undo": before.name if before else None}
    return Plan(
        args=args,
        categories=frozenset({Category.CODE_CELL}) if brings_code(edit) else frozenset(),
        content=content,
        effect={"root": root_of(context), "path": path, **effect_of(edit)},
        writes=(f"{root_of(context)}/{path}",),
        before=before,
        preview=partial(preview, path, edit, notebook, can_undo=before is not None),
        work=_Work(path, edit, told, summary),
    )


def _way_back(path: str, edit: Edit, notebook: Notebook) -> Before | None:
    """What takes the edit back; None where nothing does."""
    try:
        text = undo_text(path, inverse(edit, notebook))
    except CellChanged:
        return None
    if len(text) > MAX_UNDO_BYTES // 4 or redact_text(text) != text:  # a character takes four bytes at the most
        return None
    return Before(name=undo_name(text), mime="application/json", content=text.encode())


async def make(context: ToolContext, plan: Plan) -> ToolResult:
    """What all of them do: make the edit where the notebook is open, or in its file."""
    work: _Work = plan.work
    found = await opened(context, work.path)
    try:
        done = await found.edit(work.edit)
    except DocumentSilent as error:
        raise Unsettled(str(error), hint=error.hint) from error
    data: JsonObject = {**work.told, "changed_in": found.where, "notes": [*done.notes]}
    return ToolResult(ok=True, data=data, summary=work.summary, wrote=plan.writes)


async def made(context: ToolContext, effect: JsonObject) -> bool | None:
    """Whether that edit was made."""
    if effect["root"] != root_of(context):
        return None
    path = str(effect["path"])
    return was_made(effect, await (await opened(context, path)).read())


def _meta(tool_id: str, name: str) -> ToolMeta:
    return ToolMeta(
        tool_id=f"{_FAMILY}{tool_id}",
        name=name,
        side_effect=SideEffect.REVERSIBLE,
        risk_level=RiskLevel.MEDIUM,
        timeout_s=45.0,
        idempotency=Idempotency.NOT_SUPPORTED,
        targets=(Target("path", TargetKind.PATH),),
    )


TOOLS = (
    EffectTool(plan_insert, make, _meta("insert", "insert_cell"), happened=made),
    EffectTool(plan_edit, make, _meta("edit", "edit_cell"), happened=made),
    EffectTool(plan_move, make, _meta("move", "move_cell"), happened=made),
    EffectTool(plan_delete, make, _meta("delete", "delete_cell"), happened=made),
    EffectTool(plan_undo, make, _meta("undo", "undo_cell_edit"), happened=made),
)
