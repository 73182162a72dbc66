"""`note.write`, `note.read` and `artifact.read`: what the agent keeps in a session, under names.

A note is an artifact: each writing is a version, and a fork has its parent's notes as they were.
"""

import asyncio
import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Annotated

from pydantic import Field

from ozzie_server_ext.domain.artifacts import Artifact
from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.ids import ArtifactId
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.redaction import redact_text, redacted_lines
from ozzie_server_ext.domain.toolmeta import Idempotency, Made, RiskLevel, SideEffect, ToolMeta, ToolResult
from ozzie_server_ext.render.text import byte_count, line_count, quoted
from ozzie_server_ext.tools.base import EffectTool, FunctionTool, Plan, Preview, ToolContext, ToolFailed, read_only
from ozzie_server_ext.tools.changes.diff import lines_of, unified
from ozzie_server_ext.tools.outcome import TextPlace, count_lines, page_of

MAX_LINES = 2000
MAX_CHARACTERS = 16_000


async def read_artifact(
    context: ToolContext,
    *,
    artifact_id: Annotated[str, Field(description="As the result that was cut names it.", max_length=64)],
    first_line: Annotated[int, Field(description="Where to begin, from 1.", ge=1)] = 1,
    first_character: Annotated[int, Field(description="Where in that line to begin, from 1.", ge=1)] = 1,
    max_lines: Annotated[int, Field(ge=1, le=MAX_LINES)] = MAX_LINES,
) -> ToolResult:
    """Read an artifact of this session, or a part of it, such as the whole of a result that was cut. `lines` and
    `characters` in the result count all of it; `next` says where to read on, and is null at its end."""
    artifact, content = await context.artifacts.open(ArtifactId(artifact_id))
    if not artifact.is_text:
        # Don't name it: the name may be from outside, and a failure bears no label for it.
        raise ToolFailed(f"That artifact is not text, and has {byte_count(artifact.size)}.")
    data = await asyncio.to_thread(read_page, artifact, content, TextPlace(first_line, first_character), max_lines)
    summary = f"{count_lines(str(data['text'])):,} of {data['lines']:,} lines"
    return ToolResult(ok=True, data=data, summary=summary, content=artifact.content)


def read_page(artifact: Artifact, content: bytes, start: TextPlace, max_lines: int) -> JsonObject:
    """Return a page of an artifact. It is redacted before it is cut: half a secret would not be recognized."""
    text = redacted_lines(content.decode("utf-8", "replace"))
    page = page_of(text, start, max_lines=max_lines, room=MAX_CHARACTERS)
    return {
        "artifact_id": artifact.artifact_id,
        "name": artifact.name,
        "version": artifact.version,
        "characters": len(text),
        **page.data(text, start),
    }


MAX_BYTES = 64_000
"""Bytes of one note."""
MAX_NOTES = 100
"""Notes of a session, including its parent's."""
MAX_NAME = 80

_FOLDER, _ENDING = "notes/", ".md"
_NAME = re.compile(r"\w(?:[\w .-]*\w)?")

Name = Annotated[
    str, Field(description="Letters, digits, spaces, dots and hyphens, such as plan.", max_length=MAX_NAME)
]


async def plan_note(
    context: ToolContext,
    *,
    name: Name,
    text: Annotated[str, Field(description="All of the note, in place of what it was.", max_length=MAX_BYTES)],
) -> Plan:
    """Keep a note of your own in this session: what you found out, what was decided, what is left to do. It is there in
    later turns, also behind a restart. A note of the same name gets a new version."""
    if not _NAME.fullmatch(name):
        raise ToolFailed("A note's name has letters, digits, spaces, dots and hyphens, such as plan or open questions.")
    # As it is kept, redacted, so that the same text again is the same note.
    kept = await asyncio.to_thread(redact_text, text)
    size = len(kept.encode())
    if size > MAX_BYTES:
        raise ToolFailed(f"The note has {size:,} bytes; at most {MAX_BYTES:,} are kept. Split it, or shorten it.")
    notes = await _notes(context)
    if name not in notes and len(notes) >= MAX_NOTES:
        raise ToolFailed(f"There are {MAX_NOTES} notes already. Write into one of them; read_note lists them.")
    before = (await context.artifacts.open(notes[name].artifact_id))[1].decode() if name in notes else None
    args: JsonObject = {"name": name, "text": text}
    data: JsonObject = {"name": name, "bytes": size, "changed": before != kept}
    if before == kept:
        return Plan(args=args, nothing=ToolResult(ok=True, data=data, summary="nothing to change"))
    made = Made(name=f"{_FOLDER}{name}{_ENDING}", kind="markdown", mime="text/markdown", content=text)
    return Plan(
        args=args,
        effect={"note": name, "sha256": hashlib.sha256(kept.encode()).hexdigest()},
        preview=partial(_preview, name, before or "", kept),
        work=ToolResult(ok=True, data=data, summary=byte_count(size), made=(made,)),
    )


async def write_note(context: ToolContext, plan: Plan) -> ToolResult:
    """Return the planned result; its text is kept together with the outcome."""
    return plan.work


async def was_written(context: ToolContext, effect: JsonObject) -> bool | None:
    """A call without an outcome kept nothing, since both are recorded together."""
    return False


async def read_note(
    context: ToolContext,
    *,
    name: Annotated[str, Field(description="Empty for a list of all notes.", max_length=MAX_NAME)] = "",
) -> ToolResult:
    """Read a note that you kept in this session, or list all of them with size and age."""
    notes = await _notes(context)
    if not name:
        listed: list[Json] = [_listed(context, each, artifact) for each, artifact in notes.items()]
        count = "1 note" if len(listed) == 1 else f"{len(listed)} notes"
        content = Content.of_all(artifact.content for artifact in notes.values())  # names come from the content too
        return ToolResult(ok=True, data={"notes": listed}, summary=count, content=content)
    if name not in notes:
        # Don't list the names: they may be from outside, and a failure bears no label.
        raise ToolFailed(f"There is no note {quoted(name)}. To list all notes, leave the name empty.")
    artifact, content = await context.artifacts.open(notes[name].artifact_id)
    data = await asyncio.to_thread(read_page, artifact, content, TextPlace(1, 1), MAX_LINES)
    if data["next"] is not None:
        data["note"] = "This is the beginning. To read on: read_artifact with artifact_id and the values of `next`."
    summary = line_count(int(str(data["lines"])))
    return ToolResult(ok=True, data={**data, "name": name}, summary=summary, content=artifact.content)


async def _notes(context: ToolContext) -> Mapping[str, Artifact]:
    """Return the newest version of each note by name, without erased ones."""
    found = await context.artifacts.under(_FOLDER, "markdown")
    return {
        artifact.name.removeprefix(_FOLDER).removesuffix(_ENDING): artifact
        for artifact in found
        if artifact.erased is None
    }


def _listed(context: ToolContext, name: str, artifact: Artifact) -> JsonObject:
    return {"name": name, "bytes": artifact.size, "age": _age(context.clock.now() - artifact.ts)}


def _age(since: timedelta) -> str:
    minutes = max(int(since.total_seconds()), 0) // 60
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // (24 * 60)} days"


def _preview(name: str, before: str, after: str) -> Preview:
    return Preview(
        sentence=f"Keep the note {quoted(name)}, of {line_count(len(lines_of(after)))}?",
        proof=unified(before, after),
        shown="diff",
        undo="The previous version is kept among the artifacts.",
    )


_READ = read_only(
    tool_id="artifact.read",
    name="read_artifact",
    timeout_s=20,
    # Large enough that a page is never cut again, even with masks of 24 characters for 8.
    max_inline_chars=4 * MAX_CHARACTERS,
)

TOOLS = (
    FunctionTool(read_artifact, _READ),
    EffectTool(
        plan_note,
        write_note,
        ToolMeta(
            tool_id="note.write",
            name="write_note",
            side_effect=SideEffect.REVERSIBLE,
            risk_level=RiskLevel.LOW,
            timeout_s=20,
            idempotency=Idempotency.SUPPORTED,
            keeps_labels=True,
        ),
        happened=was_written,
    ),
    FunctionTool(read_note, replace(_READ, tool_id="note.read", name="read_note")),
)
