"""The lists of MCP servers that there are: the user's own, and those that other programs keep in a project
(docs/plugins.md, Servers from another program)."""

from pathlib import Path

import msgspec

from ozzie_server_ext.config.files import is_one_of
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import JsoncError, content_if_there
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.plugins.mcp_file import ListedServer, read_mcp_file

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
    found = [_read(home.mcp_file, is_own=True)]
    found += [_read(path, is_own=False) for path in theirs if not is_one_of(path, [home.mcp_file])]
    return tuple(each for each in found if each is not None)


def _read(path: Path, *, is_own: bool) -> McpList | None:
    try:
        content = content_if_there(path)
        if content is None:
            return None
        return McpList(path=path, is_own=is_own, servers=read_mcp_file(content, path))
    except JsoncError as error:  # its words repeat what stands there, which may be a key without its quotes
        return McpList(path=path, is_own=is_own, problem=f"{error.place}: this is no JSON with comments.")
    except InputError as error:
        return McpList(path=path, is_own=is_own, problem=str(error))
