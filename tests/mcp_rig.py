"""Real tool hosts and MCP servers in their sandbox, for tests."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.execution.box import find_programs
from ozzie_server_ext.planes.supervisor import Supervisor
from ozzie_server_ext.plugins.connections import Values
from ozzie_server_ext.plugins.effects import Effect
from ozzie_server_ext.plugins.manifest import McpText
from ozzie_server_ext.plugins.servers import (
    SettledServer,
    settle,
    write_own,
)
from ozzie_server_ext.plugins.settling import proposed
from ozzie_server_ext.plugins.tool_host import HOST_ARGV, ToolHost
from ozzie_server_ext.protocol.tool_host import ServerAccess, Started

SCRIPT = Path(__file__).parent / "fakes" / "mcp_server.py"
EFFECTS = {
    **dict.fromkeys(
        ("echo", "picture", "structured", "fail", "look", "steps", "secret", "flood", "link", "ask"), Effect.READS
    ),
    **dict.fromkeys(("keep", "die", "hang", "nonsense", "change_list", "ask_and_keep"), Effect.CHANGES),
    "forget": Effect.DELETES,
}
"""What a person says of the tools of the server that is told how to behave; `silent` stays unclassified."""


def expect_sandbox() -> None:
    """Skip without a sandbox, which servers need."""
    try:
        find_programs(root=False)
    except Unavailable as error:
        if os.environ.get("OZZIE_REQUIRE_SANDBOX"):
            raise
        pytest.skip(f"{error} {error.hint}")


def told(state: Path, **env: str) -> Started:
    """The server that is told how to behave, with its state in a folder."""
    state.mkdir(parents=True, exist_ok=True)
    access = ServerAccess(writes=(str(state.resolve()),), reads=(str(SCRIPT),))
    return Started(argv=(sys.executable, str(SCRIPT), str(state.resolve())), env=env, access=access)


@asynccontextmanager
async def tool_host(folder: Path) -> AsyncIterator[ToolHost]:
    host = ToolHost(Supervisor("tool host", HOST_ARGV, log_file=folder / "tool-host.log"))
    try:
        yield host
    finally:
        await host.stop()


async def add(home: Home, state: Path, *, name: str = "told", **env: str) -> SettledServer:
    """List the server that is told how to behave as the user's own, trusted and classified."""
    server = told(state, **env)
    how = McpText(command=sys.executable, args=server.argv[1:], env=env)
    values = Values(os.environ.get, state)
    async with tool_host(state.parent) as host:
        proposal = await proposed(
            home, host, name, how, how, server.access, None, lambda _: values, now=datetime.now(UTC)
        )
    write_own(home, name, how)
    settled = classified(proposal.settled, EFFECTS)
    settle(home, name, settled)
    return settled


def classified(settled: SettledServer, effects: dict[str, Effect]) -> SettledServer:
    tools = {name: replace(tool, effect=effects.get(name)) for name, tool in settled.tools.items()}
    return replace(settled, tools=tools)
