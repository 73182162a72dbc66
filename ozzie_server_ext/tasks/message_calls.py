"""What a message calls of MCP servers before its model is asked: the resources that it names as `@server:ADDRESS`, or
the prompt that it runs as `%run server:PROMPT` (docs/plugins.md, Resources and prompts)."""

import re
import shlex
from collections.abc import Sequence

import msgspec

from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound
from ozzie_server_ext.domain.events import GivenCall
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.messages import ServerMention, server_mentions
from ozzie_server_ext.plugins.server_words import problem_of_values, prompt_tool, resource_tool, unknown_prompt
from ozzie_server_ext.plugins.servers import Server, Servers, UsedServer
from ozzie_server_ext.plugins.tool_names import slug_of
from ozzie_server_ext.protocol.tool_host import ServerPrompt
from ozzie_server_ext.render.text import cut_end, quoted, visible_label
from ozzie_server_ext.tasks.server_tools import ServerTools
from ozzie_server_ext.tasks.service import NewTurn, SkillRequest

MOST_MENTIONS = 10
"""Resources that one message may name."""
MAX_ADDRESS = 2000
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+", re.DOTALL)
_VARIABLE = re.compile(r"\{[^{}]*\}?")
_NOT_MEANT = "Or write the name without the @."


class MessageCalls:
    """Finds the calls in messages to one project."""

    def __init__(self, servers: ServerTools) -> None:
        self._servers = servers

    async def of(self, turn: NewTurn) -> NewTurn:
        """Return the message with the calls that it makes of servers, if any.

        Raises InputError for a server that is not used, an address that can't be one, a prompt that is not known or
        whose arguments don't fit: a message is not answered without what it names.
        """
        if turn.skill is not None:
            return await self._run(turn, turn.skill) if ":" in turn.skill.name else turn
        mentions = [*_mentions(turn)]
        if not mentions:
            return turn
        servers = await self._servers.listed()
        meant = [(server, each) for each in mentions if (server := named(servers, each.server)) is not None]
        if len(meant) > MOST_MENTIONS:
            raise _refused(f"The message names more than {MOST_MENTIONS} resources.", "Write several messages.")
        return msgspec.structs.replace(turn, first=tuple(_read(server, each) for server, each in meant))

    async def leave_this_machine(self, turn: NewTurn) -> bool:
        """Whether a call of the message goes to a server that is elsewhere, or may send something there."""
        asked = [each.server for each in _mentions(turn)] if turn.skill is None else [turn.skill.name.partition(":")[0]]
        if turn.skill is not None and ":" not in turn.skill.name:
            return False
        servers = await self._servers.listed() if asked else Servers(())
        used = (server.used for name in asked if (server := named(servers, name)) is not None)
        return any(each is not None and (each.is_remote or each.settled.access.hosts) for each in used)

    async def _run(self, turn: NewTurn, request: SkillRequest) -> NewTurn:
        """Return the message that runs a prompt. Raises NotFound, InputError, Conflict."""
        owner, _, name = request.name.partition(":")
        server = named(await self._servers.listed(), owner)
        if server is None:
            raise NotFound(
                f"There is no MCP server {quoted(cut_end(owner, 80))}, so it has no prompt to run.",
                hint="List them: ozzie mcp list. %skills lists what can be run.",
                code="mcp.unknown",
            )
        used = _used(server, "its prompts are not run")
        prompt = used.settled.prompts.get(name)
        if prompt is None:
            raise unknown_prompt(used, cut_end(name, 80))
        values = given_values(used, prompt, request.words)
        call = GivenCall(tool=prompt_tool(server.slug), args={"prompt": name, "arguments": {**values}})
        return msgspec.structs.replace(turn, text=turn.recorded_text, skill=None, first=(call,))


def named(servers: Servers, name: str) -> Server | None:
    """Return the listed server that somebody means by this name, in any case and with any signs; None if there is
    none. Of two, the first counts."""
    slug = slug_of(name)
    exact = (each for each in servers.servers if each.name == name and each.state != "shadowed")
    alike = (each for each in servers.servers if each.slug == slug and each.state != "shadowed")
    return next(exact, None) or (next(alike, None) if any(map(str.isalnum, name)) else None)


def given_values(server: UsedServer, prompt: ServerPrompt, words: Sequence[str]) -> dict[str, Json]:
    """Return a prompt's arguments as typed: `name=value` each, or one text for the only argument. Raises InputError."""
    known = {argument.name for argument in prompt.arguments}
    values: dict[str, Json] = {}
    rest: list[str] = []
    for word in words:
        name, sign, value = word.partition("=")
        if sign and (name in known or len(known) != 1):
            if name in values:
                raise InputError(f"The argument {quoted(name)} is there twice.", code="mcp.prompt")
            values[name] = value
        else:
            rest.append(word)
    if rest and len(known) == 1 and not values:
        values = {next(iter(known)): " ".join(rest)}
    elif rest:
        raise InputError(
            f"{quoted(cut_end(rest[0], 80))} has no name.",
            hint=f"Write each argument as NAME=VALUE. {_takes(prompt)}",
            code="mcp.prompt",
        )
    if problem := problem_of_values(server, prompt, values):
        raise InputError(problem, code="mcp.prompt")
    return values


def _takes(prompt: ServerPrompt) -> str:
    names = ", ".join(each.name if each.is_required else f"{each.name} (optional)" for each in prompt.arguments)
    return f"It takes: {names}." if names else "It takes none."


def _mentions(turn: NewTurn) -> list[ServerMention]:
    """Return what a message may mention of servers; nothing that is somebody else's text."""
    return [each for each in server_mentions(turn.text) if turn.named is None or each.path in turn.named]


def _read(server: Server, mention: ServerMention) -> GivenCall:
    used = _used(server, "nothing is read from it")
    uri = mention.uri
    shown = quoted(cut_end(f"@{mention.path}", 200))
    if _SCHEME.fullmatch(uri) is None:
        raise _refused(
            f"{shown} names no resource: an address begins with a word and a colon, such as file:.",
            f"Tab after @{server.slug}: shows what it has.",
        )
    if visible_label(uri) != uri:
        raise _refused(f"{shown} has characters that can't be seen.", "Type the address anew.")
    if len(uri) > MAX_ADDRESS:
        raise _refused(f"{shown} is longer than {MAX_ADDRESS:,} characters.", "Name something shorter.")
    is_listed = any(each.uri == uri for each in used.settled.resources if not each.is_template)
    if not is_listed and (variable := _VARIABLE.search(uri)):
        raise _refused(f"{shown} has a variable, {quoted(variable[0])}.", "Put a value in its place.")
    return GivenCall(tool=resource_tool(server.slug), args={"uri": uri})


def _used(server: Server, so: str) -> UsedServer:
    """Return a server as it is used. Raises Conflict if nobody trusts it as it is listed."""
    if (used := server.used) is not None:
        return used
    why = "is listed in another form than the one that you trusted" if server.settled else "was not trusted yet"
    raise Conflict(
        f"The server {quoted(server.name)} {why}, so {so}.",
        hint=f"Look at it: ozzie mcp trust {shlex.quote(server.name)}. {_NOT_MEANT}",
        code="mcp.untrusted",
    )


def _refused(sentence: str, advice: str) -> InputError:
    return InputError(sentence, hint=f"{advice} {_NOT_MEANT}", code="message.mention")
