"""A gateway whose tools are those that the MCP's conformance tests call: `python -m tests.conformance.gateway …`."""

import asyncio
import base64
from typing import Any

import pytest

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.toolmeta import Made, ToolMeta, ToolResult, ToolSpec
from ozzie_server_ext.programs import gateway
from ozzie_server_ext.tools.base import FunctionTool, Plan, ToolContext, ToolFailed, read_only
from ozzie_server_ext.tools.builtin import sessions

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def _meta(name: str) -> ToolMeta:
    return read_only(tool_id=f"test.{name}", name=name, timeout_s=20)


def test_simple_text(context: ToolContext) -> ToolResult:
    """Tests a text."""
    return ToolResult(ok=True, data="This is a simple text response for testing.", summary="a text")


def test_image_content(context: ToolContext) -> ToolResult:
    """Tests a picture."""
    made = Made(name="test.png", kind="image", mime="image/png", content=PNG)
    return ToolResult(ok=True, data="A picture.", summary="a picture", made=(made,))


def test_error_handling(context: ToolContext) -> ToolResult:
    """Tests an error."""
    raise ToolFailed("This tool intentionally returns an error for testing")


async def test_tool_with_progress(context: ToolContext) -> ToolResult:
    """Tests progress."""
    for done in (0, 50, 100):
        context.live.progress(f"{done} %")
        await asyncio.sleep(0.1)  # longer than the time between two reports
    return ToolResult(ok=True, data="done", summary="done")


class SchemaTool(FunctionTool):
    """A tool with a schema of its own, as that of a server may have."""

    def __init__(self, name: str, schema: JsonObject) -> None:
        super().__init__(test_simple_text, _meta(name))
        self.spec = ToolSpec(name=name, description="Tests a schema.", parameters=schema)

    def check(self, args: JsonObject) -> JsonObject:
        return args

    async def run(self, plan: Plan, context: ToolContext) -> ToolResult:
        return ToolResult(ok=True, data=plan.args, summary="echo")


def _schema(**properties: Json) -> JsonObject:
    return {"type": "object", "properties": properties}


JSON_SCHEMA: JsonObject = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
HEADERS = _schema(
    region={"type": "string", "x-mcp-header": "Region"},
    query={"type": "string"},
)


def tools() -> tuple[Any, ...]:
    return (
        FunctionTool(test_simple_text, _meta("test_simple_text")),
        FunctionTool(test_image_content, _meta("test_image_content")),
        FunctionTool(test_error_handling, _meta("test_error_handling")),
        FunctionTool(test_tool_with_progress, _meta("test_tool_with_progress")),
        SchemaTool("json_schema_2020_12_tool", JSON_SCHEMA),
        SchemaTool("test_x_mcp_header", HEADERS),
        *sessions.TOOLS,
    )


def main() -> None:
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr("ozzie_server_ext.tasks.projects.builtin_tools", tools)
        gateway.main()


if __name__ == "__main__":
    main()
