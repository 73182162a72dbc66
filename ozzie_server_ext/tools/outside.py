"""What a call brought in from outside, by its contract and the files that it names (ADR 31)."""

from dataclasses import replace

from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import TargetKind, ToolMeta
from ozzie_server_ext.policy.action import Action, Caller
from ozzie_server_ext.policy.hosts import host_of
from ozzie_server_ext.tools.base import Marks


async def brought(meta: ToolMeta, args: JsonObject, own: Content, marks: Marks, *, has_run: bool) -> Content:
    """Return where whatever a call says may come from: what its result says of itself (`own`), what the named files of
    the project are made from, and, once it `has_run`, what its contract brings. Where the result names no source for
    that, it is the host that was named, or the tool itself; of the web, a place that nobody knows."""
    found = own
    read = replace(meta, targets=tuple(target for target in meta.targets if target.is_read))
    for path in Action.of(read, args, Caller()).paths if read.targets else ():
        found |= await marks.below("/".join(path or ()))
    if meta.brings is None or meta.brings in own.labels or not has_run:
        return found
    named = [args.get(target.argument) for target in meta.targets if target.kind is TargetKind.URL]
    hosts = [str(host) for url in named if isinstance(url, str) and (host := host_of(url)) is not None]
    nowhere = "" if meta.brings is Label.WEB else meta.tool_id
    return found | Content.of(meta.brings, hosts or [nowhere])
