"""The four tools whose calls are cut off: each has its effect, if it has one, in the counter's process."""

import os
from typing import Annotated

from pydantic import Field

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import (
    Idempotency,
    RiskLevel,
    SideEffect,
    Target,
    TargetKind,
    ToolMeta,
    ToolResult,
)
from ozzie_server_ext.tools.base import EffectTool, Plan, Tool, ToolContext, ToolFailed
from tests.integration.crashes.counter import Client
from tests.integration.crashes.runs import Kind, run_of

_EFFECTS = {
    Kind.NONE: SideEffect.NONE,
    Kind.IDEMPOTENT: SideEffect.REVERSIBLE,
    Kind.REVERSIBLE: SideEffect.REVERSIBLE,
    Kind.IRREVERSIBLE: SideEffect.IRREVERSIBLE,
}


def crash_tools(counter: Client) -> tuple[Tool, ...]:
    return tuple(_tool(kind, counter) for kind in Kind)


def _tool(kind: Kind, counter: Client) -> Tool:
    async def plan(context: ToolContext, *, path: Annotated[str, Field(description="where to")]) -> Plan:
        """Add one to what is counted there."""
        await counter.ask_beside("pass", run=run_of(path), point="plan")
        changes = _EFFECTS[kind] is not SideEffect.NONE
        return Plan(args={"path": path}, effect={"counts": path} if changes else None)

    async def run(context: ToolContext, plan: Plan) -> ToolResult:
        name = run_of(str(plan.args["path"]))
        await counter.ask_beside("pass", run=name, point="run")
        had = await counter.ask_beside("effect", run=name, tool=kind, key=context.key, pid=os.getpid())
        if "refused" in had:
            raise ToolFailed("Nobody counts now.")
        return ToolResult(ok=True, data=had, summary="counted")

    async def happened(context: ToolContext, effect: JsonObject) -> bool | None:
        return None  # the counter tells nobody but the test

    return EffectTool(plan, run, _meta(kind), happened=happened)


def _meta(kind: Kind) -> ToolMeta:
    return ToolMeta(
        tool_id=f"crash.{kind}",
        name=f"crash_{kind}",
        side_effect=_EFFECTS[kind],
        risk_level=RiskLevel.LOW,
        timeout_s=60.0,
        idempotency=Idempotency.SUPPORTED if kind is Kind.IDEMPOTENT else Idempotency.NOT_SUPPORTED,
        targets=(Target("path", TargetKind.PATH),),
    )
