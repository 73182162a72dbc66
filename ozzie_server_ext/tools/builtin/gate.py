"""`skill.gate`: a person's yes or no to go on with a run of a skill. Only steps call it, and it always asks."""

from typing import Annotated

from pydantic import Field

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Idempotency, RiskLevel, SideEffect, ToolMeta, ToolResult
from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.tools.base import FunctionTool, Preview, ToolContext


async def go_on(
    context: ToolContext,
    *,
    question: Annotated[str, Field(description="What a person says yes or no to.", min_length=1, max_length=50_000)],
    show: Annotated[str, Field(description="What it is about.")] = "",
) -> ToolResult:
    """Ask a person whether to go on."""
    return ToolResult(ok=True, data={"approved": True}, summary="approved")


def _preview(args: JsonObject) -> Preview:
    show = str(args["show"])
    return Preview(
        sentence=visible_label(str(args["question"])),
        proof=show,
        shown="text" if show else "",
        undo="Approving only starts the next steps.",
    )


TOOLS = (
    FunctionTool(
        go_on,
        ToolMeta(
            tool_id="skill.gate",
            name="gate",
            side_effect=SideEffect.NONE,
            risk_level=RiskLevel.LOW,
            timeout_s=5,
            idempotency=Idempotency.NOT_SUPPORTED,
            for_skills=True,
        ),
        preview=_preview,
    ),
)
