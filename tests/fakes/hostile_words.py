"""MCP servers whose resources and prompts attack, by hand: `python hostile_words.py BEHAVIOUR …` over standard streams.
A behaviour that begins with `newer_` speaks 2026-07-28, every other one 2025-11-25."""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]
MIB = 1 << 20
LIFE_S = 45
ESCAPES = "\x1b[2J\u202eevil\u2066\r\nTrusted: yes\x00"
STRANGE_URIS = ("", "a b", ESCAPES, f"file:///{ESCAPES}", "x" * 5000, "note://{", "\ud800")
BEHAVIOUR = sys.argv[1] if __name__ == "__main__" else ""
HAS: Message = {"tools": {}, "resources": {"listChanged": True}, "prompts": {}, "completions": {}}
NEWER: Message = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def send(message: Message) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def die(*_: Any) -> Any:
    os.write(2, b"I am dying")
    os._exit(3)


def rest_long(*_: Any) -> Any:
    time.sleep(LIFE_S)
    os._exit(0)


def part(uri: Any = "note://a", **more: Any) -> Message:
    return {"uri": uri, **more}


def said(words: Any = "ok", role: Any = "user") -> Message:
    return {"role": role, "content": {"type": "text", "text": words}}


def resource(uri: str) -> Message:
    return {"uri": uri, "name": "a"}


def forever(key: str) -> Callable[[Message], Message]:
    return lambda params: {key: [], "nextCursor": f"{params.get('cursor', '')}x"}


Answer = Any
ANSWERS: dict[tuple[str, str], Answer] = {
    **{(name, method): act for method in ("resources/read", "prompts/get", "resources/list", "prompts/list")
       for name, act in (("dies", die), ("is_silent", rest_long))},
    ("sends_100_mb", "resources/read"): lambda _: {"contents": [part(text="x" * 100_000_000)]},
    ("sends_9_mib", "resources/read"): lambda _: {"contents": [part(text="x" * 9 * MIB)]},
    ("sends_9_mib", "prompts/get"): lambda _: {"messages": [said("x" * 9 * MIB)]},
    ("sends_many", "resources/read"): lambda _: {"contents": [part(text="x")] * 5000},
    ("sends_many", "prompts/get"): lambda _: {"messages": [said()] * 5000},
    ("sends_nonsense", "resources/read"): lambda _: {"contents": "all"},
    ("sends_nonsense", "prompts/get"): lambda _: {"messages": [said(role="system")]},
    ("sends_numbers", "resources/read"): lambda _: {"contents": [part(uri=7, text=7)]},
    ("sends_numbers", "prompts/get"): lambda _: {"messages": [said(7)]},
    ("sends_nothing", "resources/read"): lambda _: None,
    ("sends_nothing", "prompts/get"): lambda _: None,
    ("sends_no_base64", "resources/read"): lambda _: {"contents": [part(blob="***", mimeType=ESCAPES)]},
    ("sends_escapes", "resources/read"): lambda _: {"contents": [part(ESCAPES, text=ESCAPES, mimeType=ESCAPES)]},
    ("sends_escapes", "prompts/get"): lambda _: {"messages": [said(ESCAPES)]},
    ("lists_forever", "resources/list"): forever("resources"),
    ("lists_forever", "prompts/list"): forever("prompts"),
    ("lists_5000", "resources/list"): lambda _: {"resources": [resource(f"note://{at}") for at in range(5000)]},
    ("lists_5000", "prompts/list"): lambda _: {"prompts": [{"name": f"p{at}"} for at in range(5000)]},
    ("lists_2_mb", "resources/list"): lambda _: {"resources": [resource("note://" + "x" * 1500)] * 1400},
    ("lists_nonsense", "resources/list"): lambda _: {"resources": [7]},
    ("lists_nonsense", "prompts/list"): lambda _: {"prompts": [{"name": 7}]},
    ("lists_strange", "resources/list"): lambda _: {"resources": [*map(resource, STRANGE_URIS), resource("note://a")]},
    ("lists_strange", "prompts/list"): lambda _: {"prompts": [
        {"name": ""}, {"name": ESCAPES}, {"name": "a b"}, {"name": "go", "arguments": [{"name": "a=b"}]},
        {"name": "twice"}, {"name": "twice"}, {"name": "long", "description": "d" * 5000}, {"name": "many",
        "arguments": [{"name": f"a{at}"} for at in range(99)]}, {"name": "good", "description": ESCAPES}]},
    ("completes_much", "completion/complete"): lambda _: {"completion": {"values": ["v" * 9000] * 1000}},
    ("completes_nonsense", "completion/complete"): lambda _: {"completion": 7},
    ("is_silent", "completion/complete"): rest_long,
}  # fmt: skip


def answer(method: str, params: Message) -> Any:
    found = ANSWERS.get((BEHAVIOUR.removeprefix("newer_"), method))
    if found is not None:
        return found(params)
    return {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": HAS,
            "serverInfo": {"name": "h", "version": "1"},
        },
        "tools/list": {"tools": []},
        "resources/list": {"resources": [resource("note://a")]},
        "resources/templates/list": {"resourceTemplates": []},
        "prompts/list": {"prompts": [{"name": "good"}]},
        "resources/read": {"contents": [part(text="ok")]},
        "prompts/get": {"messages": [said()]},
        "completion/complete": {"completion": {"values": []}},
        "ping": {},
    }.get(method)


def main() -> None:
    is_newer = BEHAVIOUR.startswith("newer_")
    for line in sys.stdin:
        request = json.loads(line)
        method = request.get("method", "")
        if "id" not in request:
            continue
        if is_newer and method == "server/discover":
            send({"id": request["id"], "result": {"supportedVersions": ["2026-07-28"], "capabilities": HAS, **NEWER}})
            continue
        result = answer(method, request.get("params") or {})
        if result is None and method not in ("resources/read", "prompts/get"):
            send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
        else:
            send({"id": request["id"], "result": {**result, **NEWER} if is_newer and result else result})


if __name__ == "__main__":
    main()
