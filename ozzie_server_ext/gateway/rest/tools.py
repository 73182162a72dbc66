"""`tools`: what a model can call, and what the rules say to that (TL-1)."""

from dataclasses import dataclass

from ozzie_server_ext.domain.channels import Channel
from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.tool_shapes import Ruling, Tool, ToolDetails, ToolName, Tools, ToolTarget
from ozzie_server_ext.policy.action import Caller
from ozzie_server_ext.tools import base


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsQuery:
    """Nothing."""


async def list_tools(call: Call, asked: ToolsQuery) -> Tools:
    """Every tool, with what the rules say to a call of it by who asks."""
    items = [await _short(call, tool) for tool in call.ozzie.tools.all()]
    return Tools(items=items, next=None, policy_error=call.ozzie.rules.problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolQuery:
    """`name`: its id, or any name that it answers to."""

    name: ToolName


async def show_tool(call: Call, asked: ToolQuery) -> ToolDetails:
    """One tool's whole contract."""
    tool = call.ozzie.tools.find(asked.name)
    if tool is None:
        names = ", ".join(each.meta.name for each in call.ozzie.tools.all())
        raise NotFound(f"There is no tool {asked.name}.", hint=f"There are: {names}.", code="tool.unknown")
    short = await _short(call, tool)
    return ToolDetails(
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


async def _short(call: Call, tool: base.Tool) -> Tool:
    meta = tool.meta
    caller = Caller(project=str(call.ozzie.project.resolve()), channel=Channel.REST, user=call.principal.name)
    verdict = (await call.ozzie.rules.of(meta, {}, caller)).verdict
    return Tool(
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
