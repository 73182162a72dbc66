"""`ozzie mcp`: the MCP servers that are listed, and what stands in the open in these lists. No gateway is needed."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ozzie_server_ext.cli.terminal import print_json
from ozzie_server_ext.config.home import find_home
from ozzie_server_ext.plugins.mcp_file import Key, ListedServer
from ozzie_server_ext.plugins.mcp_lists import OF_PROJECT, McpList, mcp_lists
from ozzie_server_ext.render.text import LINE_WIDTH, quoted, visible_label, visible_prose, wrapped


def list_servers(options: argparse.Namespace) -> int:
    """Print all servers, by the file that lists them."""
    project = Path(options.project or ".").resolve()
    lists = mcp_lists(find_home(os.environ), project)
    if options.json:
        print_json([_as_json(each) for each in lists])
        return 0
    for each in lists:
        print(*_lines(each), sep="\n")
    if not lists:
        print(f"No MCP servers are listed: neither in Ozzie's folder (mcp.json) nor here ({', '.join(OF_PROJECT)}).")
    else:
        print("Ozzie only reads these lists so far: it starts no server.")
    return 0


def _reached(server: ListedServer) -> str:
    """Return how a server is reached, for people, without what looks like a key: the output may end in a notebook."""
    how, keys = server.how, {(key.part, key.name) for key in server.keys}
    if how.command is None:
        return "an address with a key in it" if ("url", "") in keys else quoted(how.url or "")
    args = ("…" if ("args", str(at)) in keys else quoted(arg) for at, arg in enumerate(how.args))
    return " ".join((quoted(how.command), *args))


def _lines(found: McpList) -> Iterator[str]:
    whose = "yours" if found.is_own else "of the project: anybody may have written it"
    yield f"{visible_label(str(found.path))}, {whose}"
    if found.problem:
        yield from (f"  {line}" for line in visible_prose(found.problem).splitlines())
    for server in found.servers:
        yield from _wrapped(f"  {visible_label(server.name)}: ", _reached(server))
        yield from _wrapped("    ", _needs(server))
        if server.keys:
            places = ", ".join(_place(key) for key in server.keys)
            said = (
                f"Something like a key stands in this file, {visible_label(places)}: ozzie secrets set NAME keeps one."
            )
            yield from _wrapped("    ", said)
    if not found.servers and not found.problem:
        yield "  It lists none."


def _place(key: Key) -> str:
    match key.part:
        case "env" | "headers":
            return f"as {key.name} of {key.part!r}"
        case "args":
            return f"as argument {int(key.name) + 1}"
        case "url":
            return "in its address"


def _needs(server: ListedServer) -> str:
    needs = [*(f"${name}" for name in server.variables), *(f"what VS Code asks as {each!r}" for each in server.inputs)]
    passed = f"Not Ozzie's: {', '.join(server.passed_over)}." if server.passed_over else ""
    return visible_label(" ".join(filter(None, [f"Needs {', '.join(needs)}." if needs else "", passed])))


def _wrapped(lead: str, text: str) -> list[str]:
    """Return a paragraph behind `lead`; nothing if it is empty."""
    lines = wrapped(text, LINE_WIDTH - len(lead)) if text else []
    return [f"{lead if at == 0 else ' ' * len(lead)}{line}" for at, line in enumerate(lines)]


def _as_json(found: McpList) -> dict[str, Any]:
    return {
        "file": str(found.path),
        "own": found.is_own,
        "problem": found.problem,
        "servers": [
            {
                "name": server.name,
                "line": server.place.line,
                "transport": server.how.transport,
                "command": server.how.command,
                "arguments": len(server.how.args),
                "url": None if any(key.part == "url" for key in server.keys) else server.how.url,
                "variables": list(server.variables),
                "inputs": list(server.inputs),
                "keys": [{"part": key.part, "name": key.name} for key in server.keys],
                "passed_over": list(server.passed_over),
            }
            for server in found.servers
        ],
    }
