"""Ozzie as a server of the MCP inspector's command line, a client that many authors try their servers with.

It is installed by the lock of `tests/servers`, which holds `vite` at a version whose optional dependencies are all
published; the inspector's page wants it, its command line never loads it.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.test_client import NODE
from tests.rig import Gateway, new_home, start_gateway
from tests.tiers import rows

pytestmark = pytest.mark.timeout(120)

INSPECTOR = Path(sys.prefix) / "servers/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
SERVE = [sys.executable, "-m", "ozzie_server_ext.cli.main", "mcp", "serve"]
WAYS = rows(
    (f"{era} {way}" for era in ("legacy", "modern") for way in ("stdio", "http")), "modern stdio", "legacy http"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with start_gateway(new_home(tmp_path_factory.mktemp("inspected"))) as running:
        yield running


def inspect(server: Gateway, way: str, *words: str) -> tuple[int, Any]:
    """The exit status and the result of one request of the inspector; its words, if it prints no result."""
    era, transport = way.split()
    over_http = ["--server-url", f"{server.url}ozzie/mcp", "--header", f"Authorization: Bearer {server.token}"]
    target = over_http if transport == "http" else ["--", *SERVE]
    options = ["--protocol-era", era, "--transport", transport, "--stored-auth-only", "--format", "json", "--quiet"]
    done = subprocess.run(
        [str(NODE), str(INSPECTOR), "--cli", *options, *words, *target],
        env={**server.home.env, "HOME": str(server.home.home.parent)},
        cwd=server.home.project,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


@pytest.mark.parametrize("way", WAYS)
def test_the_inspector_finds_no_fault_and_calls_a_tool(server: Gateway, way: str) -> None:
    status, listed = inspect(server, way, "--method", "tools/list", "--strict")
    assert status == 0, listed
    assert {"calculator", "write_file", "ozzie_ask"} <= {tool["name"] for tool in listed["result"]["tools"]}

    status, called = inspect(
        server, way, "--method", "tools/call", "--tool-name", "calculator", "--tool-arg", "expr=6*7"
    )
    assert status == 0, called
    assert called["result"]["structuredContent"] == {"value": "42"}

    status, sessions = inspect(server, way, "--method", "resources/list")
    assert status == 0, sessions
    uri = sessions["result"]["resources"][0]["uri"]
    status, read = inspect(server, way, "--method", "resources/read", "--uri", uri)
    assert status == 0, read
    assert read["result"]["contents"][0]["uri"] == uri
