"""A tool of a plugin, as Ozzie's tools are: its description comes from its author, its contract from what a person
granted and said."""

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from ozzie_server_ext.agent.structured_output import Fitting
from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.toolmeta import PLUGINS, Target, TargetKind, ToolMeta, ToolResult, ToolSpec
from ozzie_server_ext.plugins.connections import CONNECT_S
from ozzie_server_ext.plugins.effects import Effect, contract_of
from ozzie_server_ext.plugins.plugin_list import Plugin, effect_of
from ozzie_server_ext.plugins.tool_host import Connection, ServerFailed
from ozzie_server_ext.plugins.tool_names import slug_of, slugs_of, tool_name
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.protocol.tool_host import Output, Refused
from ozzie_server_ext.render.text import cut_end, quoted, visible_json
from ozzie_server_ext.tools.base import InvalidArguments, Plan, Preview, ToolContext, ToolFailed, Unsettled

TIMEOUT_S = 60.0
_SPARE_S = 10.0
"""Longer than the call and loading the plugin may take: they say better why there is no result."""
_MAX_REASON = 2000


class UsedTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool of a plugin as it is used: `schema` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: JsonObject
    effect: Effect | None = None
    targets: dict[str, TargetKind] = msgspec.field(default_factory=dict[str, TargetKind])


class UsedPlugin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A plugin as its tools need it, and as it is recorded."""

    name: str
    version: str
    digest: str
    granted: tuple[str, ...] = ()
    tools: tuple[UsedTool, ...] = ()

    @property
    def slug(self) -> str:
        return slug_of(self.name)

    @classmethod
    def of(cls, plugin: Plugin) -> "UsedPlugin":
        """Return a plugin that is on as it is used."""
        settled, manifest = plugin.settled, plugin.manifest
        assert settled is not None, "a plugin that is on was settled"
        tools = tuple(
            UsedTool(
                name=tool.name,
                description=tool.description,
                schema=tool.schema_of_arguments,
                effect=effect_of(tool.name, settled),
                targets=dict(settled.tools[tool.name].targets) if tool.name in settled.tools else {},
            )
            for tool in manifest.tools
        )
        return cls(
            name=plugin.name, version=manifest.version, digest=settled.digest, granted=settled.granted, tools=tools
        )


class Watch(Protocol):
    """Is told how calls of a plugin went."""

    async def refused(self, refused: Refused) -> None:
        """Note that it asked for something that nobody granted."""
        ...

    async def ended(self, failure: ServerFailed | None) -> None:
        """Note how a call ended. Turns the plugin off if it breaks again and again."""
        ...


class NoWatch:
    """For tools that are never run, such as those of a replay."""

    async def refused(self, refused: Refused) -> None:
        """See `Watch`."""

    async def ended(self, failure: ServerFailed | None) -> None:
        """See `Watch`."""


class PluginTool:
    """A tool of a plugin. Its arguments are checked and completed by its manifest before the plugin gets them."""

    waits = True
    plan_waits = False

    def __init__(
        self,
        plugin: UsedPlugin,
        tool: UsedTool,
        tool_id: str,
        connect: Callable[[], Awaitable[Connection]],
        watch: Watch,
    ) -> None:
        self._plugin = plugin
        self._tool = tool
        self._connect = connect
        self._watch = watch
        self._fitting = Fitting(tool.schema)
        self._content = Content.of(Label.PLUGIN, [plugin.name])
        name = tool_name(plugin.slug, tool.name)
        self.spec = ToolSpec(name=name, description=tool.description, parameters=tool.schema)
        self.meta = _meta(plugin, tool, tool_id, name)

    def check(self, args: JsonObject) -> JsonObject:
        properties = self._tool.schema.get("properties")
        assert isinstance(properties, dict), "a manifest's arguments are an object's"
        defaults = {
            name: schema["default"]
            for name, schema in properties.items()
            if isinstance(schema, dict) and "default" in schema
        }
        whole: JsonObject = {**defaults, **args}
        if problem := self._fitting.misfit(whole):
            raise InvalidArguments(f"The arguments of {self.meta.name} do not fit: {problem}")
        return whole

    async def plan(self, args: JsonObject, context: ToolContext) -> Plan:
        return Plan(args=args, preview=lambda: self._preview(args))

    def _preview(self, args: JsonObject) -> Preview:
        sentence = f"Call {quoted(self._tool.name)} of the plugin {quoted(self._plugin.name)}?"
        return Preview(sentence=sentence, proof=visible_json(args), shown="text")

    async def run(self, plan: Plan, context: ToolContext) -> ToolResult:
        context.provenance.add(self._content)
        refused: dict[str, Refused] = {}
        wrote: dict[str, None] = {}
        try:
            output = await self._call(plan.args, refused, wrote)
            if output.failed:
                words = " ".join(filter(None, ["\n".join(output.texts), _told(refused)]))
                words = cut_end(words, _MAX_REASON) or "It failed, and does not say why."
                raise ToolFailed(words, code="plugin.failed")
            await self._watch.ended(None)
        except ServerFailed as error:
            await self._watch.ended(error)
            return self._after_writing(self._failed(error, refused), wrote, context)
        except ToolFailed as failure:
            await self._watch.ended(None)
            return self._after_writing(failure, wrote, context)
        finally:
            for each in refused.values():
                await self._watch.refused(each)
        return ToolResult(ok=True, data=output.structured, content=self._content, wrote=_paths(wrote, context))

    def _after_writing(
        self, failure: ToolFailed | Unsettled, wrote: dict[str, None], context: ToolContext
    ) -> ToolResult:
        """Return a result for a call that failed after it had written files, so that these are recorded as made from
        outside. Raises the failure of one that has written none."""
        if not wrote:
            raise failure
        words = f"{failure} Before, it has written {', '.join(wrote)}."
        data: JsonObject = {"error": cut_end(words, _MAX_REASON)}
        return ToolResult(ok=False, data=data, content=self._content, wrote=_paths(wrote, context))

    async def _call(self, args: JsonObject, refused: dict[str, Refused], wrote: dict[str, None]) -> Output:
        """Call the plugin, once more if its process was found to be gone before it got the call. Raises
        ServerFailed."""
        for is_last in (False, True):
            connection = await self._connect()
            try:
                return await connection.call(
                    self._tool.name,
                    args,
                    within_s=TIMEOUT_S,
                    on_refused=lambda each: refused.setdefault(each.wish, each) and None,
                    on_wrote=lambda path: wrote.setdefault(path),
                )
            except ServerFailed as error:
                if is_last or error.was_sent or error.code != "mcp.lost":
                    raise
        raise AssertionError("the last try returns or raises")

    def _failed(self, error: ServerFailed, refused: dict[str, Refused]) -> ToolFailed | Unsettled:
        reason = cut_end(" ".join(filter(None, [str(error), error.hint, _told(refused)])), _MAX_REASON)
        name = self._plugin.name
        if error.was_sent and not self.meta.may_be_repeated:
            return Unsettled(f'The plugin "{name}" did not say whether {self._tool.name} was done. {reason}')
        return ToolFailed(f'{self._tool.name} of the plugin "{name}" failed. {reason}', code=error.code)

    async def happened(self, effect: JsonObject, context: ToolContext) -> bool | None:
        return None


def tools_of_plugin(
    plugin: UsedPlugin, connect: Callable[[], Awaitable[Connection]], watch: Watch
) -> Iterator[PluginTool]:
    """Yield the tools of a plugin, those that nobody has classified too."""
    slugs = slugs_of(tool.name for tool in plugin.tools)
    for tool in plugin.tools:
        yield PluginTool(plugin, tool, f"{PLUGINS}{plugin.slug}.{slugs[tool.name]}", connect, watch)


def _paths(wrote: dict[str, None], context: ToolContext) -> tuple[str, ...]:
    return tuple(str(Path(context.project) / path) for path in wrote)


def _told(refused: dict[str, Refused]) -> str:
    return " ".join(each.words for each in refused.values())


def _meta(plugin: UsedPlugin, tool: UsedTool, tool_id: str, name: str) -> ToolMeta:
    promise: list[Json] = [encode(tool), plugin.digest, [*plugin.granted]]
    return ToolMeta(
        tool_id=tool_id,
        name=name,
        timeout_s=TIMEOUT_S + CONNECT_S + _SPARE_S,
        targets=tuple(Target(argument, kind) for argument, kind in sorted(tool.targets.items())),
        version=hashlib.sha256(canonical_bytes(promise)).hexdigest()[:12],
        max_inline_chars=20_000,
        brings=Label.PLUGIN,
        is_outbound=any(wish.startswith("http:") for wish in plugin.granted),
        **contract_of(tool.effect),
    )
