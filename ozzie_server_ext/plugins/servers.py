"""The MCP servers that count in a project, and what a person has settled for each: that it may be used in this form,
what it sees of this machine, and what each of its tools does (docs/plugins.md, Servers of tools).

A server is listed in an `mcp.json` (`mcp_file`). It is inert until a person trusts it; that is recorded in
`servers.json` of Ozzie's folder, for the listed form and for the tools as they were seen. Whatever differs later stops.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from ozzie_server_ext.config.files import locked, replace_file
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import ConfigError, content_if_there, parse_object
from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.toolmeta import TargetKind
from ozzie_server_ext.plugins.effects import Effect
from ozzie_server_ext.plugins.manifest import McpText
from ozzie_server_ext.plugins.mcp_file import OF_PROJECT, ListedServer, McpList, mcp_lists, read_mcp_file
from ozzie_server_ext.plugins.tool_names import slug_of
from ozzie_server_ext.protocol.codec import InvalidShape, decode, encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.protocol.tool_host import Claims, ServerAccess, ServerPrompt, ServerResource, ServerTool
from ozzie_server_ext.render.text import quoted


def claimed(claims: Claims) -> Effect | None:
    """Return what a server claims that a tool does; None if it claims nothing. By the MCP, a tool that changes may be
    destructive unless it says that it is not."""
    if claims.read_only is None and claims.destructive is None:
        return None
    if claims.read_only:
        return Effect.READS
    return Effect.CHANGES if claims.destructive is False else Effect.DELETES


class SettledTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as a person saw it, and what they say that it does; None while nobody has said so. `targets` are the
    arguments that name what a call acts on."""

    seen: ServerTool
    effect: Effect | None = None
    targets: dict[str, TargetKind] = msgspec.field(default_factory=dict[str, TargetKind])


class SettledServer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person has settled for a server. `form` is the hash of how it is listed; `argv` its command, as it was
    found or installed then, empty for one at an address; `packages` the hash of what was installed for it, `files`
    those of single files that its command names; `secrets` the names that it may be given. `prompts` are those that
    they saw, which count like tools; `resources` the first that it listed then, and `more_resources` if there were
    others: nobody has to have seen a resource to read it."""

    form: str
    trusted_at: datetime
    name: str
    version: str
    instructions: str = ""
    argv: tuple[str, ...] = ()
    packages: str = ""
    files: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    access: ServerAccess = msgspec.field(default_factory=ServerAccess)
    secrets: tuple[str, ...] = ()
    tools: dict[str, SettledTool] = msgspec.field(default_factory=dict[str, SettledTool])
    prompts: dict[str, ServerPrompt] = msgspec.field(default_factory=dict[str, ServerPrompt])
    resources: tuple[ServerResource, ...] = ()
    more_resources: bool = False


State: TypeAlias = Literal["trusted", "new", "changed", "shadowed"]
"""`new`: nobody has trusted it. `changed`: it is listed in another form than the one that was trusted. `shadowed`:
another server, listed before it, has its name."""


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A listed server, with what was settled for it. `key` names it among all: an own one by its name, a project's also
    by its file."""

    key: str
    listed: ListedServer
    file: Path
    is_own: bool
    state: State
    settled: SettledServer | None = None

    @property
    def name(self) -> str:
        return self.listed.name

    @property
    def slug(self) -> str:
        return slug_of(self.listed.name)

    @property
    def used(self) -> "UsedServer | None":
        """The server as it is used; None for one that is not."""
        if self.state != "trusted" or self.settled is None:
            return None
        return UsedServer(name=self.name, is_remote=self.listed.how.url is not None, settled=self.settled)


class UsedServer(msgspec.Struct, frozen=True, kw_only=True):
    """A trusted server as its tools need it, and as it is recorded. `is_remote`: it is at an address."""

    name: str
    is_remote: bool
    settled: SettledServer

    @property
    def slug(self) -> str:
        return slug_of(self.name)


class Servers(msgspec.Struct, frozen=True):
    """All servers of a project, the user's own first, and why files could not be read."""

    servers: tuple[Server, ...]
    problems: tuple[str, ...] = ()

    def find(self, name: str) -> Server:
        """Return the server of this name that counts. Raises NotFound."""
        for server in self.servers:
            if server.name == name and server.state != "shadowed":
                return server
        names = ", ".join(quoted(each.name) for each in self.servers if each.state != "shadowed")
        raise NotFound(
            f"There is no MCP server {quoted(name)}.",
            hint=" ".join(self.problems)
            or (f"There are: {names}." if names else "Add one: ozzie mcp add NAME -- COMMAND"),
            code="mcp.unknown",
        )


def form_of(how: McpText) -> str:
    """Return the hash of how a server is listed."""
    return hashlib.sha256(canonical_bytes(how.model_dump(mode="json"))).hexdigest()


def servers_of(home: Home, project: Path) -> Servers:
    """Return the servers of a project. Raises ConfigError if what was settled can't be read."""
    settled = _settled(home)
    found: list[Server] = []
    problems: list[str] = []
    taken: set[str] = set()
    for each in mcp_lists(home, project):
        if each.problem:
            problems.append(each.problem)
        for server in _servers_in(each, settled):
            slug = server.slug
            found.append(msgspec.structs.replace(server, state="shadowed") if slug in taken else server)
            taken.add(slug)
    return Servers(tuple(found), tuple(problems))


def files_of(home: Home, project: Path) -> tuple[Path, ...]:
    """Return the files whose changes change the servers of a project."""
    return (home.mcp_file, home.servers_file, *(project / name for name in OF_PROJECT))


def _servers_in(found: McpList, settled: Mapping[str, SettledServer]) -> Iterator[Server]:
    for listed in found.servers:
        key = key_of(listed.name, None if found.is_own else found.path)
        known = settled.get(key)
        yield Server(
            key=key,
            listed=listed,
            file=found.path,
            is_own=found.is_own,
            state=_state(listed, known),
            settled=known,
        )


def _state(listed: ListedServer, known: SettledServer | None) -> State:
    if known is None:
        return "new"
    return "trusted" if known.form == form_of(listed.how) else "changed"


def key_of(name: str, file: Path | None) -> str:
    """Return the key of the user's own server of this name, or of one in a project's file. Links inside the project are
    not followed, as for `config.trust`."""
    if file is None:
        return name
    folder = file.absolute().parent
    root = folder.parent if folder.name.startswith(".") else folder
    return f"{root.resolve() / folder.relative_to(root) / file.name}#{name}"


# --- servers.json -----------------------------------------------------------------------------------------------------


def settle(home: Home, key: str, settled: SettledServer | None) -> None:
    """Record what was settled for a server; None forgets it. Raises ConfigError."""
    resettle(home, key, lambda _: settled)


def resettle(home: Home, key: str, change: Callable[[SettledServer | None], SettledServer | None]) -> None:
    """Record a change of what was settled for a server, holding off others meanwhile. Raises ConfigError, and what
    `change` raises."""
    home.create()
    with locked(home.servers_file):
        known = dict(_settled(home))
        settled = change(known.pop(key, None))
        if settled is not None:
            known[key] = settled
        document = {"servers": {each: encode(known[each]) for each in sorted(known)}}
        replace_file(home.servers_file, json.dumps(document, indent=1).encode())


def _settled(home: Home) -> Mapping[str, SettledServer]:
    """Read what was settled. A damaged file is not an empty one."""
    content = content_if_there(home.servers_file)
    if content is None:
        return {}
    try:
        return decode(_Document, json.loads(content)).servers
    except (ValueError, RecursionError, InvalidShape):
        raise ConfigError(
            f"{home.servers_file}: what was settled for MCP servers can't be read: the file is damaged.",
            hint="Restore a backup of it, or move it away and trust your servers again.",
        ) from None


class _Document(msgspec.Struct, frozen=True):
    servers: dict[str, SettledServer]


# --- mcp.json ---------------------------------------------------------------------------------------------------------


def write_own(home: Home, name: str, how: McpText | None) -> None:
    """List a server in the user's own `mcp.json`, or take it out. Comments are lost. Raises ConfigError if the file
    can't be read."""
    home.create()
    with locked(home.mcp_file):
        content = content_if_there(home.mcp_file)
        tree: Any = {} if content is None else parse_object(content, home.mcp_file).value
        form = "servers" if "servers" in tree and "mcpServers" not in tree else "mcpServers"
        known: Any = tree.get(form, {})
        if not isinstance(known, dict):
            raise ConfigError(f"{home.mcp_file}: {form} must be an object in braces.")
        listed: dict[str, Any] = {each: value for each, value in known.items() if each != name}
        if how is not None:
            listed[name] = _written(how)
        written = json.dumps({**tree, form: listed}, indent=2, ensure_ascii=False).encode() + b"\n"
        if how is not None:
            read_mcp_file(written, home.mcp_file)  # or none of its servers would be used
        replace_file(home.mcp_file, written)


def _written(how: McpText) -> dict[str, object]:
    """Return a server in the form that Claude and Cursor read as well."""
    if how.command is not None:
        return {"command": how.command, "args": [*how.args], **({"env": dict(how.env)} if how.env else {})}
    return {
        "type": "sse" if how.transport == "sse" else "http",
        "url": how.url,
        **({"headers": dict(how.headers)} if how.headers else {}),
    }


# --- what is told about a server --------------------------------------------------------------------------------------


def access_sentences(settled: SettledServer, *, is_remote: bool) -> tuple[str, ...]:
    """Return what a server may do, for the person who settles it: a sentence each, the gravest first. Of its program,
    what was installed for it is not worth one."""
    access = settled.access
    program = access.program[1:] if settled.packages else access.program
    found = [f"It is given the secret or variable {quoted(name)}." for name in settled.secrets]
    found += [f"It may read and change {quoted(path)}." for path in access.writes]
    found += [f"It may read {quoted(path)}." for path in access.reads]
    found += [f"It may read {quoted(path)}, where its program is." for path in program]
    for host in access.hosts:
        where = "any host of the internet" if host == "*" else quoted(host)
        found.append(f"It may send what it is given or may read to {where}.")
    if not is_remote:
        found.append("It has no other network." if access.hosts else "It has no network.")
    if not is_remote:
        found.append("It sees nothing else of this machine but the system's programs.")
    return tuple(found)
