"""Many tools beside those that come with Ozzie, as plugins and servers bring them."""

from typing import Any

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.toolmeta import Idempotency, RiskLevel, SideEffect, ToolMeta, ToolResult
from ozzie_server_ext.tools.base import FunctionTool, Tool, ToolContext

_DOES = {
    "create": "Create a new {thing} for somebody.",
    "close": "Close a {thing} that is done with.",
    "list": "List each open {thing} with its owner.",
    "assign": "Assign a {thing} to another person.",
}
_THINGS = (
    *("ticket", "invoice", "shipment", "contract", "meeting", "flight", "recipe", "playlist", "patient", "warehouse"),
    *(
        "lesson",
        "auction",
        "refund",
        "subscription",
        "campaign",
        "vehicle",
        "apartment",
        "donation",
        "survey",
        "permit",
    ),
    *(
        "reactor",
        "telescope",
        "vineyard",
        "tournament",
        "orchestra",
        "satellite",
        "aquarium",
        "library",
        "bakery",
        "tram",
    ),
)


def made(tool_id: str, name: str, about: str, *, told_by: Content = CLEAN, **changed: Any) -> Tool:
    """A tool that reads nothing and changes nothing; it says its own name."""

    async def run(context: ToolContext) -> ToolResult:
        return ToolResult(ok=True, data=name)

    run.__doc__ = about
    settings: dict[str, Any] = {
        "side_effect": SideEffect.NONE,
        "risk_level": RiskLevel.LOW,
        "timeout_s": 5,
        "idempotency": Idempotency.SUPPORTED,
    }
    return FunctionTool(run, ToolMeta(tool_id=tool_id, name=name, told_by=told_by, **(settings | changed)))


def many_tools(*, told_by: Content = CLEAN) -> list[Tool]:
    """120 of them: four for each of thirty things."""
    return [
        made(f"{thing}.{verb}", f"{verb}_{thing}", about.format(thing=thing), told_by=told_by)
        for thing in _THINGS
        for verb, about in _DOES.items()
    ]
