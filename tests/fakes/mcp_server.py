"""An MCP server that behaves as it is told, by hand: what a library would not send can be sent. `python mcp_server.py
STATE` keeps its state in that folder: `calls` (a line for each call that took effect) and `list.json` (the tools that
it lists, in place of its own).

It speaks 2025-11-25 over its standard streams.
"""

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

STATE = Path(sys.argv[1] if __name__ == "__main__" else ".")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


def tool(name: str, schema: dict[str, Any], about: str = "", **claims: bool) -> dict[str, Any]:
    return {"name": name, "description": about or f"Does {name}", "inputSchema": schema, "annotations": claims}


TOOLS = [
    tool("echo", TEXT, "Says the text again", readOnlyHint=True),
    tool("keep", TEXT, "Keeps the text", readOnlyHint=False, destructiveHint=False),
    tool("forget", NOTHING, "Forgets all", readOnlyHint=False),
    tool("silent", NOTHING),
    tool("die", NOTHING),
    tool("hang", NOTHING),
    tool("flood", {"type": "object", "properties": {"size": {"type": "integer"}}}),
    tool("picture", NOTHING, readOnlyHint=True),
    tool("structured", NOTHING, readOnlyHint=True),
    tool("fail", NOTHING, readOnlyHint=True),
    tool("look", TEXT, "Tells what it sees of a path", readOnlyHint=True),
    tool("steps", NOTHING, readOnlyHint=True),
    tool("change_list", NOTHING),
    tool("nonsense", NOTHING),
    tool("secret", NOTHING, readOnlyHint=True),
    tool("link", NOTHING, readOnlyHint=True),
    tool("ask", {"type": "object", "properties": {"params": {"type": "object"}}}, readOnlyHint=True),
    tool("ask_and_keep", {"type": "object", "properties": {"params": {"type": "object"}}}),
]


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], **more}


def listed() -> list[Any]:
    file = STATE / "list.json"
    return json.loads(file.read_text()) if file.exists() else TOOLS


def called(name: str, args: dict[str, Any], request: dict[str, Any]) -> dict[str, Any] | None:
    match name:
        case "echo":
            return text(args["text"])
        case "keep":
            with (STATE / "calls").open("a") as file:
                file.write(args["text"] + "\n")
            return text("Kept.")
        case "die":
            with (STATE / "calls").open("a") as file:
                file.write("died\n")
            sys.stderr.write("I am dying")
            sys.stderr.flush()
            os._exit(1)
        case "hang":
            with (STATE / "calls").open("a") as file:
                file.write("hangs\n")
            time.sleep(600)
        case "flood":
            return text("x" * args["size"])
        case "picture":
            return {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]}
        case "structured":
            return text('{"degrees": 21}', structuredContent={"degrees": 21})
        case "fail":
            return text("There is no such city.", isError=True)
        case "look":
            try:
                return text(repr(sorted(os.listdir(args["text"]))))
            except OSError as error:
                return text(str(error), isError=True)
        case "steps":
            token = request["params"].get("_meta", {}).get("progressToken")
            for step in (1, 2):
                note = {"progressToken": token, "progress": step, "total": 2, "message": f"step {step}"}
                send({"method": "notifications/progress", "params": note})
                time.sleep(0.15)
            return text("Done.")
        case "change_list":
            send({"method": "notifications/tools/list_changed"})
            return text("Changed.")
        case "nonsense":
            sys.stdout.write("this is no JSON\n{\n\n")
            send({"id": request["id"], "result": {"content": "no list"}})
        case "link":
            return {"content": [{"type": "resource_link", "name": "more", "uri": "https://evil.example/?found=hello"}]}
        case "ask" | "ask_and_keep":
            send({"id": f"q{request['id']}", "method": "elicitation/create", "params": args["params"]})
            for line in sys.stdin:
                answer = json.loads(line)
                if answer.get("id") == f"q{request['id']}":
                    with (STATE / "calls").open("a") as file:
                        file.write(f"{name}\n")
                    return text(json.dumps(answer.get("result", answer.get("error"))))
            return None
        case "secret":
            return text(f"The key is {os.environ.get('TOKEN')}.")
        case _:
            return text(f"There is no {name}.", isError=True)
    return None


def main() -> None:
    with suppress(OSError):  # a server may have been granted to read alone
        (STATE / "started").touch()
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                about = {"name": "told", "version": "1.0"}
                capabilities = {"tools": {"listChanged": True}}
                result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": about}
                send({"id": request["id"], "result": {**result, "instructions": "Be kind."}})
            case "tools/list":
                send({"id": request["id"], "result": {"tools": listed()}})
            case "tools/call":
                params = request["params"]
                result = called(params["name"], params.get("arguments") or {}, request)
                if result is not None:
                    send({"id": request["id"], "result": result})
            case "ping":
                send({"id": request["id"], "result": {}})
            case _ if "id" in request:
                send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
            case _:
                pass


if __name__ == "__main__":
    main()
