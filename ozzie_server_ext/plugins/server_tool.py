"""A tool of an MCP server, as Ozzie's tools are: its contract comes from a person, its description from the server."""

import asyncio
import base64
import binascii
import hashlib
import mimetypes
import re
import shlex
from collections.abc import Awaitable, Callable, Iterator, Sequence

from ozzie_server_ext.agent.structured_output import Fitting, enforcement, without_metadata
from ozzie_server_ext.domain.artifacts import ArtifactKind
from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.errors import PolicyError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.toolmeta import (
    SERVERS,
    Made,
    Target,
    ToolMeta,
    ToolResult,
    ToolSpec,
)
from ozzie_server_ext.plugins.connections import CONNECT_S
from ozzie_server_ext.plugins.effects import contract_of
from ozzie_server_ext.plugins.server_questions import ASKING_S, Questions
from ozzie_server_ext.plugins.servers import SettledTool, UsedServer
from ozzie_server_ext.plugins.sign_ins import with_way
from ozzie_server_ext.plugins.tool_host import Connection, ServerFailed
from ozzie_server_ext.plugins.tool_names import slug_of, slugs_of, tool_name
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.protocol.tool_host import Output, OutputFile, Wanted
from ozzie_server_ext.render.text import cut_end, quoted, visible_json, visible_label
from ozzie_server_ext.tools.base import InvalidArguments, Plan, Preview, ToolContext, ToolFailed, Unsettled

TIMEOUT_S = 120.0
_SPARE_S = 10.0
"""Longer, beside the time for which a person may be asked, than the call and the connection before it may take: they
say better why there is no result."""
_MAX_REASON = 2000
_MAX_FILES = 20
_MIME = re.compile(r"[a-z]{1,20}/[A-Za-z0-9.+-]{1,80}")

Connect = Callable[[], Awaitable[Connection]]


Expect = Callable[[Connection], Awaitable[None]]
"""Raises PolicyError if a server is not as a person has seen it."""


async def called(
    connect: Connect,
    name: str,
    args: JsonObject,
    context: ToolContext,
    questions: Questions,
    *,
    expect: Expect,
    wants: Wanted = "tool",
) -> Output:
    """Call a server, once more if the connection was found to be lost before it got the call. Raises ServerFailed, and
    what `expect` raises."""
    for is_last in (False, True):
        connection = await connect()
        await expect(connection)
        try:
            return await connection.call(
                name,
                args,
                within_s=TIMEOUT_S,
                on_progress=lambda text: context.live.progress(visible_label(text)),
                on_elicit=questions.answered,
                wants=wants,
            )
        except ServerFailed as error:
            if is_last or error.was_sent or error.code != "mcp.lost":
                raise
    raise AssertionError("the last try returns or raises")


class ServerTool:
    """A tool of a server. A call fails if the server describes it otherwise than when a person looked at it."""

    waits = True
    plan_waits = False

    def __init__(self, server: UsedServer, tool: SettledTool, tool_id: str, connect: Connect) -> None:
        self._server = server
        self._tool = tool
        self._connect = connect
        self._content = Content.of(Label.MCP, [server.name])
        self._schema = without_metadata(tool.seen.schema)
        self._fitting = Fitting(self._schema) if enforcement(self._schema) else None
        name = tool_name(server.slug, tool.seen.name)
        about = tool.seen.description or tool.seen.title or f"{tool.seen.name} of {server.name}"
        self.spec = ToolSpec(name=name, description=about, parameters=self._schema)
        self.meta = _meta(server, tool, tool_id, name)

    def check(self, args: JsonObject) -> JsonObject:
        if self._fitting is not None and (problem := self._fitting.misfit(args)):
            raise InvalidArguments(f"The arguments of {self.meta.name} do not fit: {problem}")
        return args

    async def plan(self, args: JsonObject, context: ToolContext) -> Plan:
        return Plan(args=args, preview=lambda: self._preview(args))

    def _preview(self, args: JsonObject) -> Preview:
        sentence = f"Call {quoted(self._tool.seen.name)} of {quoted(self._server.name)}?"
        return Preview(sentence=sentence, proof=visible_json(args), shown="text")

    async def run(self, plan: Plan, context: ToolContext) -> ToolResult:
        name, server = self._tool.seen.name, self._server.name
        context.provenance.add(self._content)
        questions = Questions(server, context.ask_person, attended=context.caller.attended)
        try:
            output = await called(self._connect, name, plan.args, context, questions, expect=self._expect_as_seen)
        except ServerFailed as error:
            reason = cut_end(with_way(error, server, secrets=self._server.settled.secrets), _MAX_REASON)
            if error.was_sent and not self.meta.may_be_repeated:
                raise Unsettled(f'The server "{server}" did not say whether {name} was done. {reason}') from None
            raise ToolFailed(f'{name} of the server "{server}" failed. {reason}', code=error.code) from None
        if output.failed:
            words = "\n".join([*output.texts, *questions.told])
            raise ToolFailed(cut_end(words, _MAX_REASON) or "It failed, and does not say why.")
        # Decoding files takes time: keep the event loop free.
        made = await asyncio.to_thread(_files, self._server, name, output.files) if output.files else ()
        return ToolResult(ok=True, data=_data(output, made), made=made, content=self._content)

    async def _expect_as_seen(self, connection: Connection) -> None:
        """Raise PolicyError if the server describes the tool in other words than those that a person has seen: they may
        be there to change what a model does."""
        seen = self._tool.seen
        now = next((tool for tool in connection.tools if tool.name == seen.name), None)
        if now == seen:
            return
        name = self._server.name
        what = (
            f"has no {seen.name} any more"
            if now is None
            else f"describes {seen.name} otherwise than when you trusted it"
        )
        raise PolicyError(
            f'Not called: the server "{name}" {what}. Look at it: ozzie mcp test {shlex.quote(name)}',
            code="mcp.changed",
        )

    async def happened(self, effect: JsonObject, context: ToolContext) -> bool | None:
        return None


def tools_of(server: UsedServer, connect: Connect) -> Iterator[ServerTool]:
    """Yield the tools of a server, those that nobody has classified too."""
    for name, slug in slugs_of(server.settled.tools).items():
        yield ServerTool(server, server.settled.tools[name], f"{SERVERS}{server.slug}.{slug}", connect)


def _meta(server: UsedServer, tool: SettledTool, tool_id: str, name: str) -> ToolMeta:
    settled = server.settled
    promise: list[Json] = [encode(tool), encode(settled.access), settled.form, settled.packages]
    return ToolMeta(
        tool_id=tool_id,
        name=name,
        timeout_s=TIMEOUT_S + CONNECT_S + _SPARE_S + ASKING_S,
        targets=tuple(Target(argument, kind) for argument, kind in sorted(tool.targets.items())),
        version=hashlib.sha256(canonical_bytes(promise)).hexdigest()[:12],
        max_inline_chars=20_000,
        brings=Label.MCP,
        is_outbound=server.is_remote or bool(settled.access.hosts),
        **contract_of(tool.effect),
    )


# --- results ----------------------------------------------------------------------------------------------------------


def _data(output: Output, made: tuple[Made, ...]) -> Json:
    data: Json = "\n".join(output.texts) if output.structured is None else output.structured
    left_out = len(output.files) - len(made)
    # Not as a result's links, which are addresses that a page gave: a server knows what it was granted, and could carry
    # that away in one.
    links: list[Json] = [*output.links]
    if output.files or links:
        data = {"result": data, **({"links": links} if links else {}), **({"left_out": left_out} if left_out else {})}
    return data


def _files(server: UsedServer, called: str, files: Sequence[OutputFile]) -> tuple[Made, ...]:
    return tuple(files_of(server, called, files))


def files_of(server: UsedServer, called: str, files: Sequence[OutputFile]) -> Iterator[Made]:
    """Yield the files of a result as artifacts, without those that are no base64."""
    for at, file in enumerate(files[:_MAX_FILES]):
        try:
            content = base64.b64decode(file.data, validate=True)
        except (binascii.Error, ValueError):
            continue
        mime = file.mime if _MIME.fullmatch(file.mime) else "application/octet-stream"
        kind: ArtifactKind = "image" if mime.startswith("image/") else "file"
        ending = mimetypes.guess_extension(mime) or ".bin"
        name = f"mcp/{server.slug}/{slug_of(called)}-{at + 1}{ending}"
        yield Made(name=name, kind=kind, mime=mime, content=content, told=True)
