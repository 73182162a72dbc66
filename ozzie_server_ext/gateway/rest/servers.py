"""`servers`: the MCP servers of a project, and whether they are used and connected."""

from typing import Literal

import msgspec

from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest.shapes import Page, ProjectFolder
from ozzie_server_ext.plugins.servers import State
from ozzie_server_ext.protocol.tool_host import ServerPrompt, ServerResource
from ozzie_server_ext.tasks.server_tools import ListedState


class PromptArgument(msgspec.Struct, frozen=True, kw_only=True):
    """An argument of a prompt, in the server's words."""

    name: str
    description: str
    is_required: bool


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt, in the server's words. In a cell it is run as `%run SERVER:NAME ARGUMENT=VALUE`."""

    name: str
    title: str
    description: str
    arguments: list[PromptArgument]


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource, which a message names as `@SERVER:URI`; `size` in bytes, if the server says so. `is_template`: the
    variables in braces have to be filled in."""

    uri: str
    name: str
    title: str
    mime: str
    size: int | None
    is_template: bool


MOST_RESOURCES = 200
"""Of one server, in a list of servers."""


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A listed server. `state`: only a trusted one is used; `new` was never trusted, `changed` is listed in another
    form than the one that was, `shadowed` has the name of another one. `tools` counts those that a person trusted,
    `unclassified` those among them that can't be used, as nobody has said what they do. `era` is the version of the
    protocol while it is connected, else empty; `problem` is why the last try to connect failed, or empty.
    `signed_in`: a person has signed in to it, which may have ended since. `prompts` are those that a person trusted,
    `resources` the first that it was last known to list; `more_resources`: it has others."""

    name: str
    file: str
    whose: Literal["own", "project"]
    place: Literal["started", "remote"]
    state: State
    tools: int
    unclassified: int
    connected: bool
    era: str
    problem: str
    signed_in: bool
    prompts: list[Prompt]
    resources: list[Resource]
    more_resources: bool


class Servers(Page[Server], frozen=True, kw_only=True):
    """All servers, the user's own first. `problems`: why files with servers can't be read."""

    problems: list[str]


class ServersQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`project`: the folder whose servers are listed beside the user's own."""

    project: ProjectFolder | None = None


async def list_servers(call: Call, request: ServersQuery) -> Servers:
    """List the MCP servers, with what a person settled for them and whether they are connected."""
    project = await call.project(folder=request.project)
    found, problems = await project.server_tools.overview()
    return Servers(items=[_item(each) for each in found], next=None, problems=list(problems))


def _item(found: ListedState) -> Server:
    server, settled = found.server, found.server.settled
    tools = () if settled is None else settled.tools.values()
    return Server(
        name=server.name,
        file=str(server.file),
        whose="own" if server.is_own else "project",
        place="remote" if server.listed.how.url is not None else "started",
        state=server.state,
        tools=len(tools),
        unclassified=sum(tool.effect is None for tool in tools),
        connected=found.era != "",
        era=found.era,
        problem=found.problem,
        signed_in=found.signed_in,
        prompts=[_prompt(each) for each in (settled.prompts.values() if settled else ())],
        resources=[_resource(each) for each in found.resources[:MOST_RESOURCES]],
        more_resources=len(found.resources) > MOST_RESOURCES or bool(settled and settled.more_resources),
    )


def _prompt(found: ServerPrompt) -> Prompt:
    arguments = [
        PromptArgument(name=each.name, description=each.description, is_required=each.is_required)
        for each in found.arguments
    ]
    return Prompt(name=found.name, title=found.title, description=found.description, arguments=arguments)


def _resource(found: ServerResource) -> Resource:
    return Resource(
        uri=found.uri,
        name=found.name,
        title=found.title,
        mime=found.mime,
        size=found.size,
        is_template=found.is_template,
    )
