"""An MCP server that behaves as it is told, by hand: what a library would not send can be sent. `python mcp_server.py
STATE` keeps its state in that folder: `calls` (a line for each call that took effect), `list.json` (the tools that it
lists, in place of its own) and `words.json` (with which it has resources and prompts: `{}` for those below, or
`prompts` in place of its own).

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


RESOURCES = [
    {"uri": "note://milk", "name": "milk", "title": "The milk", "mimeType": "text/markdown", "size": 11},
    {"uri": "note://pixel", "name": "pixel", "mimeType": "image/png"},
]
TEMPLATES = [{"uriTemplate": "note://day/{day}/at/{hour}", "name": "a day", "mimeType": "text/plain"}]
PROMPTS = [
    {
        "name": "week",
        "description": "Sums up a week",
        "arguments": [
            {"name": "topic", "description": "What it is about", "required": True},
            {"name": "style", "description": "How it is said"},
        ],
    },
    {"name": "plain", "title": "A plain one"},
]


def words() -> dict[str, Any] | None:
    file = STATE / "words.json"
    return json.loads(file.read_text()) if file.exists() else None


def read(uri: str, request: dict[str, Any]) -> dict[str, Any] | None:
    match uri:
        case "note://milk":
            return {"contents": [{"uri": uri, "mimeType": "text/markdown", "text": "milk, eggs\n"}]}
        case "note://pixel":
            return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": PIXEL}]}
        case "note://other":
            return {"contents": [{"uri": "note://elsewhere", "text": "something else"}]}
        case "note://two":
            parts = [{"uri": f"note://two/{at}", "mimeType": "text/plain", "text": f"part {at}"} for at in (1, 2)]
            return {"contents": parts}
        case "note://key":
            return {"contents": [{"uri": uri, "text": f"The key is {os.environ.get('TOKEN')}."}]}
        case "note://die":
            return called("die", {}, request)
        case "note://hang":
            return called("hang", {}, request)
        case "note://later" if (STATE / "later").exists():
            return {"contents": [{"uri": uri, "text": "now"}]}
        case "note://long":
            return {"contents": [{"uri": uri, "text": "a line of it\n" * 5000}]}
        case _ if uri.startswith("note://day/"):
            return {"contents": [{"uri": uri, "text": f"You asked for {uri}."}]}
        case _:
            send({"id": request["id"], "error": {"code": -32002, "message": f"There is no {uri}"}})
            return None


def prompt(name: str, args: dict[str, Any], request: dict[str, Any]) -> dict[str, Any] | None:
    with (STATE / "calls").open("a") as file:
        file.write(f"prompt {name} {json.dumps(args)}\n")
    match name:
        case "week":
            said = f"Sum up the week about {args['topic']}, {args.get('style', 'plainly')}."
            embedded = {"type": "resource", "resource": {"uri": "note://milk", "text": "milk, eggs\n"}}
            return {
                "messages": [
                    {"role": "user", "content": {"type": "text", "text": said}},
                    {"role": "user", "content": embedded},
                    {"role": "assistant", "content": {"type": "text", "text": "I begin with Monday."}},
                ]
            }
        case _:
            return {"messages": [{"role": "user", "content": {"type": "text", "text": "Say something plain."}}]}


def completed(params: dict[str, Any]) -> dict[str, Any]:
    argument, known = params["argument"], params.get("context", {}).get("arguments", {})
    values = {"topic": ["milk", "mail"], "style": [f"as {known.get('topic')}", "short"], "day": ["monday"]}
    found = [each for each in values.get(argument["name"], []) if each.startswith(argument["value"])]
    return {"completion": {"values": found}}


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
                capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
                if words() is not None:
                    capabilities |= {"resources": {}, "prompts": {}, "completions": {}}
                result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": about}
                send({"id": request["id"], "result": {**result, "instructions": "Be kind."}})
            case "tools/list":
                send({"id": request["id"], "result": {"tools": listed()}})
            case "tools/call":
                params = request["params"]
                result = called(params["name"], params.get("arguments") or {}, request)
                if result is not None:
                    send({"id": request["id"], "result": result})
            case "resources/list":
                send({"id": request["id"], "result": {"resources": RESOURCES}})
            case "resources/templates/list":
                send({"id": request["id"], "result": {"resourceTemplates": TEMPLATES}})
            case "prompts/list":
                send({"id": request["id"], "result": {"prompts": (words() or {}).get("prompts", PROMPTS)}})
            case "resources/read" | "prompts/get" as method:
                params = request["params"]
                found = (
                    read(params["uri"], request)
                    if method == "resources/read"
                    else prompt(params["name"], params.get("arguments") or {}, request)
                )
                if found is not None:
                    send({"id": request["id"], "result": found})
            case "completion/complete":
                send({"id": request["id"], "result": completed(request["params"])})
            case "ping":
                send({"id": request["id"], "result": {}})
            case _ if "id" in request:
                send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
            case _:
                pass


if __name__ == "__main__":
    main()
