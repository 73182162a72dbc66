"""`ozzie plugins`: check a plugin's manifest and code, and show what it asks for. No gateway is needed."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ozzie_server_ext.cli.terminal import print_result
from ozzie_server_ext.plugins.capabilities import sentences
from ozzie_server_ext.plugins.manifest import FoundPlugin, McpText, Parameter, find_plugin
from ozzie_server_ext.plugins.mcp_file import keys_in
from ozzie_server_ext.render.text import LINE_WIDTH, counted, quoted, visible_json, visible_label, wrapped


def check_plugin(options: argparse.Namespace) -> int:
    """Print what a plugin says of itself and what it asks for. Raises ConfigError, JsoncError."""
    found = find_plugin(Path(options.folder).absolute())
    lines = [*manifest_lines(found), f"A grant would be for: {found.digest}"]
    return print_result(manifest_json(found), *lines, as_json=options.json)


def manifest_json(found: FoundPlugin) -> dict[str, Any]:
    """Return what a plugin says of itself and asks for."""
    manifest = found.manifest
    return {
        **manifest.model_dump(mode="json", exclude={"capabilities", "tools", "wasm_path", "program", "mcp"}),
        "mcp": None if manifest.mcp is None else _without_keys(manifest.mcp),
        "file": str(found.file),
        "digest": found.digest,
        "asks_for": sorted(str(wish) for wish in manifest.wishes),
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.schema_of_arguments}
            for tool in manifest.tools
        ],
    }


def manifest_lines(found: FoundPlugin) -> Iterator[str]:
    """Yield what a plugin says of itself and asks for."""
    manifest = found.manifest
    yield f"{visible_label(manifest.name)} {visible_label(manifest.version)}, {_KINDS[manifest.provider]}"
    if manifest.description:
        yield from _indented(manifest.description)
    asks = [*_rights(found), *sentences(manifest.wishes)]
    yield "It asks for:" if asks else "It asks for nothing: it calculates with what it is given."
    for sentence in asks:
        yield from _indented(sentence)
    if manifest.tools:
        yield "It says that it has these tools:"
    for tool in manifest.tools:
        yield from _indented(f"{tool.name}({', '.join(tool.parameters)}): {tool.description}")
        for name, parameter in tool.parameters.items():
            yield from (f"  {line}" for each in _parameter(name, parameter) for line in _indented(each))
    if manifest.requires:
        yield f"It requires: {', '.join(map(visible_label, manifest.requires))}"


def _parameter(name: str, parameter: Parameter) -> Iterator[str]:
    """Yield what a model reads of a parameter beside its name."""
    words = [parameter.description]
    words += [f"one of {visible_json([*parameter.enum])}"] if parameter.enum else []
    words += [f"by default {visible_json(parameter.default)}"] if parameter.default is not None else []
    if any(words):
        yield f"- {name}: {'; '.join(filter(None, words))}"
    if parameter.items is not None:
        yield from _parameter(f"{name}[]", parameter.items)


def _of_program(found: FoundPlugin) -> Iterator[str]:
    """Yield what it means that a plugin is a program."""
    others = found.files - 1
    beside = f", with {counted(others, 'other file')}" if others else ""
    yield f"It is a program, {quoted(found.manifest.program_file)}{beside}, and not WebAssembly: the system runs it."
    yield (
        "Ozzie starts it for each call, in the sandbox of commands. It sees the system's programs, Ozzie's Python with "
        "its packages, and of your files and the network nothing but what is named here."
    )
    yield "A flaw in the system's kernel would let it out, and then it could do all that you can."


def _rights(found: FoundPlugin) -> Iterator[str]:
    """Yield what a plugin asks for by what it is."""
    manifest = found.manifest
    if manifest.provider == "native":
        yield from _of_program(found)
    if manifest.mcp is not None and manifest.mcp.command is not None:
        shown = _without_keys(manifest.mcp)
        command = " ".join(map(quoted, (shown["command"], *shown["args"])))
        given = f", with {', '.join(map(quoted, shown['env']))} in its environment" if shown["env"] else ""
        yield f"It is started as {command}{given}: outside of a sandbox, it could do all that you can."
    elif manifest.mcp is not None:
        shown = _without_keys(manifest.mcp)
        headers = f", with {', '.join(map(quoted, shown['headers']))}" if shown["headers"] else ""
        yield f"It is a server at {quoted(shown['url'])}{headers}: it gets what it is asked with."
    if manifest.healthcheck is not None and manifest.healthcheck.url is not None:
        yield f"Whether it works is asked at {quoted(manifest.healthcheck.url)}."


def _without_keys(how: McpText) -> dict[str, Any]:
    """Return how a server is reached, without what looks like a key: of variables and headers, the names alone."""
    keys = {(key.part, key.name) for key in keys_in(how)}
    return {
        "transport": how.transport,
        "command": _KEY if ("command", "") in keys else how.command,
        "args": [_KEY if ("args", str(at)) in keys else arg for at, arg in enumerate(how.args)],
        "env": [*how.env],
        "url": _KEY if ("url", "") in keys else how.url,
        "headers": [*how.headers],
    }


_KEY = "(something like a key)"
_KINDS = {"extism": "WebAssembly", "native": "a program, not WebAssembly", "mcp": "an MCP server"}


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in wrapped(visible_label(text), LINE_WIDTH - 2)]
