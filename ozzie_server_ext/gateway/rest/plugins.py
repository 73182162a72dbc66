"""`plugins`: the plugins of a project, what they may do, and whether they work; and the incidents that a person should
look at."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest.shapes import Page, ProjectFolder
from ozzie_server_ext.plugins.effects import Effect
from ozzie_server_ext.plugins.plugin_list import Origin, State, effect_of
from ozzie_server_ext.tasks.incidents import Incident
from ozzie_server_ext.tasks.plugin_tools import PluginState


class PluginTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a plugin, by its author's words. `effect` is what it does, null while nobody has said so."""

    name: str
    description: str
    effect: Effect | None


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin. `state`: only one that is `on` is used; `new` was granted nothing, `changed` is another one than that
    which was granted, `off` is turned off, `waits` lacks something that it requires, or is a program while programs are
    off, `shadowed` has the name of another one, `broken` can't be read. `asks_for` and `granted` are wishes, such as
    `http:GET api.example.org`. `problem` says what is wrong, or is empty."""

    name: str
    version: str
    description: str
    folder: str
    origin: Origin
    level: Literal["tool", "communication"]
    state: State
    asks_for: list[str]
    granted: list[str]
    tools: list[PluginTool]
    loaded: bool
    problem: str


class Plugins(Page[Plugin], frozen=True, kw_only=True):
    """All plugins, those that count more first."""


class PluginsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`project`: the folder whose plugins are listed beside the user's own and those that come with Ozzie."""

    project: ProjectFolder | None = None


async def list_plugins(call: Call, request: PluginsQuery) -> Plugins:
    """List the plugins, with what a person granted them and whether they work."""
    project = await call.project(folder=request.project)
    return Plugins(items=[_plugin(each) for each in await project.plugin_tools.overview()], next=None)


def _plugin(found: PluginState) -> Plugin:
    plugin, settled = found.plugin, found.plugin.settled
    manifest = plugin.found.manifest if plugin.found is not None else None
    off_because = settled.off_because if settled is not None and plugin.state == "off" else ""
    return Plugin(
        name=plugin.name,
        version=manifest.version if manifest is not None else "",
        description=manifest.description if manifest is not None else "",
        folder=str(plugin.folder),
        origin=plugin.origin,
        level=manifest.level if manifest is not None else "tool",
        state=plugin.state,
        asks_for=sorted(map(str, manifest.wishes)) if manifest is not None else [],
        granted=[*settled.granted] if settled is not None else [],
        tools=[
            PluginTool(
                name=tool.name,
                description=tool.description,
                effect=effect_of(tool.name, settled) if settled is not None else None,
            )
            for tool in (manifest.tools if manifest is not None else ())
        ],
        loaded=found.is_loaded,
        problem=found.problem or off_because,
    )


class IncidentItem(msgspec.Struct, frozen=True, kw_only=True):
    """What happened that a person should look at. `about` is the plugin, `detail` what tells incidents of a kind apart,
    such as the wish that was refused. `closed_at` and `closed_by` are empty while it is open; `why` is `person` if one
    closed it."""

    id: str
    kind: Literal["refused", "turned_off", "unhealthy"]
    about: str
    detail: str
    message: str
    project: str
    opened_at: str
    closed_at: str
    closed_by: str
    why: str


class IncidentList(Page[IncidentItem], frozen=True, kw_only=True):
    """Incidents, the newest first."""


class IncidentsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`state`: the open ones alone, or all. `limit`: at most so many."""

    state: Literal["open", "all"] = "open"
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


async def list_incidents(call: Call, request: IncidentsQuery) -> IncidentList:
    """List what happened that a person should look at, the newest first."""
    found = [each for each in await call.ozzie.incidents.all() if request.state == "all" or each.closed is None]
    return IncidentList(items=[_incident(each) for each in found[: request.limit]], next=None)


class IncidentClose(msgspec.Struct, frozen=True, kw_only=True):
    """`incident_id`: as a list has it."""

    incident_id: Annotated[str, Meta(max_length=64)]


async def close_incident(call: Call, request: IncidentClose) -> IncidentItem:
    """Close an incident that a person has looked at. A closed one stays as it is."""
    return _incident(await call.ozzie.incidents.close(request.incident_id, by=call.principal.name))


def _incident(found: Incident) -> IncidentItem:
    opened, closed = found.opened, found.closed
    return IncidentItem(
        id=opened.incident_id,
        kind=opened.kind,
        about=opened.about,
        detail=opened.detail,
        message=opened.message,
        project=opened.project,
        opened_at=found.opened_at,
        closed_at=found.closed_at,
        closed_by=closed.by if closed is not None else "",
        why=closed.why if closed is not None else "",
    )
