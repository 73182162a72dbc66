"""A call of Ozzie's calculator by an MCP client over HTTP, against a server of the `mcp` package with the same tool.

Both are asked by the same client, in turns, in each era of the protocol. Theirs answers; ours lets the client in, hands
its request to the process that speaks the protocol, makes a task of the call, decides about it and records it.
"""

import argparse
import asyncio
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.broker import times_of
from bench.result import Result, emit
from tests.mcp_clients import ERAS, over_http, text_of
from tests.rig import new_home, start_gateway

if TYPE_CHECKING:
    from mcp.client import Client

CALLS = 200
WARM = 20
MORE_MS = 20.0
"""The target: how many milliseconds a call may take above the plain server's; a person sees no wait."""
TOOL, SUM = "calculator", {"expr": "6*7"}
PLAIN = """
import sys
from mcp.server import MCPServer
server = MCPServer("plain")

@server.tool()
def calculator(expr: str) -> dict[str, str]:
    "Evaluate an arithmetic expression."
    return {"value": str(eval(expr))}

import logging
logging.disable(logging.WARNING)
server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
"""
START_S = 30.0


@contextmanager
def plain_server() -> Iterator[str]:
    """The address of a server of the package, in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    child = subprocess.Popen([sys.executable, "-c", PLAIN, str(port)])
    try:
        end = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        child.kill()
        child.wait()


@asynccontextmanager
async def plain_client(url: str, era: str) -> "AsyncIterator[Client]":
    from mcp.client import Client

    async with Client(url, mode="legacy" if era == ERAS[0] else era) as client:
        yield client


async def _measured(folder: Path, calls: int) -> list[Result]:
    found: list[Result] = []
    with start_gateway(new_home(folder)) as gateway, plain_server() as url:
        for era in ERAS:
            async with AsyncExitStack() as opened:
                theirs = await opened.enter_async_context(plain_client(url, era))
                ours = await opened.enter_async_context(over_http(gateway, era))
                for client in (theirs, ours):
                    assert "42" in text_of(await client.call_tool(TOOL, SUM))
                times = await times_of(
                    [lambda: theirs.call_tool(TOOL, SUM), lambda: ours.call_tool(TOOL, SUM)],  # noqa: B023 - at once
                    calls,
                    warm=WARM,
                )
            there, here = [statistics.median(each) / 1000 for each in times]
            found.append(
                Result(
                    name=f"a call by an MCP client over HTTP, {era}, against a plain server of the `mcp` package",
                    ours=round(here, 2),
                    against=round(there, 2),
                    ratio=round(here / there, 2),
                    unit="ms",
                    target=f"<= {MORE_MS:g} ms more",
                    met=here - there <= MORE_MS,
                    note=f"{here - there:.2f} ms more, for a task, its decision and its records",
                )
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS)
    calls = parser.parse_args().calls
    with tempfile.TemporaryDirectory() as folder:
        emit(asyncio.run(_measured(Path(folder).resolve(), calls)))


if __name__ == "__main__":
    main()
