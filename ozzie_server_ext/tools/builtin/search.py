"""`fs.search` and `fs.find`: finding lines and files in the project.

The search is for plain text, since a regular expression can be made to take forever on a crafted file. For those there
is `grep -E` in the sandbox, with a limit.
"""

import asyncio
from collections.abc import Callable
from typing import Annotated, TypeVar

from pydantic import Field

from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.redaction import redacted_lines
from ozzie_server_ext.domain.toolmeta import Target, TargetKind, ToolMeta, ToolResult
from ozzie_server_ext.policy.patterns import Glob, SequenceGlob
from ozzie_server_ext.tools.base import FunctionTool, ToolContext, ToolFailed, read_only
from ozzie_server_ext.tools.changes.seen import MAX_BYTES
from ozzie_server_ext.tools.notebook.outputs import file_holds_outputs
from ozzie_server_ext.tools.safe_open import Walk

T = TypeVar("T")

MAX_MATCHES = 200
MAX_FOUND = 500
SHOWN = 240
"""Characters shown of a matching line, around the match."""
LIMIT_S = 15.0

Below = Annotated[str, Field(description="A folder or a file, relative to the project folder.", max_length=1024)]


async def search(
    context: ToolContext,
    *,
    query: Annotated[str, Field(description="Plain text within a line, no pattern.", min_length=1, max_length=500)],
    path: Below = ".",
    names: Annotated[str, Field(description="Of files, such as *.py.", max_length=200)] = "*",
    ignore_case: bool = False,
    max_results: Annotated[int, Field(ge=1, le=MAX_MATCHES)] = 50,
) -> ToolResult:
    """Search the project's text files for lines that contain a text. Hidden files are left out."""
    if "\n" in query or "\0" in query:
        raise ToolFailed("A line is searched, so the text can't contain a line break.")
    walk = Walk(LIMIT_S)
    return await _beside(walk, lambda: _search(context, walk, query, path, Glob.of(names), ignore_case, max_results))


async def find(
    context: ToolContext,
    *,
    pattern: Annotated[
        str, Field(description="Of the path below, such as *.csv or **/test_*.py.", min_length=1, max_length=500)
    ],
    path: Below = ".",
) -> ToolResult:
    """Find files of the project by a pattern of their path: * stands for any characters of a name, ** for any folders.
    Hidden files are left out."""
    walk = Walk(LIMIT_S)
    return await _beside(walk, lambda: _find(context, walk, pattern, path))


async def _beside(walk: Walk, work: Callable[[], T]) -> T:
    """Return the result of `work`, run in a thread and stopped with the call."""
    try:
        return await asyncio.to_thread(work)
    except asyncio.CancelledError:
        walk.stop()
        raise


def _search(
    context: ToolContext, walk: Walk, query: str, path: str, names: Glob, ignore_case: bool, most: int
) -> ToolResult:
    matches: list[Json] = []
    notebooks: list[str] = []
    searched = in_files = 0
    wanted = query.casefold() if ignore_case else query
    for found in walk.files(context.project, path):
        if not names.matches(found.name):
            continue
        if len(matches) >= most:
            walk.is_cut = True
            break
        searched += 1
        with found.open() as file:
            raw = file.read(MAX_BYTES)
            lines = _matching(raw, found.size > MAX_BYTES, wanted, ignore_case)
            # A line doesn't show whether it is part of an output.
            notebooks += [found.path] if lines and file_holds_outputs(file, raw) else []
        in_files += bool(lines)
        walk.is_cut |= len(lines) > most - len(matches) or found.size > MAX_BYTES
        matches += [{"path": found.path, "line": number, "text": line} for number, line in lines[: most - len(matches)]]
    data: JsonObject = {"matches": matches, "files_searched": searched, "truncated": walk.is_cut}
    count = f"{len(matches):,}{'+' if walk.is_cut else ''} match{'' if len(matches) == 1 else 'es'}"
    summary = f"{count} in {in_files} file{'' if in_files == 1 else 's'}"
    if notebooks:
        context.provenance.add(Content.of(Label.OUTPUT, notebooks))
    return ToolResult(ok=True, data=data, summary=summary)


def _matching(raw: bytes, is_cut: bool, wanted: str, ignore_case: bool) -> list[tuple[int, str]]:
    """Return numbers and texts of the matching lines, none for non-text. `is_cut`: the file is longer than `raw`."""
    if b"\0" in raw[:8192] or (not ignore_case and wanted.encode() not in raw):
        return []
    # Redact before lines are taken out: a part of a secret would not be recognized. The search is in the redacted text:
    # nobody may find out whether a secret contains a text.
    if len(raw) == MAX_BYTES and is_cut:
        raw = raw[: raw.rfind(b"\n") + 1]  # half a line may hold half a secret
    text = raw.decode("utf-8", "replace").replace("\r\n", "\n")
    if ignore_case and wanted not in text.casefold():
        return []
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(redacted_lines(text).split("\n"), 1):
        at = (line.casefold() if ignore_case else line).find(wanted)
        if at >= 0:
            lines.append((number, _around(line, _unfolded(line, at) if ignore_case else at)))
    return lines


def _unfolded(line: str, at: int) -> int:
    """Return the index in the line of a position in its case-folded form, in which some letters become two."""
    for index, letter in enumerate(line):
        if at <= 0:
            return index
        at -= len(letter.casefold())
    return len(line)


def _around(line: str, at: int) -> str:
    if len(line) <= SHOWN:
        return line.rstrip()
    begin = max(0, min(at - SHOWN // 4, len(line) - SHOWN))
    piece = line[begin : begin + SHOWN]
    return ("…" if begin else "") + piece + ("…" if begin + SHOWN < len(line) else "")


def _find(context: ToolContext, walk: Walk, pattern: str, path: str) -> ToolResult:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or pattern.startswith("/"):
        raise ToolFailed("The pattern is relative to the project, such as *.csv or notes/**/*.md.")
    glob = SequenceGlob.of(parts)
    above = len([part for part in path.split("/") if part not in ("", ".")])
    files: list[Json] = []
    for found in walk.files(context.project, path):
        if not glob.matches(found.path.split("/")[above:] or [found.name]):
            continue
        if len(files) == MAX_FOUND:
            walk.is_cut = True
            break
        files.append({"path": found.path, "size": found.size})
    data: JsonObject = {"files": files, "truncated": walk.is_cut}
    return ToolResult(
        ok=True,
        data=data,
        summary=f"{len(files):,}{'+' if walk.is_cut else ''} file{'' if len(files) == 1 else 's'}",
    )


def _meta(tool_id: str, name: str) -> ToolMeta:
    return read_only(
        tool_id=tool_id, name=name, timeout_s=20, max_inline_chars=32_000, targets=(Target("path", TargetKind.PATH),)
    )


TOOLS = (FunctionTool(search, _meta("fs.search", "search")), FunctionTool(find, _meta("fs.find", "find_files")))
