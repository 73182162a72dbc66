"""`time.now`: the date and time, which a model can't know."""

from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import Field

from ozzie_server_ext.domain.toolmeta import ToolResult
from ozzie_server_ext.tools.base import FunctionTool, ToolContext, ToolFailed, read_only


def now(
    context: ToolContext,
    *,
    timezone: Annotated[
        str, Field(description='An IANA name such as "Europe/Zurich"; default UTC.', max_length=64)
    ] = "UTC",
) -> ToolResult:
    """Tell the current date, time and weekday."""
    try:
        here = context.clock.now().astimezone(ZoneInfo(timezone))
    except (KeyError, ValueError, OSError):
        raise ToolFailed(f'There is no time zone "{timezone}"; use an IANA name such as "Europe/Zurich".') from None
    return ToolResult(
        ok=True,
        data={"time": here.isoformat(timespec="seconds"), "weekday": here.strftime("%A"), "timezone": timezone},
        summary=here.strftime("%Y-%m-%d %H:%M"),
    )


TOOLS = (FunctionTool(now, read_only(tool_id="time.now", name="current_time", timeout_s=5, overview=True)),)
