"""What a call brought in from outside (TL-8)."""

from dataclasses import replace

from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.domain.events import ToolCallFailed, ToolCallUncertain
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import TargetKind, ToolMeta, ToolResult
from ozzie_server_ext.policy.action import Action, Caller
from ozzie_server_ext.policy.hosts import host_of
from ozzie_server_ext.tools.base import Marks

Ended = ToolResult | ToolCallFailed | ToolCallUncertain


async def brought(meta: ToolMeta, args: JsonObject, ended: Ended, marks: Marks) -> Content:
    """Where that came from what a call said that was begun, its failure too: what the result says of itself, what files
    of the project are made from that it names, and in any case what the tool's contract says. Where no source is told,
    it is the host that was named, or the tool itself; of
    the web, a place that nobody knows."""
    own = ended.content if isinstance(ended, ToolResult) else CLEAN
    for path in Action.of(meta, args, Caller()).paths if meta.targets else ():
        own = own | await marks.below("/".join(path or ()))
    if meta.brings is None or meta.brings in own.labels:
        return own
    named = [args.get(target.argument) for target in meta.targets if target.kind is TargetKind.URL]
    hosts = [str(host) for url in named if isinstance(url, str) and (host := host_of(url)) is not None]
    nowhere = "" if meta.brings is Label.WEB else meta.tool_id
    return own | Content.of(meta.brings, hosts or [nowhere])


def bearing(ended: Ended, content: Content) -> Ended:
    """How a call ended, with what it brought."""
    match ended:
        case ToolResult():
            return replace(ended, content=content)
        case ToolCallFailed() | ToolCallUncertain():
            return replace(ended, brought=content.sources)
