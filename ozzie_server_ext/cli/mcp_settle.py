"""`ozzie mcp add`, `trust`, `test`, `show`, `classify`, `rm`: what a person settles about MCP servers.

No gateway is needed: a server is tried in a process of this command's own, and a running gateway reads what was settled
before its next turn.
"""

import argparse
import asyncio
import os
import re
import shlex
import shutil
import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from jupyter_core.paths import jupyter_runtime_dir

from ozzie_server_ext.cli.mcp_signing import Signing
from ozzie_server_ext.cli.parser import Misused
from ozzie_server_ext.cli.secrets import user_name
from ozzie_server_ext.cli.settling import (
    effects_in,
    expect_someone,
    indented,
    project_of,
    targets_in,
    vault_of,
    with_host,
)
from ozzie_server_ext.cli.terminal import agreed, print_notice, print_result
from ozzie_server_ext.config.home import Home, find_home
from ozzie_server_ext.config.jsonc import ConfigError, SourceLocation
from ozzie_server_ext.config.validation import validate
from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound, Unavailable
from ozzie_server_ext.domain.redaction import redact_text
from ozzie_server_ext.plugins.connections import (
    CONNECT_S,
    Values,
    checked_reach,
    granted_values,
    names_in,
    secret_owner,
)
from ozzie_server_ext.plugins.hosts import HostGrant
from ozzie_server_ext.plugins.manifest import McpText
from ozzie_server_ext.plugins.mcp_file import SERVER_NAME, mcp_lists
from ozzie_server_ext.plugins.servers import (
    Server,
    SettledServer,
    access_sentences,
    claimed,
    form_of,
    resettle,
    servers_of,
    settle,
    write_own,
)
from ozzie_server_ext.plugins.settling import (
    Proposal,
    ServerWords,
    as_claimed,
    differences,
    joined,
    paths_made_whole,
    proposed,
    with_earlier,
    without_keys,
    words_in,
    words_of,
)
from ozzie_server_ext.plugins.sign_ins import SignIns, is_signed_in, with_way
from ozzie_server_ext.plugins.tool_host import ServerFailed, ToolHost
from ozzie_server_ext.plugins.tool_names import slug_of
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.tool_host import Connected, Remote, ServerAccess, ServerResource, ServerTool
from ozzie_server_ext.render.text import LINE_WIDTH, byte_count, counted, cut_end, quoted, visible_label, wrapped
from ozzie_server_ext.vault.scope import Scope, checked_value
from ozzie_server_ext.vault.terminal import ask_passphrase

_MAX_SHOWN = 1000
_MAX_RESOURCES = 20
"""Of a server's resources, in a list for people."""
_KEYWORDS = frozenset(
    {"type", "description", "title", "default", "enum", "items", "properties", "required", "additionalProperties"}
    | {"string", "number", "integer", "boolean", "array", "object", "null", "anyOf", "oneOf", "allOf", "format"}
    | {"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "examples", "const", "pattern"}
)
"""Words of JSON Schema, which say nothing about a tool."""


def add_server(options: argparse.Namespace) -> int:
    """Add a server to the user's own, after a person has seen what it may do. Raises OzzieError."""
    home, project = find_home(os.environ), project_of(options)
    name: str = options.name
    if SERVER_NAME.fullmatch(name) is None:
        raise Misused("A server's name may hold letters, digits, blanks and ._/@- only, at most 64.")
    expect_someone(options, "add", name)
    known = servers_of(home, project)
    if (problem := next((each.problem for each in mcp_lists(home, project) if each.is_own), "")) != "":
        raise ConfigError(problem, hint="Correct the file first: none of its servers is used.")
    if any(each.is_own and each.slug == slug_of(name) for each in known.servers):
        raise Conflict(
            f"There is a server {quoted(name)} already.",
            hint=f"Take it out first: ozzie mcp rm {name}",
            code="mcp.known",
        )
    how, access = _as_given(options, project)
    how, keys = without_keys(how, name)
    return _settle(home, project, options, name, how, how, access, None, keys)


def trust_server(options: argparse.Namespace) -> int:
    """Trust a listed server in its present form. Raises OzzieError."""
    home, project = find_home(os.environ), project_of(options)
    server = servers_of(home, project).find(options.name)
    expect_someone(options, "trust", options.name)
    how, said = server.listed.how, _access(options, project)
    keys: dict[str, str] = {}
    if server.is_own:
        _expect_same_everywhere(how)
        how, keys = without_keys(how, server.name)
    start, named = paths_made_whole(how, project)
    before = server.settled
    is_same = before is not None and before.form == form_of(how)
    if before is not None and is_same:  # what a person said stays, unless they say otherwise
        known = msgspec.structs.replace(before.access, program=())
        named = named if said.reads or said.writes else known
        said = msgspec.structs.replace(said, hosts=said.hosts or known.hosts)
    access = joined(named, said)
    if not server.is_own and not options.yes and not is_same:
        print(*_start_lines(how, access), sep="\n", flush=True)
        if not agreed("Start it, to look at its tools?", about=f"try {server.name}"):
            print_notice("Nothing was changed.")
            return 1
    return _settle(home, project, options, server.name, how, start, access, server, keys)


def _expect_same_everywhere(how: McpText) -> None:
    """Raise InputError if a server of the user's own, which all projects use, names the folder of one."""
    texts = [how.command or "", *how.args, *how.env.values(), how.url or "", *how.headers.values()]
    if any("${folder:project}" in text for text in texts):
        raise InputError(
            "It names the project's folder, and all your projects would use it.",
            hint="Write that folder itself, or list the server in the project: .ozzie/mcp.json",
        )


def _start_lines(how: McpText, access: ServerAccess) -> Iterator[str]:
    """Yield what a server would get when it is tried: nothing is known of it yet but its listing."""
    settled = SettledServer(
        form="", trusted_at=datetime.now(UTC), name="", version="", access=access, secrets=names_in(how)
    )
    yield "To look at its tools, Ozzie has to start it, in its sandbox:" if how.url is None else "Ozzie has to ask it:"
    yield from _reach(how)
    yield from _may(how, settled)


def _settle(
    home: Home,
    project: Path,
    options: argparse.Namespace,
    name: str,
    how: McpText,
    start: McpText,
    access: ServerAccess,
    server: Server | None,
    keys: Mapping[str, str],
) -> int:
    """Try it, show what it says and may do, and record a person's yes. `keys` are those that stood in its listing, by
    the names of the secrets that they become."""
    before = server.settled if server else None
    is_same = before is not None and before.form == form_of(how)

    signing = Signing(home, name, server.key if server else name)

    def try_it(host: ToolHost) -> Awaitable[Proposal]:
        return proposed(
            home,
            host,
            name,
            how,
            start,
            access,
            before if is_same else None,
            lambda settled: _with_keys(values_of(home, project, slug_of(name), settled), keys),
            signed=lambda remote: signing.signed(host, remote),
            now=datetime.now(UTC),
            private=(Path(jupyter_runtime_dir()),),
            note=print_notice,
        )

    try:
        try:
            proposal = with_host(home, try_it)
        except ServerFailed as error:
            signing.sign_in(error, options)
            proposal = with_host(home, try_it)
    except ServerFailed as error:
        words = with_way(error, name, secrets=names_in(how)) if server and server.settled else str(error)
        raise Unavailable(f"{visible_label(name)} can't be used. {words}", hint=error.hint, code=error.code) from None
    try:
        settled = _recorded(home, options, proposal, name, how, server, keys, signing)
    except BaseException:
        proposal.discard()
        raise
    if settled is None:
        proposal.discard()
        print_notice("Nothing was changed.")
        return 1
    return _report(name, settled, "trusted" if server else "added", options)


def _recorded(
    home: Home,
    options: argparse.Namespace,
    proposal: Proposal,
    name: str,
    how: McpText,
    server: Server | None,
    keys: Mapping[str, str],
    signing: Signing,
) -> SettledServer | None:
    """Show a proposal, and record it if a person says yes; return what was recorded."""
    before = server.settled if server else None
    is_same = before is not None and before.form == proposal.settled.form
    settled = with_earlier(proposal.settled, before if is_same else None)
    settled = as_claimed(settled) if options.as_claimed else settled
    lines = [*_about(name, settled, proposal.package), *_tool_lines(settled, before)]
    lines += [*prompt_lines(name, settled, before), *_resources_of(settled), *_reach(how), *_may(how, settled)]
    lines += [line for each in proposal.unusable for line in wrapped(f"Left out: {visible_label(each)}", LINE_WIDTH)]
    lines += [f"A key of it would be kept in the vault, as {secret}." for secret in keys]
    lines += signing.lines()
    if not options.json:
        print(*lines, sep="\n", flush=True)
    verb = "trust" if server else "add"
    if not options.yes and not agreed(f"{verb.capitalize()} it?", about=f"{verb} {name}"):
        return None
    if not options.as_claimed and not options.yes and _claims_more(settled):
        question = "Take over what it claims that its tools do?"
        settled = as_claimed(settled) if agreed(question, about="take over its claims") else settled
    for secret, key in keys.items():
        scope = Scope("plugin", secret_owner(slug_of(name)))
        vault_of(home).set(secret, scope, checked_value(key), by=user_name(), ask=ask_passphrase)
    signing.keep()
    if server is None or keys:
        write_own(home, name, how)
    settle(home, server.key if server else name, settled)
    if before is not None and before.access.program != settled.access.program:
        _remove_packages(home, before)
    return settled


def _report(name: str, settled: SettledServer, done: str, options: argparse.Namespace) -> int:
    left = [each for each, tool in settled.tools.items() if tool.effect is None]
    end = [f"{visible_label(name)} is {done}."]
    if left:
        count = "A tool" if len(left) == 1 else f"{len(left)} tools"
        end += [f"{count} can't be used yet. Say what each does:"]
        end += [f"  ozzie mcp classify {shlex.quote(name)} {shlex.quote(left[0])}=reads …"]
    return print_result(_as_json(name, settled), *end, as_json=options.json)


def test_server(options: argparse.Namespace) -> int:
    """Connect to a trusted server, and report what differs. Raises OzzieError."""
    home, project = find_home(os.environ), project_of(options)
    server, settled = trusted_server(home, project, options.name)

    async def connect(host: ToolHost) -> tuple[Connected, ServerWords]:
        values = values_of(home, project, server.slug, settled)
        how, renew = await asyncio.to_thread(checked_reach, server.listed.how, settled, values), None
        if isinstance(how, Remote):
            how, renew = await SignIns(home, vault_of(home), host).signed(server.key, server.name, how)
        connection = await host.open(how, within_s=CONNECT_S, renew=renew)
        try:
            return connection.info, await words_of(connection)
        finally:
            connection.close()

    began = time.monotonic()
    try:
        info, words = with_host(home, connect)
    except ServerFailed as error:
        why = with_way(error, server.name, secrets=settled.secrets)
        raise Unavailable(why, hint=error.hint, code=error.code) from None
    took = time.monotonic() - began
    found = [*differences(settled, info, words.prompts), *words.problems]
    resources = words.resources.resources
    report = {
        "ok": not found,
        "seconds": round(took, 2),
        "differences": found,
        "tools": len(info.tools),
        "prompts": len(words.prompts.prompts),
        "resources": [encode(each) for each in resources],
        "more_resources": words.resources.has_more,
    }
    said = f"{visible_label(info.name)} {visible_label(info.version)}".strip() or visible_label(server.name)
    lines = [f"{said} answers, after {took:.1f} s, with {counted(len(info.tools), 'tool')}."]
    lines += resource_lines(resources, has_more=words.resources.has_more)
    lines += [f"  {line}" for each in found for line in wrapped(cut_end(each, _MAX_SHOWN), LINE_WIDTH - 2)]
    lines += (
        [f"Ozzie does not use what differs. To accept it: ozzie mcp trust {shlex.quote(server.name)}"] if found else []
    )
    print_result(report, *lines, as_json=options.json)
    return 1 if found else 0


def show_server(options: argparse.Namespace) -> int:
    """Print what was settled for a server. Raises OzzieError."""
    home, project = find_home(os.environ), project_of(options)
    server = servers_of(home, project).find(options.name)
    if server.settled is None:
        words = f"{visible_label(server.name)} is listed in {visible_label(str(server.file))}. Nobody has trusted it:"
        report = {"name": server.name, "state": server.state}
        return print_result(report, words, f"  ozzie mcp trust {server.name}", as_json=options.json)
    settled = server.settled
    lines = [*_about(server.name, settled, "")]
    if server.state == "changed":
        lines.append("It is listed in another form now, so it is not used: ozzie mcp trust shows it.")
    if is_signed_in(vault_of(home), server.key, server.name):
        lines.append("  You have signed in to it.")
    lines += [*_may(server.listed.how, settled), *_tool_lines(settled, settled)]
    lines += [*prompt_lines(server.name, settled, settled), *_resources_of(settled)]
    return print_result(_as_json(server.name, settled) | {"state": server.state}, *lines, as_json=options.json)


def classify_tools(options: argparse.Namespace) -> int:
    """Say what tools of a trusted server do. Raises OzzieError."""
    home, project = find_home(os.environ), project_of(options)
    server, settled = trusted_server(home, project, options.name)
    tools = dict(settled.tools)
    if not options.tools and not options.target:
        raise Misused("Say what at least one tool does.", hint=f"As in: ozzie mcp classify {server.name} TOOL=reads")
    for name, effect in effects_in(options.tools, tools, server.name).items():
        tools[name] = msgspec.structs.replace(tools[name], effect=effect)
    arguments = {name: _arguments(tool.seen) for name, tool in tools.items()}
    for name, targets in targets_in(options.target, arguments, server.name).items():
        tools[name] = msgspec.structs.replace(tools[name], targets=tools[name].targets | targets)

    def change(known: SettledServer | None) -> SettledServer:
        if known is None or known.form != settled.form:
            raise Conflict(f"{visible_label(server.name)} was changed meanwhile.", hint="Look at it and try again.")
        said = {each: tool for each, tool in tools.items() if tool != settled.tools[each] and each in known.tools}
        return msgspec.structs.replace(known, tools=known.tools | said)

    resettle(home, server.key, change)
    changed = msgspec.structs.replace(settled, tools=tools)
    return print_result(_as_json(server.name, changed), *_tool_lines(changed, changed), as_json=options.json)


def remove_server(options: argparse.Namespace) -> int:
    """Stop trusting a server; one of the user's own is taken out of their list too. Raises OzzieError."""
    home, project = find_home(os.environ), project_of(options)
    server = servers_of(home, project).find(options.name)
    if server.is_own:
        write_own(home, server.name, None)
    settle(home, server.key, None)
    if is_signed_in(vault := vault_of(home), server.key, server.name):
        vault.unlock(ask_passphrase)
        with_host(home, lambda host: SignIns(home, vault, host).forget(server.key, server.name, by=user_name()))
    if server.settled is not None:
        _remove_packages(home, server.settled)
    name = visible_label(server.name)
    listed = f" It is still listed in {visible_label(str(server.file))}."
    words = f"{name} is gone." if server.is_own else f"{name} is not trusted any more.{listed}"
    return print_result({"removed": server.name}, words, as_json=options.json)


def _remove_packages(home: Home, settled: SettledServer) -> None:
    """Remove what was installed for a server."""
    for folder in settled.access.program:
        if Path(folder).parent == home.server_packages.resolve():
            shutil.rmtree(folder, ignore_errors=True)


# --- what was given ---------------------------------------------------------------------------------------------------


def trusted_server(home: Home, project: Path, name: str) -> tuple[Server, SettledServer]:
    """Return a server that is trusted. Raises NotFound, Conflict."""
    server = servers_of(home, project).find(name)
    if server.settled is None or server.state == "changed":
        why = "is listed in another form than the one that was trusted" if server.settled else "was not trusted yet"
        hint = f"Look at it: ozzie mcp trust {server.name}"
        raise Conflict(f"{visible_label(server.name)} {why}.", hint=hint, code="mcp.untrusted")
    return server, server.settled


def _as_given(options: argparse.Namespace, project: Path) -> tuple[McpText, ServerAccess]:
    """Return the server that a command line names, and what it is to see. Raises ConfigError, Misused."""
    words: list[str] = options.server
    tree: dict[str, Any]
    if len(words) == 1 and re.match(r"https?://", words[0]):
        if options.env:
            raise Misused("A server at an address has no --env; it may have --header.")
        headers = _pairs(options.header, ":")
        tree = {"transport": "sse" if options.sse else "http", "url": words[0], "headers": headers}
    else:
        if options.header or options.sse:
            raise Misused("A server that is started has neither --header nor --sse; it may have --env.")
        tree = {"transport": "stdio", "command": words[0], "args": words[1:], "env": _pairs(options.env, "=")}
    how, named = paths_made_whole(validate(McpText, tree, {(): SourceLocation("the command", 1, 1)}), project)
    return how, joined(named, _access(options, project))


def _pairs(words: Sequence[str], sign: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, between, value = word.partition(sign)
        if not between:
            raise Misused(f"Write it as NAME{sign}VALUE.")
        found[name.strip()] = value.strip()
    return found


def _access(options: argparse.Namespace, project: Path) -> ServerAccess:
    """Return what a person grants in so many words. Raises NotFound, Misused."""

    def real(word: str) -> str:
        path = (project / os.path.expanduser(word)).resolve()
        if not path.exists():
            raise NotFound(f"There is no {visible_label(str(path))}.")
        return str(path)

    for host in options.host:
        try:
            HostGrant.of(host)
        except ValueError as error:
            raise Misused(f"{error}.") from None
    return ServerAccess(
        reads=tuple(map(real, options.read)), writes=tuple(map(real, options.write)), hosts=tuple(options.host)
    )


def values_of(home: Home, project: Path, slug: str, settled: SettledServer) -> Values:
    return granted_values(slug, settled, vault_of(home), project)


def _with_keys(values: Values, keys: Mapping[str, str]) -> Values:
    """Return values with keys that are in no vault yet."""
    return Values(lambda name: keys.get(name) or values.reveal(name), values.project)


# --- what is printed --------------------------------------------------------------------------------------------------


def _about(name: str, settled: SettledServer, package: str) -> Iterator[str]:
    said = " ".join(filter(None, [settled.name, settled.version]))
    yield f"{visible_label(name)}{f' calls itself {quoted(said)}' if said else ''}"
    if package:
        yield f"  Installed: {visible_label(package)}"
    if settled.instructions:
        yield from indented(f"Its instructions, which no model gets: {cut_end(settled.instructions, _MAX_SHOWN)}")


def _reach(how: McpText) -> Iterator[str]:
    """Yield how a server is reached, without what looks like a key."""
    if how.command is None:
        yield from indented(f"It is at {quoted(redact_text(how.url or ''))}, which gets the arguments of each call.")
        return
    command = " ".join(map(shlex.quote, (how.command, *how.args)))
    yield from indented(f"It is started as {quoted(redact_text(command))}.")
    if any("${" in arg for arg in how.args):
        yield from indented("What stands for the placeholders among its arguments can be read by every account here.")


def _may(how: McpText, settled: SettledServer) -> Iterator[str]:
    for sentence in access_sentences(settled, is_remote=how.url is not None):
        yield from indented(sentence)


def _tool_lines(settled: SettledServer, before: SettledServer | None) -> Iterator[str]:
    """Yield each tool, with what a person says of it, what the server claims, and its description."""
    yield f"{counted(len(settled.tools), 'tool')}:" if settled.tools else "It has no tools."
    for name, tool in settled.tools.items():
        claim = claimed(tool.seen.claims)
        said = f"{tool.effect}" if tool.effect else "not classified"
        if claim is not tool.effect:
            said += f"; the server claims: {claim}" if claim else "; the server claims nothing"
        known = before.tools.get(name) if before else None
        if before and (known is None or known.seen != tool.seen):
            said += "; new" if known is None else "; described in other words than before"
        yield f"  {visible_label(name)}: {said}"
        for text in (tool.seen.description or tool.seen.title, *_argument_texts(tool.seen)):
            for line in wrapped(visible_label(text), LINE_WIDTH - 4):
                yield f"    {line}"


def prompt_lines(name: str, settled: SettledServer, before: SettledServer | None) -> Iterator[str]:
    """Yield each prompt with how it is run, and what the server says of it."""
    if settled.prompts:
        yield f"{counted(len(settled.prompts), 'prompt')}, which you run in a cell:"
    for prompt in settled.prompts.values():
        words = " ".join(f"{each.name}=…" if each.is_required else f"[{each.name}=…]" for each in prompt.arguments)
        known = before.prompts.get(prompt.name) if before else None
        said = "" if before is None or known == prompt else " (described in other words)" if known else " (new)"
        yield f"  %run {slug_of(name)}:{prompt.name} {words}".rstrip() + said
        texts = [prompt.description or prompt.title]
        texts += [f"- {each.name}: {each.description}" for each in prompt.arguments if each.description]
        for text in filter(None, texts):
            yield from (f"    {line}" for line in wrapped(visible_label(text), LINE_WIDTH - 4))


def _resources_of(settled: SettledServer) -> Iterator[str]:
    yield from resource_lines(settled.resources, has_more=settled.more_resources)


def resource_lines(resources: Sequence[ServerResource], *, has_more: bool) -> Iterator[str]:
    """Yield the resources that a server listed, with what it calls them."""
    if resources:
        more = ", and more" if has_more else ""
        yield f"{counted(len(resources), 'resource')}{more}, which a message names with an @:"
    for each in resources[:_MAX_RESOURCES]:
        size = "" if each.size is None else byte_count(each.size)
        said = ", ".join(filter(None, [each.title or each.name, each.mime, size]))
        for line in wrapped(visible_label(f"{each.uri}: {said}" if said else each.uri), LINE_WIDTH - 2):
            yield f"  {line}"
    if len(resources) > _MAX_RESOURCES:
        yield f"  … and {len(resources) - _MAX_RESOURCES:,} more. Tab completes them."


def _argument_texts(tool: ServerTool) -> Iterator[str]:
    """Yield a line for each argument, with all that a model reads of it."""
    properties = _arguments(tool)
    for name, schema in properties.items():
        words = [word for word in words_in(schema) if word not in _KEYWORDS]
        yield f"- {name}{': ' if words else ''}{', '.join(words)}"
    rest = {name: each for name, each in tool.schema.items() if name not in ("properties", "$schema")}
    words = [word for word in words_in(rest) if word not in _KEYWORDS and word not in properties]
    if words:
        yield f"- {', '.join(words)}"


def _claims_more(settled: SettledServer) -> bool:
    """Whether it claims something of a tool that nobody has classified."""
    return any(tool.effect is None and claimed(tool.seen.claims) for tool in settled.tools.values())


def _arguments(tool: ServerTool) -> Mapping[str, Any]:
    properties = tool.schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _as_json(name: str, settled: SettledServer) -> dict[str, Any]:
    access = settled.access
    return {
        "name": name,
        "calls_itself": settled.name,
        "version": settled.version,
        "reads": access.reads,
        "writes": access.writes,
        "hosts": access.hosts,
        "secrets": settled.secrets,
        "tools": [
            {
                "name": each,
                "effect": tool.effect,
                "claimed": claimed(tool.seen.claims),
                "targets": dict(tool.targets),
                "description": tool.seen.description,
                "schema": encode(tool.seen.schema),
            }
            for each, tool in settled.tools.items()
        ],
        "prompts": [encode(each) for each in settled.prompts.values()],
        "resources": [encode(each) for each in settled.resources],
        "more_resources": settled.more_resources,
    }
