"""`tool.find`: finding tools that the model is not offered."""

import re
from typing import Annotated

from pydantic import Field

from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.toolmeta import ToolResult
from ozzie_server_ext.tools.base import FunctionTool, Tool, ToolContext, read_only
from ozzie_server_ext.tools.offering import FIND_ID, FIND_NAME

MOST_FOUND = 10
MAX_SENTENCE = 240
"""Characters."""

_SENTENCE = re.compile(r".*?[.!?](?=\s|$)", re.DOTALL)


async def find_tools(
    context: ToolContext,
    *,
    query: Annotated[str, Field(description="What the tool is to do, in a few words, or its name.", max_length=1000)],
) -> ToolResult:
    """Find further tools, beside those that you are offered: at most ten names, what fits best first. From your next
    step on, you can call them."""
    found = context.toolbox.find(query, MOST_FOUND)
    listed: list[Json] = [{"name": tool.meta.name, "does": _sentence(tool)} for tool in found]
    if not listed:
        return ToolResult(ok=True, data={"tools": [], "note": "None fits. Try other words."}, summary="no tools")
    return ToolResult(
        ok=True,
        data={"tools": listed},
        summary="1 tool" if len(listed) == 1 else f"{len(listed)} tools",
        content=Content.of_all(tool.meta.told_by for tool in found),  # outsiders may have written the texts
    )


def _sentence(tool: Tool) -> str:
    about = tool.spec.description[: MAX_SENTENCE * 4]
    first = _SENTENCE.match(about)
    sentence = first[0] if first else about
    return sentence if len(sentence) <= MAX_SENTENCE else f"{sentence[: MAX_SENTENCE - 1]}…"


TOOLS = (FunctionTool(find_tools, read_only(tool_id=FIND_ID, name=FIND_NAME, timeout_s=20, overview=True)),)
