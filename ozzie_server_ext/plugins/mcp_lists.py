"""The lists of MCP servers that there are: the user's own, and those that other programs keep in a project
(docs/plugins.md, Servers from another program)."""

from pathlib import Path

import msgspec

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import content_if_there
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.plugins.mcp_file import ListedServer, read_mcp_file

OF_PROJECT = (".ozzie/mcp.json", ".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json")
"""Ozzie's own, Claude Code's, Cursor's and VS Code's."""


class McpList(msgspec.Struct, frozen=True, kw_only=True):
    """A file with servers. `is_own`: it is the user's, not a project's, which anybody may have written; `problem`: why
    it can't be read, in words, or empty."""

    path: Path
    is_own: bool
    servers: tuple[ListedServer, ...] = ()
    problem: str = ""


def mcp_lists(home: Home, project: Path) -> tuple[McpList, ...]:
    """Return the lists that are there, the user's own first."""
    found = [_read(home.mcp_file, is_own=True), *(_read(project / name, is_own=False) for name in OF_PROJECT)]
    return tuple(each for each in found if each is not None)


def _read(path: Path, *, is_own: bool) -> McpList | None:
    try:
        content = content_if_there(path)
        if content is None:
            return None
        return McpList(path=path, is_own=is_own, servers=read_mcp_file(content, path))
    except InputError as error:
        return McpList(path=path, is_own=is_own, problem=str(error))
