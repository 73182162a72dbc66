"""A gateway with tools that misbehave: `python -m tests.fakes.hostile_gateway`. A message that is the name of one has
it called; any other is only answered."""

import asyncio
import re
from collections.abc import AsyncGenerator

from ozzie_server_ext import app
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.toolmeta import Idempotency, RiskLevel, SideEffect, ToolMeta, ToolResult
from ozzie_server_ext.models.driver import ModelEvent, ModelRequest
from ozzie_server_ext.models.scripted import Say, ScriptedDriver, Use
from ozzie_server_ext.programs import gateway
from ozzie_server_ext.tasks import projects
from ozzie_server_ext.tools.base import FunctionTool, ToolContext
from ozzie_server_ext.tools.builtin import builtin_tools

GIB = 1 << 30
PIECE = 1 << 20
TIMEOUT_S = 0.5


async def hang(context: ToolContext) -> ToolResult:
    """Never come to an end."""
    await asyncio.Event().wait()
    return ToolResult(ok=True)


async def ignore(context: ToolContext) -> ToolResult:
    """Never come to an end, whatever anybody says."""
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


async def flood(context: ToolContext) -> ToolResult:
    """Give back a gigabyte in pieces."""
    pieces: list[Json] = []
    for number in range(GIB // PIECE):
        pieces.append(chr(ord("a") + number % 26) * PIECE)
        await asyncio.sleep(0)
    return ToolResult(ok=True, data=pieces)


async def deluge(context: ToolContext) -> ToolResult:
    """Give back a gigabyte as one text."""
    return ToolResult(ok=True, data="x" * GIB)


async def garble(context: ToolContext) -> ToolResult:
    """Give back bytes that are no UTF-8."""
    return ToolResult(ok=True, data=b"caf\xe9 \xff".decode("utf-8", "surrogateescape"))


HOSTILE = (hang, ignore, flood, deluge, garble)
NAMES = [function.__name__ for function in HOSTILE]


def tools() -> tuple[FunctionTool, ...]:
    return tuple(
        FunctionTool(
            function,
            ToolMeta(
                tool_id=f"hostile.{function.__name__}",
                name=function.__name__,
                side_effect=SideEffect.NONE,
                risk_level=RiskLevel.LOW,
                timeout_s=TIMEOUT_S if function in (hang, ignore) else 60,
                idempotency=Idempotency.SUPPORTED,
            ),
        )
        for function in HOSTILE
    )


class Obedient:
    """A model that calls the tool which the last message names, then says what came of it."""

    def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        last = request.messages[-1]
        named = re.search(r"\w+", last.content) if last.role == "user" else None
        step = Use(named[0], {}) if named and named[0] in NAMES else Say(f"It said: {last.content}")
        return ScriptedDriver([[step]]).generate(request)


if __name__ == "__main__":
    projects.builtin_tools = lambda: (*builtin_tools(), *tools())
    app.OfflineDriver = Obedient
    gateway.main()
