"""Ozzie's tool host as the client that the MCP's conformance tests start: `python -m tests.conformance.client URL`.

Calls each tool that the server lists, as its schema wants it, once; the tests look at what was sent.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.plugins.tool_host import ServerFailed
from ozzie_server_ext.protocol.tool_host import Remote
from tests.mcp_rig import tool_host

WITHIN_S = 20


def arguments(schema: JsonObject) -> JsonObject:
    """Arguments that fit a schema of plain properties."""
    properties = schema.get("properties")
    return {name: _value(each) for name, each in properties.items()} if isinstance(properties, dict) else {}


def _value(schema: Json) -> Json:
    if not isinstance(schema, dict):
        return "x"
    if "default" in schema:
        return schema["default"]
    match schema.get("type"):
        case "number" | "integer":
            return 5
        case "boolean":
            return True
        case "array":
            return []
        case "object":
            return arguments(schema)
        case "null":
            return None
        case _:
            return "x"


async def main(url: str) -> None:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    calls = context.get("toolCalls")
    with tempfile.TemporaryDirectory() as folder:
        async with tool_host(Path(folder)) as host:
            connection = await host.open(Remote(url=url), within_s=WITHIN_S)
            chosen = [(tool.name, arguments(tool.schema)) for tool in connection.tools]
            if calls:
                chosen = [(call["name"], call["arguments"]) for call in calls]
            for name, args in chosen:
                if "schema" in args:  # it wants to see what came of another tool's schema
                    args["schema"] = next(tool.schema for tool in connection.tools if tool.name != name)
                try:
                    output = await connection.call(name, args, within_s=WITHIN_S)
                    sys.stdout.write(f"{name}: {output}\n")
                except ServerFailed as error:
                    sys.stdout.write(f"{name}: {error.code} {error}\n")
            connection.close()
            await asyncio.sleep(0.5)  # the harness looks at what comes last, such as the end of a session


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
