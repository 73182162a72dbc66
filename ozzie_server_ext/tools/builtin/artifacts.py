"""`artifact.read`: reading on in what was too large for the conversation, page by page (TL-5)."""

import asyncio
from typing import Annotated

from pydantic import Field

from ozzie_server_ext.domain.artifacts import Artifact
from ozzie_server_ext.domain.ids import ArtifactId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.redaction import redacted_lines
from ozzie_server_ext.domain.toolmeta import Idempotency, RiskLevel, SideEffect, ToolMeta, ToolResult
from ozzie_server_ext.render.text import byte_count
from ozzie_server_ext.tools.base import FunctionTool, ToolContext, ToolFailed
from ozzie_server_ext.tools.pages import TextPlace, count_lines, page_of

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
        # Without its name, which may be from outside: a failure bears no label of what it is about.
        raise ToolFailed(f"That artifact is not text, and has {byte_count(artifact.size)}.")
    data = await asyncio.to_thread(read_page, artifact, content, TextPlace(first_line, first_character), max_lines)
    summary = f"{count_lines(str(data['text'])):,} of {data['lines']:,} lines"
    return ToolResult(ok=True, data=data, summary=summary, content=artifact.content)


def read_page(artifact: Artifact, content: bytes, start: TextPlace, max_lines: int) -> JsonObject:
    """A page of an artifact, as the model reads it. Secrets are taken out before it is cut: a piece of one would not be
    found."""
    text = redacted_lines(content.decode("utf-8", "replace"))
    page = page_of(text, start, max_lines=max_lines, room=MAX_CHARACTERS)
    return {
        "artifact_id": artifact.artifact_id,
        "name": artifact.name,
        "version": artifact.version,
        "text": page.text,
        "first_line": start.line,
        "first_character": start.character,
        "lines": count_lines(text),
        "characters": len(text),
        "next": page.next and {"first_line": page.next.line, "first_character": page.next.character},
    }


TOOLS = (
    FunctionTool(
        read_artifact,
        ToolMeta(
            tool_id="artifact.read",
            name="read_artifact",
            side_effect=SideEffect.NONE,
            risk_level=RiskLevel.LOW,
            timeout_s=20,
            idempotency=Idempotency.SUPPORTED,
            # A page is no artifact again: it fits, also where it holds masks, of 24 characters for 8.
            max_inline_chars=4 * MAX_CHARACTERS,
        ),
    ),
)
