"""`notebook.read`: what a notebook of the project says, cell by cell (NB-9)."""

import asyncio
from typing import Annotated

from pydantic import Field

from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.redaction import redact_text
from ozzie_server_ext.domain.toolmeta import (
    Idempotency,
    RiskLevel,
    SideEffect,
    Target,
    TargetKind,
    ToolMeta,
    ToolResult,
)
from ozzie_server_ext.jupyter.cells import Cell, Notebook
from ozzie_server_ext.tools.base import FunctionTool, ToolContext
from ozzie_server_ext.tools.notebook.marks import content_of
from ozzie_server_ext.tools.notebook.opened import opened, path_of

MAX_CELLS = 200
MAX_CHARACTERS = 16_000
"""Of sources and outputs together, in one answer. A cell that is longer comes in part."""
MAX_PRINTED = 4_000
"""In characters, of one cell's outputs."""


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
    data, content = await asyncio.to_thread(_told, notebook, path, first_cell, max_cells, outputs)
    data = {"path": path, "read_from": found.where, **data}
    count = len(notebook.cells)
    return ToolResult(ok=True, data=data, summary="1 cell" if count == 1 else f"{count:,} cells", content=content)


def _told(notebook: Notebook, path: str, first: int, most: int, outputs: bool) -> tuple[JsonObject, Content]:
    shown: list[Json] = []
    content = Content()
    room = MAX_CHARACTERS
    wanted = notebook.cells[first - 1 :][:most]
    for number, cell in enumerate(wanted, first):
        printed = redact_text(cell.printed)[:MAX_PRINTED] if outputs else ""
        # Secrets go before a text is cut: half of one would not be known for what it is.
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
    told: JsonObject = {
        "number": number,
        "id": cell.cell_id,
        "version": cell.version if is_whole else "",
        "kind": cell.kind.value,
        "source": source,
    }
    if printed:
        told["outputs"] = printed
    elif cell.outputs:
        told["has_outputs"] = [form[:60] for form in cell.forms[:8]]
    return told


TOOLS = (
    FunctionTool(
        read_notebook,
        ToolMeta(
            tool_id="notebook.read",
            name="read_notebook",
            side_effect=SideEffect.NONE,
            risk_level=RiskLevel.LOW,
            timeout_s=30,
            idempotency=Idempotency.SUPPORTED,
            max_inline_chars=3 * MAX_CHARACTERS,
            targets=(Target("path", TargetKind.PATH),),
        ),
    ),
)
