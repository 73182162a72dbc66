"""`ozzie mcp`: the MCP servers that are listed, and where a key stands in the open. No gateway is needed.

What a server is started or asked with is not shown: it may be a key that looks like nothing, and the output may end in
a notebook. The file has it.
"""

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from ozzie_server_ext.cli.terminal import print_json
from ozzie_server_ext.config.home import find_home
from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.redaction import redact_text
from ozzie_server_ext.plugins.manifest import McpText
from ozzie_server_ext.plugins.mcp_file import OF_PROJECT, Key, ListedServer, McpList, mcp_lists
from ozzie_server_ext.plugins.servers import Server, servers_of
from ozzie_server_ext.policy.patterns import host_of
from ozzie_server_ext.render.text import LINE_WIDTH, counted, cut_end, quoted, visible_label, visible_prose, wrapped

_MOST_NAMES, _MOST_OF_NAME = 10, 40

States: TypeAlias = Mapping[tuple[Path, str], Server]
"""The servers by their file and name."""


def list_servers(options: argparse.Namespace) -> int:
    """Print all servers, by the file that lists them. Raises NotFound for a project that is not there."""
    project = Path(options.project or ".").resolve()
    if not project.is_dir():
        raise NotFound(f"There is no folder {visible_label(str(project))}.")
    home = find_home(os.environ)
    lists = mcp_lists(home, project)
    states = {(each.file, each.name): each for each in servers_of(home, project).servers}
    if options.json:
        print_json([_as_json(each, states) for each in lists])
        return 0
    for each in lists:
        print(*_lines(each, states), sep="\n")
    if not lists:
        print(f"No MCP servers are listed: neither in Ozzie's folder (mcp.json) nor here ({', '.join(OF_PROJECT)}).")
    return 0


def _lines(found: McpList, states: States) -> Iterator[str]:
    whose = "yours" if found.is_own else "of the project: anybody may have written it"
    yield f"{visible_label(str(found.path))}, {whose}"
    if found.problem:
        yield from (f"    {line}" for line in visible_prose(found.problem).splitlines())
    for server in found.servers:
        yield from _wrapped(f"  {visible_label(server.name)}: ", _reached(server.how))
        yield from _wrapped("    ", _state(states[found.path, server.name]))
        yield from _wrapped("    ", _needs(server))
        if server.keys:
            yield from _wrapped(
                "    ", f"Something like a key stands in this file: {', '.join(map(_place, server.keys))}."
            )
    if not found.servers and not found.problem:
        yield "  It lists none."


def _state(server: Server) -> str:
    """Return in words whether a server is used."""
    if server.state == "shadowed":
        return "Another server has its name, so it is not used."
    if server.settled is None or server.state == "new":
        return f"Not trusted, so it is not used: ozzie mcp trust {visible_label(server.name)}"
    if server.state == "changed":
        return f"Listed in another form than you trusted, so it is not used: ozzie mcp trust {server.name}"
    tools = server.settled.tools.values()
    usable = sum(tool.effect is not None for tool in tools)
    left = len(tools) - usable
    told = f"Trusted, {counted(usable, 'tool')} in use"
    return f"{told}, {left} not classified: ozzie mcp show {server.name}" if left else f"{told}."


def _reached(how: McpText) -> str:
    """Return how a server is reached, for people: its program, or the host of its address."""
    if how.command is None:
        host = _host(how)
        return f"at {quoted(host)}" if host else "at an address that can't be read"
    return f"{quoted(_program(how.command))}, {counted(len(how.args), 'argument')}"


def _program(command: str) -> str:
    """Return the name of a program, without its folders and without what stands behind it."""
    return redact_text((command.split() or [""])[0].rpartition("/")[2])


def _host(how: McpText) -> str:
    address = how.url or ""
    if address.startswith("$"):
        return redact_text(address.partition("}")[0].partition(":-")[0] + "}")
    return f"{urlsplit(address).scheme}://{host}" if (host := host_of(address)) is not None else ""


def _place(key: Key) -> str:
    name = visible_label(cut_end(redact_text(key.name), _MOST_OF_NAME))
    match key.part:
        case "env":
            return f"the variable {name}"
        case "headers":
            return f"the header {name}"
        case "args":
            return f"argument {int(key.name) + 1}"
        case "command":
            return "the command"
        case "url":
            return "the address"


def _needs(server: ListedServer) -> str:
    needs = [*(f"${name}" for name in server.variables), *(f"what VS Code asks as {each!r}" for each in server.inputs)]
    passed = f"Not Ozzie's: {', '.join(_few(server.passed_over))}." if server.passed_over else ""
    return visible_label(" ".join(filter(None, [f"Needs {', '.join(_few(needs))}." if needs else "", passed])))


def _few(names: list[str] | tuple[str, ...]) -> list[str]:
    shown = [cut_end(redact_text(name), _MOST_OF_NAME) for name in names[:_MOST_NAMES]]
    return shown + ([f"{len(names) - _MOST_NAMES:,} more"] if len(names) > _MOST_NAMES else [])


def _wrapped(lead: str, text: str) -> list[str]:
    """Return a paragraph behind `lead`; nothing if it is empty."""
    lines = wrapped(text, LINE_WIDTH - len(lead)) if text else []
    return [f"{lead if at == 0 else ' ' * len(lead)}{line}" for at, line in enumerate(lines)]


def _as_json(found: McpList, states: States) -> dict[str, Any]:
    return {
        "file": str(found.path),
        "own": found.is_own,
        "problem": found.problem,
        "servers": [
            {
                "name": server.name,
                "line": server.place.line,
                "state": states[found.path, server.name].state,
                "transport": server.how.transport,
                "program": None if server.how.command is None else _program(server.how.command),
                "arguments": len(server.how.args),
                "host": None if server.how.url is None else _host(server.how),
                "variables": _few(server.variables),
                "inputs": _few(server.inputs),
                "keys": [{"part": key.part, "name": redact_text(key.name)} for key in server.keys],
                "passed_over": _few(server.passed_over),
            }
            for server in found.servers
        ],
    }
