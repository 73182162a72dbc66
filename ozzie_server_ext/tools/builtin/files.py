"""`fs.list` and `fs.read`: looking at files below the project's root, and nowhere else."""

import asyncio
import os
import stat
from typing import Annotated, Any

from pydantic import Field

from ozzie_server_ext.domain.toolmeta import (
    Idempotency,
    RiskLevel,
    SideEffect,
    Target,
    TargetKind,
    ToolMeta,
    ToolResult,
)
from ozzie_server_ext.tools.base import FunctionTool, ToolContext, ToolFailed
from ozzie_server_ext.tools.rooted import open_below

MAX_ENTRIES = 500
MAX_READ_BYTES = 256 * 1024
MAX_LINES = 2000
MAX_CHARACTERS = 16_000


async def list_folder(
    context: ToolContext,
    *,
    path: Annotated[str, Field(description="Relative to the project folder.", max_length=1024)] = ".",
) -> ToolResult:
    """List a folder of the project: names, kinds and sizes in bytes. Hidden files are left out."""
    total, shown = await asyncio.to_thread(_list, context, path)
    data: dict[str, Any] = {"path": path, "entries": shown, "truncated": total > MAX_ENTRIES}
    return ToolResult(ok=True, data=data, summary=_count(total, "entry", "entries"))


async def read_text(
    context: ToolContext,
    *,
    path: Annotated[str, Field(description="Relative to the project folder.", max_length=1024)],
    first_line: Annotated[int, Field(description="Where to begin, from 1.", ge=1)] = 1,
    max_lines: Annotated[int, Field(ge=1, le=MAX_LINES)] = MAX_LINES,
) -> ToolResult:
    """Read a text file of the project, or a part of it. `lines` in the result counts the whole file's lines."""
    raw, complete = await asyncio.to_thread(_read, context, path)
    if b"\0" in raw[:8192]:
        raise ToolFailed(f"{path} is not text.")
    lines = _lines(raw.decode("utf-8", "replace"))
    wanted = lines[first_line - 1 : first_line - 1 + max_lines]
    chosen = _within(wanted)
    data: dict[str, Any] = {
        "path": path,
        "text": "\n".join(chosen),
        "first_line": first_line,
        "lines": len(lines),
        "truncated": not complete or first_line - 1 + len(chosen) < len(lines) or chosen[-1:] != wanted[-1:],
    }
    return ToolResult(
        ok=True, data=data, summary=_count(len(lines), "line", "lines") + ("" if complete else " or more")
    )


def _list(context: ToolContext, path: str) -> tuple[int, list[dict[str, Any]]]:
    """How many entries there are, and what the first of them are."""
    folder = open_below(context.project, path, folder=True)
    try:
        found: list[dict[str, Any]] = []
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
        for name in names[:MAX_ENTRIES]:
            try:
                info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                continue  # removed in this moment
            kind = "folder" if stat.S_ISDIR(info.st_mode) else "file" if stat.S_ISREG(info.st_mode) else "other"
            # A name may hold bytes that are no UTF-8; the log and the model take text only.
            found.append({"name": os.fsencode(name).decode("utf-8", "replace"), "kind": kind, "size": info.st_size})
        return len(names), found
    finally:
        os.close(folder)


def _read(context: ToolContext, path: str) -> tuple[bytes, bool]:
    with os.fdopen(open_below(context.project, path, folder=False), "rb") as file:
        raw = file.read(MAX_READ_BYTES + 1)
    return raw[:MAX_READ_BYTES], len(raw) <= MAX_READ_BYTES


def _lines(text: str) -> list[str]:
    """As editors count them; `splitlines` would also end a line at a form feed or a U+2028 inside of it."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _within(lines: list[str]) -> list[str]:
    """As many whole lines as fit into what one answer may bring; at least the head of the first."""
    total = 0
    for index, line in enumerate(lines):
        total += len(line) + 1
        if total > MAX_CHARACTERS:
            return lines[:index] or [line[:MAX_CHARACTERS]]
    return lines


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


TOOLS = (
    FunctionTool(
        list_folder,
        ToolMeta(
            tool_id="fs.list",
            name="list_files",
            side_effect=SideEffect.NONE,
            risk_level=RiskLevel.LOW,
            timeout_s=20,
            idempotency=Idempotency.SUPPORTED,
            max_inline_chars=2 * MAX_CHARACTERS,
            targets=(Target("path", TargetKind.PATH),),
        ),
    ),
    FunctionTool(
        read_text,
        ToolMeta(
            tool_id="fs.read",
            name="read_file",
            side_effect=SideEffect.NONE,
            risk_level=RiskLevel.LOW,
            timeout_s=20,
            idempotency=Idempotency.SUPPORTED,
            further_names=("file_read",),
            max_inline_chars=2 * MAX_CHARACTERS,
            targets=(Target("path", TargetKind.PATH),),
        ),
    ),
)
