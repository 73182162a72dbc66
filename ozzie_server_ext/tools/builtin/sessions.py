"""`session.list`, `session.read` and `session.artifact`: what MCP clients read of Ozzie's own.

Each call is decided and recorded like all others; what it returns says what was read, and nothing of it. The client
gets that beside the record (`tasks.client_calls`), so that a copy of what a person erases is kept nowhere.
"""

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from ozzie_server_ext.domain.toolmeta import Target, TargetKind, ToolResult
from ozzie_server_ext.render.text import counted
from ozzie_server_ext.tools.base import FunctionTool, ToolContext, read_only

MOST_MESSAGES = 50


async def list_sessions(context: ToolContext) -> ToolResult:
    """List the user's sessions with Ozzie, the last used first."""
    return ToolResult(ok=True, data={}, summary="the list of sessions was given")


async def read_session(
    context: ToolContext,
    *,
    session: Annotated[str, Field(description="The session's id, as ozzie_sessions lists it", max_length=200)],
    messages: Annotated[int, Field(description="How many", ge=1, le=MOST_MESSAGES)] = 10,
) -> ToolResult:
    """Read the last messages of a session."""
    data = {"session": session, "messages": messages}
    return ToolResult(ok=True, data=data, summary=f"at most {counted(messages, 'message')} were given")


async def read_artifact(
    context: ToolContext, *, artifact: Annotated[str, Field(description="The artifact's id", max_length=200)]
) -> ToolResult:
    """Read what a call has made."""
    return ToolResult(ok=True, data={"artifact": artifact}, summary="its content was given")


_READS = replace(read_only(tool_id="session.list", name="ozzie_sessions", timeout_s=5), for_clients=True)

TOOLS = (
    FunctionTool(list_sessions, _READS),
    FunctionTool(
        read_session,
        replace(
            _READS,
            tool_id="session.read",
            name="ozzie_session_read",
            targets=(Target(argument="session", kind=TargetKind.OBJECT),),
        ),
    ),
    FunctionTool(
        read_artifact,
        replace(
            _READS,
            tool_id="session.artifact",
            name="ozzie_artifact_read",
            targets=(Target(argument="artifact", kind=TargetKind.OBJECT),),
        ),
    ),
)
