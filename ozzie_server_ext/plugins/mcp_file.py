"""`mcp.json`: the MCP servers that somebody has listed for Claude Desktop, Claude Code, Cursor or VS Code, and where
such lists are: the user's own, and those of a project (docs/plugins.md, Lists of other programs).

These files are written by and for other programs: keys that Ozzie does not know are passed over, and named.
Placeholders are brought to one form: `${NAME}` or `${NAME:-default}` for a variable of the environment, `${input:ID}`
for what VS Code asks, `${folder:project}` and `${folder:home}`.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from ozzie_server_ext.config.files import is_one_of
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import (
    ConfigError,
    JsoncError,
    KeyPath,
    SourceLocation,
    content_if_there,
    parse_object,
)
from ozzie_server_ext.config.validation import line_of, validate
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.redaction import redact
from ozzie_server_ext.plugins.manifest import McpText

MAX_SERVERS = 100
SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._/@-]{0,63}")
_TRANSPORTS: Mapping[str, str] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
_KNOWN = frozenset({"type", "transport", "command", "args", "env", "url", "headers"})
_VARIABLE = re.compile(r"\$\{env:(?P<cursor>[A-Za-z_]\w*)\}|\$\{\{\s*\.Env\.(?P<own>[A-Za-z_]\w*)\s*\}\}")
_PLACEHOLDER = re.compile(
    r"\$\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]{0,2000}))?\}|\$\{input:(?P<input>[^}]{1,64})\}"
)
_FOLDERS: Mapping[str, str] = {"${workspaceFolder}": "${folder:project}", "${userHome}": "${folder:home}"}
"""What an editor fills in, and how it is kept: no variable is called so."""
_OF_EDITORS = frozenset({"workspaceFolderBasename", "pathSeparator", "file", "fileBasename", "lineNumber"})
"""Names that an editor fills in, and Ozzie does not."""
_NAMING = re.compile(r"(?P<name>-{0,2}[\w-]{1,64})\s*[=:]\s*(?P<value>.+)", re.DOTALL)
"""An argument that says what it is: `--token=…`, `Authorization: …`."""


class Key(msgspec.Struct, frozen=True):
    """A value that looks like a key and stands in the file itself: it belongs into the vault."""

    part: Literal["command", "args", "env", "headers", "url"]
    name: str


class ListedServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server as a file lists it. `variables` and `inputs` are what its values need, `keys` what should not stand in
    the file, `passed_over` the names of what another program means by it."""

    name: str
    how: McpText
    place: SourceLocation
    variables: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    keys: tuple[Key, ...] = ()
    passed_over: tuple[str, ...] = ()


def read_mcp_file(content: bytes, file: Path) -> tuple[ListedServer, ...]:
    """Read the servers of a file, in its order. Raises ConfigError or JsoncError with the place of each problem."""
    document = parse_object(content, file)
    tree: Any = document.value
    form = "servers" if "mcpServers" not in tree else "mcpServers"
    servers = tree.get(form)
    if not isinstance(servers, dict):
        raise ConfigError(
            f"{document.places[()]}: lists no servers.",
            hint='Claude Desktop and Cursor write them below "mcpServers", VS Code below "servers".',
        )
    if len(servers) > MAX_SERVERS:
        raise ConfigError(f"{document.places[form,]}: lists {len(servers):,} servers; at most {MAX_SERVERS} are read.")
    places: dict[str, dict[KeyPath, SourceLocation]] = {name: {} for name in servers}
    for path, place in document.places.items():
        if len(path) > 1 and path[0] == form:
            places[str(path[1])][path] = place
    return tuple(_listed(form, name, given, places[name]) for name, given in servers.items())


def _listed(form: str, name: str, given: Any, places: Mapping[KeyPath, SourceLocation]) -> ListedServer:
    path: KeyPath = (form, name)
    if SERVER_NAME.fullmatch(name) is None:
        raise ConfigError(
            f"{places[path]}: a server's name may hold letters, digits, blanks and ._/@- only, at most 64.",
            hint="Correct the file there and try again.",
        )
    if not isinstance(given, dict):
        raise ConfigError(f"{line_of(path, places)} must be an object in braces.")
    tree = {key: _plain(value) for key, value in given.items() if key in _KNOWN}
    tree["transport"] = _transport(tree, path, places)
    tree.pop("type", None)
    below = {(): places[path], ("transport",): places[path]}
    below |= {at[2:]: place for at, place in places.items() if len(at) > 2}
    how = validate(McpText, tree, below)
    texts = [*how.args, *how.env.values(), *how.headers.values(), how.url or "", how.command or ""]
    found = [match for text in texts for match in _PLACEHOLDER.finditer(text)]
    needed = [match["name"] for match in found if match["name"] and match["default"] is None]
    return ListedServer(
        name=name,
        how=how,
        place=places[path],
        variables=tuple(dict.fromkeys(each for each in needed if each not in _OF_EDITORS)),
        inputs=tuple(dict.fromkeys(match["input"] for match in found if match["input"])),
        keys=tuple(keys_in(how)),
        passed_over=tuple(key for key in given if key not in _KNOWN),
    )


def _transport(tree: Mapping[str, Any], path: KeyPath, places: Mapping[KeyPath, SourceLocation]) -> str:
    said = tree.get("type", tree.get("transport"))
    if said is None:
        return "http" if "url" in tree else "stdio"
    if not isinstance(said, str) or said not in _TRANSPORTS:
        key = "type" if "type" in tree else "transport"
        known = ", ".join(dict.fromkeys(_TRANSPORTS))
        raise ConfigError(f"{line_of((*path, key), places)} must be one of {known}.")
    return _TRANSPORTS[said]


def _plain(value: Any) -> Any:
    """Bring the placeholders of a value to one form."""
    match value:
        case str():
            for theirs, ours in _FOLDERS.items():
                value = value.replace(theirs, ours)
            return _VARIABLE.sub(lambda found: f"${{{found['cursor'] or found['own']}}}", value)
        case list():
            return [_plain(each) for each in value]
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case _:
            return value


def keys_in(how: McpText) -> Iterator[Key]:
    """Yield what looks like a key and is no placeholder."""
    if how.command is not None and redact(how.command) != how.command:
        yield Key("command", "")
    yield from (Key("env", name) for name, value in how.env.items() if _is_key(name, value))
    yield from (Key("headers", name) for name, value in how.headers.items() if _is_key(name, value))
    for at, value in enumerate(how.args):
        before = how.args[at - 1].lstrip("-") if at and how.args[at - 1].startswith("-") else "argument"
        named = _NAMING.fullmatch(value)
        if _is_key(before, value) or (named is not None and _is_key(named["name"].lstrip("-"), named["value"])):
            yield Key("args", str(at))
    if how.url and redact(how.url) != how.url:
        yield Key("url", "")


def _is_key(name: str, value: str) -> bool:
    rest = _PLACEHOLDER.sub(lambda found: found["default"] or "", value)
    return bool(rest) and redact({name: rest}) != {name: rest}


OF_PROJECT = (".ozzie/mcp.json", ".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json")
"""Ozzie's own, Claude Code's, Cursor's and VS Code's."""


class McpList(msgspec.Struct, frozen=True, kw_only=True):
    """A file with servers. `is_own`: it is the user's, not a project's, which anybody may have written; `problem`: why
    it can't be read, in words and without what stands there, or empty."""

    path: Path
    is_own: bool
    servers: tuple[ListedServer, ...] = ()
    problem: str = ""


def mcp_lists(home: Home, project: Path) -> tuple[McpList, ...]:
    """Return the lists that are there, the user's own first."""
    theirs = [project / name for name in OF_PROJECT]
    found = [_list_at(home.mcp_file, is_own=True)]
    found += [_list_at(path, is_own=False) for path in theirs if not is_one_of(path, [home.mcp_file])]
    return tuple(each for each in found if each is not None)


def _list_at(path: Path, *, is_own: bool) -> McpList | None:
    try:
        content = content_if_there(path)
        if content is None:
            return None
        return McpList(path=path, is_own=is_own, servers=read_mcp_file(content, path))
    except JsoncError as error:  # its words repeat what stands there, which may be a key without its quotes
        return McpList(path=path, is_own=is_own, problem=f"{error.place}: this is no JSON with comments.")
    except InputError as error:
        return McpList(path=path, is_own=is_own, problem=str(error))
