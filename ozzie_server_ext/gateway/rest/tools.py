"""`tools`: what a model can call, and what the rules decide."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.messages import Channel
from ozzie_server_ext.domain.toolmeta import Category, Idempotency, RiskLevel, SideEffect, TargetKind
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest.shapes import Page, ProjectFolder
from ozzie_server_ext.policy.decision import Caller
from ozzie_server_ext.tasks.projects import Project
from ozzie_server_ext.tools import base

ToolName: TypeAlias = Annotated[
    str, Meta(pattern="^[A-Za-z0-9_.-]{1,64}$", title="the id of a tool, or a name that it answers to")
]
Said: TypeAlias = Literal["ALLOW", "CHECK", "ASK", "DENY"]


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules decide before they see a call's arguments: `rule` is the rule's id, `place` its file and line,
    empty for a built-in rule."""

    decision: Said
    rule: str
    reason: str
    place: str


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's contract in short. `tool_id` is namespace.name, `name` the model's name for it, `names` further names;
    `version` is that of the contract. `id` and `risk` are the former names of `tool_id` and `risk_level`, and go with
    the next version."""

    tool_id: str
    risk_level: RiskLevel
    id: str
    name: str
    names: list[str]
    about: str
    version: str
    side_effect: SideEffect
    risk: RiskLevel
    categories: list[Category]
    ruling: Ruling


class ToolTarget(msgspec.Struct, frozen=True, kw_only=True):
    """An argument that names what a call acts on."""

    argument: str
    kind: TargetKind


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """A `capability` of this machine or server, or a `permission` that the rules decide about; the other one is empty.
    `problem`: why the capability is not there, and what to do; empty if it is."""

    capability: str = ""
    permission: str = ""
    problem: str = ""


class Outputs(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a result the model gets at once. A longer one is kept whole as an artifact."""

    max_inline_chars: int
    store_full_as_artifact: Literal[True] = True


class ToolDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's whole contract. `parameters` is a JSON Schema, `timeout_s` the seconds that a call may take. `id`,
    `risk` and `max_inline_chars` are the former names of `tool_id`, `risk_level` and a part of `outputs`, and go with
    the next version."""

    tool_id: str
    risk_level: RiskLevel
    requires: list[Requirement]
    outputs: Outputs
    id: str
    name: str
    names: list[str]
    about: str
    version: str
    side_effect: SideEffect
    risk: RiskLevel
    categories: list[Category]
    ruling: Ruling
    idempotency: Idempotency
    timeout_s: float
    max_inline_chars: int
    targets: list[ToolTarget]
    parameters: JsonObject


class Tools(Page[Tool], frozen=True, kw_only=True):
    """Every tool, by id. `policy_error` is why the rules can't be used, empty if they can: until then every call is
    denied."""

    policy_error: str


class ToolsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`project`: the folder whose rules and skills count."""

    project: ProjectFolder | None = None


async def list_tools(call: Call, request: ToolsQuery) -> Tools:
    """List the tools, with what the rules decide about a call by each kind of caller."""
    project = await call.project(folder=request.project)
    items = [await _short(call, project, tool) for tool in project.tools.all()]
    return Tools(items=items, next=None, policy_error=project.rules.problem)


class ToolQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`name`: its id, or any of its names. `project`: the folder whose rules and skills count."""

    name: ToolName
    project: ProjectFolder | None = None


async def show_tool(call: Call, request: ToolQuery) -> ToolDetails:
    """Show one tool's whole contract."""
    project = await call.project(folder=request.project)
    tool = project.tools.find(request.name)
    if tool is None:
        names = ", ".join(each.meta.name for each in project.tools.all())
        raise NotFound(f"There is no tool {request.name}.", hint=f"There are: {names}.", code="tool.unknown")
    short = await _short(call, project, tool)
    needed = [Requirement(capability=each, problem=call.ozzie.problem_of(each)) for each in sorted(tool.meta.requires)]
    return ToolDetails(
        tool_id=short.tool_id,
        risk_level=short.risk_level,
        requires=[*needed, *(Requirement(permission=each) for each in tool.meta.permissions)],
        outputs=Outputs(max_inline_chars=tool.meta.max_inline_chars),
        id=short.id,
        name=short.name,
        names=short.names,
        about=short.about,
        version=short.version,
        side_effect=short.side_effect,
        risk=short.risk,
        categories=short.categories,
        ruling=short.ruling,
        idempotency=tool.meta.idempotency,
        timeout_s=tool.meta.timeout_s,
        max_inline_chars=tool.meta.max_inline_chars,
        targets=[ToolTarget(argument=target.argument, kind=target.kind) for target in tool.meta.targets],
        parameters=tool.spec.parameters,
    )


async def _short(call: Call, project: Project, tool: base.Tool) -> Tool:
    meta = tool.meta
    caller = Caller(project=str(project.root), channel=Channel.REST, user=call.principal.name)
    verdict = (await project.rules.of(meta, {}, caller)).verdict
    return Tool(
        tool_id=meta.tool_id,
        risk_level=meta.risk_level,
        id=meta.tool_id,
        name=meta.name,
        names=list(meta.further_names),
        about=tool.spec.description,
        version=meta.version,
        side_effect=meta.side_effect,
        risk=meta.risk_level,
        categories=sorted(meta.categories),
        ruling=Ruling(decision=verdict.decision.value, rule=verdict.rule, reason=verdict.reason, place=verdict.place),
    )
