"""What a person is shown before they trust an MCP server: its program is installed, it is tried in its sandbox, and its
tools are looked at. Nothing counts until `servers.settle` records it."""

import os
import re
import shutil
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from ozzie_server_ext.agent.structured_output import check_schema, expect_bounded, without_metadata
from ozzie_server_ext.config.home import Home, key_folder
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.execution.server_box import is_of_system
from ozzie_server_ext.plugins.connections import CONNECT_S, Values, checked_reach, file_digest, names_in
from ozzie_server_ext.plugins.installing import Program, program_of
from ozzie_server_ext.plugins.manifest import McpText
from ozzie_server_ext.plugins.mcp_file import keys_in
from ozzie_server_ext.plugins.servers import (
    SettledServer,
    SettledTool,
    claimed,
    form_of,
)
from ozzie_server_ext.plugins.tool_host import Connection, OnRenew, ServerFailed, ToolHost
from ozzie_server_ext.plugins.tool_names import slug_of
from ozzie_server_ext.protocol.tool_host import (
    Connected,
    PromptList,
    Remote,
    ResourceList,
    ServerAccess,
    ServerPrompt,
    ServerTool,
)
from ozzie_server_ext.render.text import quoted, visible_label

MAX_DESCRIPTION = 4000
"""Characters of a tool's description, and of all words in its schema: a person reads them before models do."""
_PROJECT = "${folder:project}"
MAX_RECORDED = 200
"""Of a server's resources: an overview. Which it has now, it says itself."""
_LIST_S = 20.0
_MAX_ARGUMENTS = 50
_ARGUMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}")


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What would be recorded if a person says yes. `package` is what was installed, with its version; `unusable` says
    why tools are left out; `installed` is the folder of a package that was installed for this."""

    settled: SettledServer
    package: str = ""
    unusable: tuple[str, ...] = ()
    installed: Path | None = None

    def discard(self) -> None:
        """Remove what was installed for it."""
        if self.installed is not None:
            shutil.rmtree(self.installed, ignore_errors=True)


async def proposed(
    home: Home,
    host: ToolHost,
    name: str,
    how: McpText,
    start: McpText,
    access: ServerAccess,
    before: SettledServer | None,
    values_for: Callable[[SettledServer], Values],
    *,
    signed: Callable[[Remote], Awaitable[tuple[Remote, OnRenew | None]]] | None = None,
    now: datetime,
    private: Iterable[Path] = (),
    note: Callable[[str], None] = lambda line: None,
) -> Proposal:
    """Install and try a server. `how` is its listing, `start` the same with whole paths; `before` is what was settled
    for it earlier; `signed` adds the token of a sign-in. Raises OzzieError; then nothing is left behind."""
    expect_apart(home, (*access.reads, *access.writes), private)
    program, installed = _program(home, name, start, before, note)
    try:
        if not program.digest:
            expect_apart(home, program.folders, private)
        settled = SettledServer(
            form=form_of(how),
            trusted_at=now,
            name="",
            version="",
            argv=program.argv,
            packages=program.digest,
            access=msgspec.structs.replace(access, program=program.folders),
            secrets=names_in(how),
            files={path: file_digest(path) for path in _files_of(start, program)},
        )
        reach, renew = checked_reach(how, settled, values_for(settled)), None
        if isinstance(reach, Remote) and signed is not None:
            reach, renew = await signed(reach)
        connection = await host.open(reach, within_s=CONNECT_S, renew=renew)
        info = connection.info
        try:
            words = await words_of(connection)
        finally:
            connection.close()
        tools, unusable = _looked_at(info.tools)
        prompts, more_unusable = _looked_at_prompts(words.prompts)
        unusable += (*more_unusable, *words.problems)
        settled = msgspec.structs.replace(
            settled,
            name=info.name,
            version=info.version,
            instructions=info.instructions,
            tools=tools,
            prompts=prompts,
            resources=words.resources.resources[:MAX_RECORDED],
            more_resources=words.resources.has_more or len(words.resources.resources) > MAX_RECORDED,
        )
        return Proposal(settled=settled, package=program.package, unusable=unusable, installed=installed)
    except BaseException:
        if installed is not None:
            shutil.rmtree(installed, ignore_errors=True)
        raise


class ServerWords(msgspec.Struct, frozen=True, kw_only=True):
    """What a server has beside tools; `problems` say why lists are missing."""

    prompts: PromptList = msgspec.field(default_factory=PromptList)
    resources: ResourceList = msgspec.field(default_factory=ResourceList)
    problems: tuple[str, ...] = ()


async def words_of(connection: Connection) -> ServerWords:
    """Return the prompts and resources that a connected server lists. One that can't list them may still have good
    tools."""
    prompts, resources = PromptList(), ResourceList()
    problems: list[str] = []
    try:
        if "prompts" in connection.info.offers:
            prompts = await connection.prompts(within_s=_LIST_S)
    except ServerFailed as error:
        problems.append(f"Its prompts can't be listed. {error}")
    try:
        if "resources" in connection.info.offers:
            resources = await connection.resources(within_s=_LIST_S)
    except ServerFailed as error:
        problems.append(f"Its resources can't be listed. {error}")
    return ServerWords(prompts=prompts, resources=resources, problems=tuple(problems))


def _looked_at_prompts(found: PromptList) -> tuple[dict[str, ServerPrompt], tuple[str, ...]]:
    """Return the prompts that can be used, and why others can't be."""
    used: dict[str, ServerPrompt] = {}
    unusable: list[str] = []
    for prompt in found.prompts:
        if why := _problem_of_prompt(prompt, used):
            unusable.append(why)
        else:
            used[prompt.name] = prompt
    if found.has_more:
        unusable.append(f"It has more prompts than the first {len(found.prompts):,}.")
    return used, tuple(unusable)


def _problem_of_prompt(prompt: ServerPrompt, used: Container[str]) -> str:
    """Return why a prompt can't be used, or ""."""
    if _TOOL_NAME.fullmatch(prompt.name) is None:
        return f"A prompt has the name {quoted(prompt.name)}, which no prompt may have."
    if prompt.name in used:
        return f"Two prompts have the name {quoted(prompt.name)}."
    names = [argument.name for argument in prompt.arguments]
    if wrong := next((name for name in names if _ARGUMENT.fullmatch(name) is None), None):
        return f"An argument of the prompt {quoted(prompt.name)} has the name {quoted(wrong)}, which none may have."
    if len(names) > _MAX_ARGUMENTS or len(set(names)) < len(names):
        return f"The prompt {quoted(prompt.name)} has more than {_MAX_ARGUMENTS} arguments, or two of the same name."
    if sum(map(len, (prompt.description, *(each.description for each in prompt.arguments)))) > MAX_DESCRIPTION:
        return f"{quoted(prompt.name)} has more than {MAX_DESCRIPTION:,} characters of words, which nobody would read."
    return ""


def _files_of(start: McpText, program: Program) -> list[str]:
    """Return the files that a command consists of, beside what was installed and what the system has."""
    named = [path for path in (*program.argv[:1], *start.args) if path.startswith("/") and os.path.isfile(path)]
    return [] if program.digest else [path for path in dict.fromkeys(named) if not path.startswith("/usr/")]


def _program(
    home: Home, name: str, start: McpText, before: SettledServer | None, note: Callable[[str], None]
) -> tuple[Program, Path | None]:
    """Return the program, and the folder of what was installed just now. `before` is what was settled for the same
    listing: what was installed for it is used again."""
    if start.command is None:
        return Program(argv=()), None
    if before is not None and before.packages:
        return Program(argv=before.argv, folders=before.access.program, digest=before.packages), None
    home.create()
    home.server_packages.mkdir(mode=0o700, exist_ok=True)
    folder = home.server_packages.resolve() / f"{slug_of(name)}-{time.time_ns():x}"
    folder.mkdir(mode=0o700)
    try:
        program = program_of(start, folder, note)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if program.digest:
        return program, folder
    folder.rmdir()
    return program, None


def with_earlier(settled: SettledServer, before: SettledServer | None) -> SettledServer:
    """Return it with what a person said earlier of tools of the same names."""
    known = before.tools if before else {}
    tools = {
        name: msgspec.structs.replace(known[name], seen=tool.seen) if name in known else tool
        for name, tool in settled.tools.items()
    }
    return msgspec.structs.replace(settled, tools=tools)


def _looked_at(tools: tuple[ServerTool, ...]) -> tuple[dict[str, SettledTool], tuple[str, ...]]:
    """Return the tools that can be used, and why others can't be."""
    found: dict[str, SettledTool] = {}
    unusable: list[str] = []
    for tool in tools:
        if why := _problem(tool, found):
            unusable.append(why)
            continue
        found[tool.name] = SettledTool(seen=tool)
    return found, tuple(unusable)


def _problem(tool: ServerTool, found: dict[str, SettledTool]) -> str:
    """Return why a tool can't be used, or ""."""
    if _TOOL_NAME.fullmatch(tool.name) is None:
        return f"A tool has the name {quoted(tool.name)}, which no tool may have."
    if tool.name in found:
        return f"Two tools have the name {quoted(tool.name)}."
    if len(tool.description) > MAX_DESCRIPTION or sum(map(len, words_in(tool.schema))) > MAX_DESCRIPTION:
        return f"{quoted(tool.name)} has more than {MAX_DESCRIPTION:,} characters of words, which nobody would read."
    try:
        schema = without_metadata(tool.schema)
        expect_bounded(schema)
        check_schema(schema)
    except InputError as error:
        return f"The arguments of {quoted(tool.name)} can't be used. {error}"
    return ""


def words_in(schema: Json) -> Iterator[str]:
    """Yield all texts in a schema, which a model reads: descriptions, defaults, choices, and names of arguments."""
    match schema:
        case str():
            yield schema
        case list():
            for each in schema:
                yield from words_in(each)
        case dict():
            for name, each in schema.items():
                yield name
                yield from words_in(each)
        case _:
            pass


def as_claimed(settled: SettledServer) -> SettledServer:
    """Return it with what the server claims of each tool that nobody has classified: a person says that this is so."""
    tools = {
        name: tool if tool.effect else msgspec.structs.replace(tool, effect=claimed(tool.seen.claims))
        for name, tool in settled.tools.items()
    }
    return msgspec.structs.replace(settled, tools=tools)


def differences(settled: SettledServer, info: Connected, prompts: PromptList) -> Iterator[str]:
    """Yield what a server says otherwise than it did when it was trusted. Resources may come and go."""
    now: dict[str, ServerTool] = {}
    for tool in info.tools:
        now.setdefault(tool.name, tool)  # as calls have it
    for name, known in settled.tools.items():
        if name not in now:
            yield f"It no longer has the tool {quoted(name)}."
        elif now[name] != known.seen:
            yield f"It describes {quoted(name)} in other words now: {visible_label(now[name].description)}"
    for name in sorted(now.keys() - settled.tools.keys()):
        if not _problem(now[name], {}):
            yield f"It has a new tool, {quoted(name)}: {visible_label(now[name].description)}"
    usable, _ = _looked_at_prompts(prompts)
    for name, known in settled.prompts.items():
        if name not in usable:
            yield f"It no longer has the prompt {quoted(name)}."
        elif usable[name] != known:
            words = visible_label(usable[name].description)
            yield f"It describes the prompt {quoted(name)} in other words now: {words}"
    for name in sorted(usable.keys() - settled.prompts.keys()):
        yield f"It has a new prompt, {quoted(name)}: {visible_label(usable[name].description)}"


# --- keys -------------------------------------------------------------------------------------------------------------

_KEY_NAME = re.compile(r"(?i)key|token|secret|passw|credential|authorization|cookie")
_PARTS = {"url": "address", "command": "command", "args": "arguments", "env": "variables", "headers": "headers"}
_SCHEME = re.compile(r"(?i)(?P<scheme>(?:bearer|basic|token|apikey) +)?(?P<key>.+)", re.DOTALL)
_OPTION = re.compile(r"(?P<option>--?[\w-]{1,64}=)?(?P<key>.+)", re.DOTALL)


def without_keys(how: McpText, name: str) -> tuple[McpText, dict[str, str]]:
    """Return a server's listing with placeholders for what looks like a key, or is called one, and these keys by the
    names of the secrets that they become. Raises InputError for a key in its address, its program, or a default."""
    slug = slug_of(name)
    keys: dict[str, str] = {}

    def kept(secret: str, key: str) -> str:
        plain = re.sub(r"\W", "_", secret).upper()
        name = plain = f"K{plain}" if plain[0].isdigit() else plain
        number = 2
        while keys.get(name, key) != key:
            name, number = f"{plain}_{number}", number + 1
        keys[name] = key
        return f"${{{name}}}"

    looks = {(each.part, each.name) for each in keys_in(how)}

    def is_key(part: str, name: str, value: str) -> bool:
        return "${" not in value and ((part, name) in looks or _KEY_NAME.search(name) is not None)

    env = {name: kept(name, value) if is_key("env", name, value) else value for name, value in how.env.items()}
    headers: dict[str, str] = {}
    for header, value in how.headers.items():
        headers[header] = value
        if is_key("headers", header, value) and (parts := _SCHEME.fullmatch(value)):
            headers[header] = (parts["scheme"] or "") + kept(f"{slug}_{header}", parts["key"])
    args = list(how.args)
    for at, value in enumerate(args):
        if ("args", str(at)) in looks and "${" not in value and (parts := _OPTION.fullmatch(value)):
            option = parts["option"] or (args[at - 1] if at and args[at - 1].startswith("-") else f"argument_{at + 1}")
            args[at] = (parts["option"] or "") + kept(f"{slug}_{option.strip('-=')}", parts["key"])
    found = how.model_copy(update={"env": env, "headers": headers, "args": tuple(args)})
    for left in keys_in(found):
        raise InputError(
            f"Something like a key stands in its {_PARTS[left.part]}.",
            hint="Store it with ozzie secrets set NAME, and write ${NAME} in its place.",
            code="mcp.key",
        )
    return found, keys


# --- what it may see --------------------------------------------------------------------------------------------------


def paths_made_whole(how: McpText, project: Path) -> tuple[McpText, ServerAccess]:
    """Return the server with whole paths in place of those of files and folders that its command and arguments name,
    and access to what its arguments name: it may change a folder, and read a file."""
    if how.command is None:
        return how, ServerAccess()
    command = how.command.replace(_PROJECT, str(project))
    if "/" in command:
        command = os.path.normpath(project / os.path.expanduser(command))
    args: list[str] = []
    reads: list[str] = []
    writes: list[str] = []
    for word in how.args:
        arg = word.replace(_PROJECT, str(project))
        path = _path(arg, project)
        args.append(arg if path is None else str(path))
        if path is not None:
            (writes if path.is_dir() else reads).append(str(path))
    access = ServerAccess(reads=tuple(dict.fromkeys(reads)), writes=tuple(dict.fromkeys(writes)))
    return how.model_copy(update={"command": command, "args": tuple(args)}), access


def _path(word: str, project: Path) -> Path | None:
    """Return the whole path if an argument names something that exists. A bare word may be the name of a folder."""
    if word.startswith("-") or "://" in word or "${" in word or len(word) > 4096:
        return None
    path = project / os.path.expanduser(word)
    is_path = "/" in word or word in (".", "..", "~")
    return path.resolve() if path.is_dir() or (is_path and path.exists()) else None


def joined(named: ServerAccess, said: ServerAccess) -> ServerAccess:
    """Return both; what a person says of a path counts more than that an argument names it."""
    writes = [*(path for path in named.writes if path not in said.reads), *said.writes]
    reads = [*(path for path in named.reads if path not in writes), *said.reads]
    return ServerAccess(reads=tuple(dict.fromkeys(reads)), writes=tuple(dict.fromkeys(writes)), hosts=said.hosts)


def expect_apart(home: Home, paths: Iterable[str], private: Iterable[Path] = ()) -> None:
    """Raise InputError if a server would see Ozzie's own files, with its rules, records and keys, or `private` folders,
    such as that of running Jupyter servers with their tokens."""
    private = tuple(private)
    for path in paths:
        if is_of_system(path):
            raise InputError(f"{visible_label(path)} is the system's own: no server may see it.", code="mcp.own_files")
        for own in (home.root.resolve(), key_folder().resolve(), *(each.resolve() for each in private)):
            if own.is_relative_to(path) or Path(path).is_relative_to(own):
                raise InputError(
                    f"{visible_label(path)} has Ozzie's own files in it, with its rules and keys.",
                    hint="Grant a folder without them.",
                    code="mcp.own_files",
                )
