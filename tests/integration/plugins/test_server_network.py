"""What a server in its sandbox reaches: the hosts that it was granted, and nothing else."""

import sys
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ozzie_server_ext.plugins.tool_host import ServerFailed, ToolHost
from ozzie_server_ext.protocol.tool_host import Output, ServerAccess, Started
from tests.mcp_rig import expect_sandbox, tool_host

pytestmark = pytest.mark.timeout(90)

WITHIN_S = 30
FETCH = (sys.executable, "-m", "mcp_server_fetch", "--ignore-robots-txt", "--allow-private-ips")


class Site:
    """A web server on this machine, and what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(f"{self.headers.get('Host')} {self.path}")
                body = b"plain words"
                self.send_response(200)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[ToolHost]:
    expect_sandbox()
    async with tool_host(tmp_path) as running:
        yield running


async def fetched(host: ToolHost, hosts: tuple[str, ...], url: str) -> Output:
    """What the fetch server of the MCP's authors returns for an address, granted these hosts."""
    connection = await host.open(Started(argv=FETCH, access=ServerAccess(hosts=hosts)), within_s=WITHIN_S)
    try:
        return await connection.call("fetch", {"url": url, "raw": True}, within_s=WITHIN_S)
    finally:
        connection.close()


async def test_a_server_without_a_grant_reaches_nothing(host: ToolHost, site: Site) -> None:
    output = await fetched(host, (), f"http://localhost:{site.port}/")

    assert (output.failed, site.asked) == (True, [])


async def test_a_granted_host_is_reached_at_its_port(host: ToolHost, site: Site) -> None:
    output = await fetched(host, (f"localhost:{site.port}",), f"http://localhost:{site.port}/a?b=1")

    assert not output.failed, output
    assert "plain words" in output.texts[0]
    assert site.asked == [f"localhost:{site.port} /a?b=1"]


@pytest.mark.parametrize(
    ("grant", "name", "why"),
    [
        ("localhost:1", "localhost", "which nobody granted it"),
        ("*", "localhost", "which nobody granted it"),  # at the ports of the web alone
        ("localhost:{port}", "127.0.0.1", "which nobody granted it"),
        ("*:{port}", "localhost", "which leads into a private network"),
    ],
)
async def test_another_host_is_refused_and_named(host: ToolHost, site: Site, grant: str, name: str, why: str) -> None:
    output = await fetched(host, (grant.format(port=site.port),), f"http://{name}:{site.port}/")

    assert output.failed
    assert f"{name}:{site.port}" in output.texts[-1]
    assert why in output.texts[-1]
    assert site.asked == []


async def test_the_ports_of_this_machine_are_not_those_of_a_sandbox(host: ToolHost, site: Site) -> None:
    code = f"import socket; socket.create_connection(('127.0.0.1', {site.port}), 2)"
    access = ServerAccess(hosts=(f"localhost:{site.port}",))

    with pytest.raises(ServerFailed, match="Connection refused"):
        await host.open(Started(argv=(sys.executable, "-c", code), access=access), within_s=WITHIN_S)
