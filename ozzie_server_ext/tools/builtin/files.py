"""`fs.list` and `fs.read`: looking at files of the project, and no others."""

import asyncio
import dataclasses
import hashlib
import os
import stat
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace
from pydantic import Field

from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.redaction import redacted_lines
from ozzie_server_ext.domain.toolmeta import Target, TargetKind, ToolResult
from ozzie_server_ext.tools.base import FunctionTool, ToolContext, ToolFailed, read_only
from ozzie_server_ext.tools.changes.seen import MAX_BYTES, FileChanged
from ozzie_server_ext.tools.notebook.outputs import file_holds_outputs
from ozzie_server_ext.tools.outcome import TextPlace, count_lines, page_of
from ozzie_server_ext.tools.safe_open import open_below


class TextFile(msgspec.Struct, frozen=True):
    """`text` has `\\n` line ends; the file has `\\r\\n` if `windows`, and a UTF-8 byte order mark if `marked`."""

    text: str
    windows: bool = False
    marked: bool = False

    @classmethod
    def of(cls, content: bytes, path: str) -> "TextFile":
        """Raises ToolFailed for anything but text that can be written back unchanged."""
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
        """Return the same file with another text and the same line ends. Raises ToolFailed for non-text characters."""
        text = text.replace("\r\n", "\n")
        text = text.removeprefix("\ufeff") if self.marked else text
        if "\0" in text or "\r" in text:
            raise ToolFailed("The new text has non-text characters; nothing was written.")
        return replace(self, text=text)

    @property
    def content(self) -> bytes:
        text = self.text.replace("\n", "\r\n") if self.windows else self.text
        return (("\ufeff" if self.marked else "") + text).encode()


_PART = "-part"


def version_of(content: bytes) -> str:
    """Return the version that a call must name to change a file with this content."""
    return hashlib.sha256(content).hexdigest()[:16]


def version_read(content: bytes, *, whole: bool) -> str:
    """Return the version for a reader; after a partial read it allows changing a passage, not rewriting the whole."""
    return version_of(content) + ("" if whole else _PART)


def expect_version(named: str, content: bytes, path: str, *, whole: bool) -> None:
    """Raises ToolFailed if `named` is not the content's version, or only of a part when the `whole` must be read."""
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
    # Redact before cutting: half of a secret would not be recognized.
    text = redacted_lines(raw[:MAX_BYTES].decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n"))
    page = page_of(text, start, max_lines=max_lines, room=MAX_CHARACTERS)
    is_whole = complete and start == TextPlace(1, 1) and page.next is None
    data: JsonObject = {
        "path": path,
        **page.data(text, start),
        "version": version_read(raw, whole=is_whole) if complete else "",  # a file too large to change has none
        "truncated": not complete or page.next is not None,
    }
    summary = _count(count_lines(text), "line", "lines") + ("" if complete else " or more")
    return ToolResult(ok=True, data=data, summary=summary)


def _list(context: ToolContext, path: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the number of entries, and the first ones."""
    folder = open_below(context.project, path, folder=True)
    try:
        found: list[dict[str, Any]] = []
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
        for name in names[:MAX_ENTRIES]:
            try:
                info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                continue  # just removed
            kind = "folder" if stat.S_ISDIR(info.st_mode) else "file" if stat.S_ISREG(info.st_mode) else "other"
            # A name may hold bytes that are not UTF-8; the log and the model take only text.
            found.append({"name": os.fsencode(name).decode("utf-8", "replace"), "kind": kind, "size": info.st_size})
        return len(names), found
    finally:
        os.close(folder)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


_META = read_only(
    tool_id="fs.list",
    name="list_files",
    timeout_s=20,
    max_inline_chars=2 * MAX_CHARACTERS,
    targets=(Target("path", TargetKind.PATH),),
    overview=True,
)

TOOLS = (
    FunctionTool(list_folder, _META),
    FunctionTool(
        read_text,
        dataclasses.replace(_META, tool_id="fs.read", name="read_file", further_names=("file_read",), overview=False),
    ),
)
