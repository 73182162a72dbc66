"""Completion of what messages take from MCP servers: servers and resources after `@`, prompts and their arguments after
`%run`. What is shown beside them is the server's words, in visible characters."""

import re
from collections.abc import Iterable, Iterator

import msgspec

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.messages import write_mention
from ozzie_server_ext.plugins.servers import Server, Servers, SettledServer
from ozzie_server_ext.plugins.tool_host import ServerFailed
from ozzie_server_ext.protocol.tool_host import ServerPrompt, ServerResource
from ozzie_server_ext.render.text import byte_count, counted, cut_end, visible_label
from ozzie_server_ext.tasks.message_calls import named
from ozzie_server_ext.tasks.server_tools import ServerTools

LIVE_S = 1.0
"""How long a completion waits for a server; then it offers what is known of it."""
_DETAIL_CHARS = 60
_SIMPLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VARIABLE = re.compile(r"\{([A-Za-z0-9_.]+)\}")
_WORDS = re.compile(r"(?P<key>[A-Za-z0-9_][A-Za-z0-9_.-]*)=(?:\"(?P<quoted>[^\"]*)\"|(?P<plain>\S*))")


class Offered(msgspec.Struct, frozen=True):
    """What completes a word: the whole word, its kind, and what it is."""

    text: str
    kind: str
    detail: str = ""


class ServerCompletion:
    """Completes by what trusted servers list."""

    def __init__(self, servers: ServerTools) -> None:
        self._servers = servers

    async def mentions(self, typed: str) -> list[Offered]:
        """Return what completes a mention, of which `typed` is what stands behind the `@`."""
        servers = [server for server in (await self._servers.listed()).servers if server.used is not None]
        owner, colon, rest = typed.partition(":")
        if not colon:
            return [*_servers_like(servers, owner)]
        server = named(Servers(tuple(servers)), owner)
        if server is None:
            return []
        resources = await self._servers.resources(server, wait_s=LIVE_S)
        found = [*_resources_like(resources, owner, rest)]
        return found or [*await self._template_values(server, resources, owner, rest)]

    async def _template_values(
        self, server: Server, resources: Iterable[ServerResource], owner: str, rest: str
    ) -> list[Offered]:
        """Return values for the variable of a template that is being typed."""
        for each in resources:
            if each.is_template and (at := _variable_at(each.uri, rest)) is not None:
                before, name, value, behind, others = at
                values = await self._completed(server, each.uri, name, value, others, is_template=True)
                written = ((value, write_mention(f"{owner}:{before}{value}{behind}")) for value in values)
                return [Offered(text, "value", name) for _, text in written if text is not None and _is_plain(text)]
        return []

    async def prompts(self, typed: str) -> list[Offered]:
        """Return the prompts that complete the first word behind `%run`."""
        found: list[Offered] = []
        for server in (await self._servers.listed()).servers:
            if server.used is not None and server.settled is not None:
                found += _prompts_like(server, server.settled, typed)
        return found

    async def arguments(self, called: str, before: str, word: str) -> list[Offered]:
        """Return what completes an argument of a prompt: its name or, behind `=`, its value. `before` are the words
        between the prompt and this one."""
        owner, _, name = called.partition(":")
        server = named(await self._servers.listed(), owner)
        prompt = None if server is None or server.used is None else server.used.settled.prompts.get(name)
        if server is None or prompt is None:
            return []
        given = {match["key"]: match["quoted"] or match["plain"] or "" for match in _WORDS.finditer(before)}
        key, sign, value = word.partition("=")
        if not sign:
            return [*_arguments_like(prompt, given, word)]
        others: JsonObject = {**given}
        values = await self._completed(server, prompt.name, key, value.lstrip('"'), others, is_template=False)
        return [Offered(_word(key, each), "value", key) for each in values if _is_plain(each) and '"' not in each]

    async def _completed(
        self, server: Server, name: str, argument: str, value: str, others: JsonObject, *, is_template: bool
    ) -> tuple[str, ...]:
        try:
            connection = await self._servers.connection(server)
            return await connection.completions(name, argument, value, others, is_template=is_template, within_s=LIVE_S)
        except ServerFailed:
            return ()


def _servers_like(servers: Iterable[Server], typed: str) -> Iterator[Offered]:
    for server in servers:
        name = server.name if _SIMPLE.fullmatch(server.name) else server.slug
        settled = server.settled
        if name.casefold().startswith(typed.casefold()) and settled is not None:
            count = counted(len(settled.resources), "resource") if settled.resources else "MCP server"
            yield Offered(f"@{name}:", "server", count)


def _resources_like(resources: Iterable[ServerResource], owner: str, typed: str) -> Iterator[Offered]:
    wanted = typed.casefold()
    for each in resources:
        uri = each.uri
        if each.is_template:
            uri = uri.partition("{")[0]
            if not uri or uri.casefold() == wanted:
                continue
        is_meant = uri.casefold().startswith(wanted) or (wanted and wanted in f"{each.title}\n{each.name}".casefold())
        text = write_mention(f"{owner}:{uri}") if is_meant else None
        if text is not None and _is_plain(text):
            yield Offered(text, "template" if each.is_template else "resource", _about(each))


def _about(found: ServerResource) -> str:
    size = "" if found.size is None else byte_count(found.size)
    name = found.title or found.name
    if found.is_template:
        name = f"{name} {', '.join(_VARIABLE.findall(found.uri))}".strip()
    return cut_end(visible_label(", ".join(filter(None, [name, found.mime, size]))), _DETAIL_CHARS)


def _variable_at(template: str, typed: str) -> tuple[str, str, str, str, dict[str, Json]] | None:
    """Return where a typed address is within a variable of a template: what stands before its value, the variable, the
    value so far, what follows it, and the values of those before; None if it is elsewhere."""
    pieces = _VARIABLE.split(template)  # a text, a variable, a text, …
    others: dict[str, Json] = {}
    if not typed.startswith(pieces[0]):
        return None
    at = len(pieces[0])
    for name, behind in zip(pieces[1::2], pieces[2::2], strict=True):
        rest = typed[at:]
        end = rest.find(behind) if behind else -1
        if end < 0:
            return typed[:at], name, rest, behind, others
        others[name] = rest[:end]
        at += end + len(behind)
    return None


def _prompts_like(server: Server, settled: SettledServer, typed: str) -> Iterator[Offered]:
    name = server.name if _SIMPLE.fullmatch(server.name) else server.slug
    for prompt in settled.prompts.values():
        called = f"{name}:{prompt.name}"
        if called.casefold().startswith(typed.casefold()):
            yield Offered(called, "prompt", cut_end(visible_label(prompt.title or prompt.description), _DETAIL_CHARS))


def _arguments_like(prompt: ServerPrompt, given: Iterable[str], typed: str) -> Iterator[Offered]:
    known = set(given)
    for each in prompt.arguments:
        if each.name not in known and each.name.startswith(typed):
            about = ", ".join(filter(None, ["needed" if each.is_required else "optional", each.description]))
            yield Offered(f"{each.name}=", "argument", cut_end(visible_label(about), _DETAIL_CHARS))


def _word(key: str, value: str) -> str:
    return f'{key}="{value}"' if re.search(r"\s", value) else f"{key}={value}"


def _is_plain(text: str) -> bool:
    return bool(text) and visible_label(text) == text


class RunnablePrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that can be run. `called` is how, with its arguments."""

    called: str
    description: str
    server: str


async def prompts_of(servers: ServerTools) -> list[RunnablePrompt]:
    """Return the prompts of trusted servers. Raises ConfigError."""
    return [
        RunnablePrompt(
            called=called_as(server, prompt),
            description=visible_label(prompt.title or prompt.description),
            server=visible_label(server.name),
        )
        for server in (await servers.listed()).servers
        if server.used is not None
        for prompt in server.used.settled.prompts.values()
    ]


def called_as(server: Server, prompt: ServerPrompt) -> str:
    """Return how a prompt is run: `notes:weekly topic=… [style=…]`."""
    name = server.name if _SIMPLE.fullmatch(server.name) else server.slug
    words = (f"{each.name}=…" if each.is_required else f"[{each.name}=…]" for each in prompt.arguments)
    return " ".join([f"{name}:{prompt.name}", *words])
