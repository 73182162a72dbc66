"""`fs.list` and `fs.read`: looking at files below the project's root, and nowhere else."""

import asyncio
import hashlib
import os
import stat
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field

from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.redaction import redacted_lines
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
from ozzie_server_ext.tools.changes.seen import MAX_BYTES, FileChanged
from ozzie_server_ext.tools.notebook.outputs import file_holds_outputs
from ozzie_server_ext.tools.outcome import TextPlace, count_lines, page_of
from ozzie_server_ext.tools.safe_open import open_below


@dataclass(frozen=True, slots=True)
class TextFile:
    """`text` has `\\n` at the ends of lines; the file has `\\r\\n` where `windows` is set, and begins with the mark of
    UTF-8 where `marked` is."""

    text: str
    windows: bool = False
    marked: bool = False

    @classmethod
    def of(cls, content: bytes, path: str) -> "TextFile":
        """Raises ToolFailed for what is no text, or one that could not be written back as it was."""
        try:
            text = content.decode()
        except UnicodeDecodeError:
            raise ToolFailed(f"{path} is not UTF-8 text, so it is not changed as text.") from None
        if "\0" in text:
            raise ToolFailed(f"{path} is not text.")
        marked = text.startswith("\ufeff")
        text = text.removeprefix("\ufeff")
        ends = text.count("\r\n")
        windows = ends > 0 and ends == text.count("\n")
        if windows:
            text = text.replace("\r\n", "\n")
        if "\r" in text:
            raise ToolFailed(f"{path} ends its lines in more than one way; a person has to settle that first.")
        return cls(text, windows, marked)

    def with_text(self, text: str) -> "TextFile":
        """The same file with another text, whose lines end as the file's do. Raises ToolFailed for what is no text."""
        text = text.replace("\r\n", "\n")
        text = text.removeprefix("\ufeff") if self.marked else text
        if "\0" in text or "\r" in text:
            raise ToolFailed("The new text has characters that are no text; nothing was written.")
        return replace(self, text=text)

    @property
    def content(self) -> bytes:
        text = self.text.replace("\n", "\r\n") if self.windows else self.text
        return (("\ufeff" if self.marked else "") + text).encode()


_PART = "-part"


def version_of(content: bytes) -> str:
    """What a file's content is called where somebody has to have seen it before it is changed."""
    return hashlib.sha256(content).hexdigest()[:16]


def version_read(content: bytes, *, whole: bool) -> str:
    """The same for who has read it. Where that was a part, it says so: that is enough to change a passage, and not to
    write the whole anew."""
    return version_of(content) + ("" if whole else _PART)


def expect_version(named: str, content: bytes, path: str, *, whole: bool) -> None:
    """Raises ToolFailed where `named` is not the version of the content, or where the whole has to have been read and
    was not."""
    if not named:
        raise ToolFailed(f"{path} is there already: read it first, and name its version.")
    if named.removesuffix(_PART) != version_of(content):
        raise FileChanged(f"{path} has changed since it was read; read it again.")
    if whole and named.endswith(_PART):
        raise ToolFailed(
            f"Only a part of {path} was read, and the rest would be lost: read all of it at once, or change a passage "
            "with edit_file."
        )


MAX_ENTRIES = 500
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
    first_character: Annotated[int, Field(description="Where in that line to begin, from 1.", ge=1)] = 1,
    max_lines: Annotated[int, Field(ge=1, le=MAX_LINES)] = MAX_LINES,
) -> ToolResult:
    """Read a text file of the project, or a part of it. `lines` in the result counts the whole file's lines; `next`
    says where to read on, and is null at its end; `version` is what a call that changes the file has to name."""
    start = TextPlace(first_line, first_character)
    return await asyncio.to_thread(_page, context, path, start, max_lines)


def _page(context: ToolContext, path: str, start: TextPlace, max_lines: int) -> ToolResult:
    with os.fdopen(open_below(context.project, path, folder=False), "rb") as file:
        raw = file.read(MAX_BYTES + 1)
        if file_holds_outputs(file, raw):
            context.provenance.add(Content.of(Label.OUTPUT, [path]))
    if b"\0" in raw[:8192]:
        raise ToolFailed(f"{path} is not text.")
    complete = len(raw) <= MAX_BYTES
    # Secrets go before the text is cut: half of one would not be known for what it is.
    text = redacted_lines(raw[:MAX_BYTES].decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n"))
    page = page_of(text, start, max_lines=max_lines, room=MAX_CHARACTERS)
    lines = count_lines(text)
    is_whole = complete and start == TextPlace(1, 1) and page.next is None
    data: JsonObject = {
        "path": path,
        "text": page.text,
        "first_line": start.line,
        "first_character": start.character,
        "lines": lines,
        "next": page.next and {"first_line": page.next.line, "first_character": page.next.character},
        # Of a file that is too large to be changed, there is no version.
        "version": version_read(raw, whole=is_whole) if complete else "",
        "truncated": not complete or page.next is not None,
    }
    return ToolResult(ok=True, data=data, summary=_count(lines, "line", "lines") + ("" if complete else " or more"))


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
