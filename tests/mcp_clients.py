"""Real MCP clients of Ozzie: the `mcp` package's, over HTTP and over standard streams; and one that sends what it is
told to."""

import json
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ozzie_server_ext.gateway.access import ON_BEHALF_OF
from tests.rig import Gateway, GatewayHome

if TYPE_CHECKING:
    from mcp.client import Client
    from mcp_types import CallToolResult

OLDER, NEWER = "2025-11-25", "2026-07-28"
ERAS = (OLDER, NEWER)
WITHIN_S = 40.0


def _mode(era: str) -> str:
    return "legacy" if era == OLDER else era


@asynccontextmanager
async def over_http(
    gateway: Gateway, era: str, *, name: str = "tester", user: str = "", token: str = "", **more: Any
) -> "AsyncIterator[Client]":
    """A client over streamable HTTP, on behalf of a `user` of an attached server if one is named."""
    import httpx2
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp_types import Implementation

    headers = {"Authorization": f"Bearer {token or gateway.token}", **({ON_BEHALF_OF: user} if user else {})}
    async with httpx2.AsyncClient(headers=headers, timeout=WITHIN_S) as http:
        transport = streamable_http_client(f"{gateway.url}ozzie/mcp", http_client=http)
        info = Implementation(name=name, version="1")
        async with Client(transport, mode=_mode(era), client_info=info, **more) as client:
            yield client


@asynccontextmanager
async def over_stdio(home: GatewayHome, era: str, *words: str) -> "AsyncIterator[Client]":
    """A client of `ozzie mcp serve`."""
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    command = ["-m", "ozzie_server_ext.cli.main", "mcp", "serve", *words]
    started = StdioServerParameters(command=sys.executable, args=command, env=dict(home.env), cwd=str(home.project))
    async with Client(stdio_client(started), mode=_mode(era)) as client:
        yield client


def mcp_error() -> type[Exception]:
    """The class of the errors that a client raises."""
    from mcp.shared.exceptions import MCPError

    return MCPError


def text_of(result: "CallToolResult") -> str:
    return "\n".join(each.text for each in result.content if each.type == "text")


def newer(method: str, request_id: Any = 1, *, name: str = "", **params: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """The headers and the body of a request of the newer era."""
    headers = {"MCP-Protocol-Version": NEWER, "Mcp-Method": method, **({"Mcp-Name": name} if name else {})}
    meta = {
        "io.modelcontextprotocol/protocolVersion": NEWER,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        **params.pop("meta", {}),
    }
    named = {"name": name} if name else {}
    params = {**named, **params, "_meta": meta}
    return headers, {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


class Raw:
    """Sends single requests, each over a connection of its own."""

    def __init__(self, gateway: Gateway, **headers: str) -> None:
        self._address = urlsplit(gateway.url)
        self.within_s = WITHIN_S
        self.headers = {"Authorization": f"token {gateway.token}", **headers}

    @contextmanager
    def open(
        self,
        method: str,
        body: Any = None,
        *,
        path: str = "ozzie/mcp",
        **headers: str | None,
    ) -> Iterator[HTTPResponse]:
        """The answer to a request, as it comes. A header of None is left out; `_` stands for `-` in their names."""
        connection = HTTPConnection(str(self._address.hostname), self._address.port, timeout=self.within_s)
        sent = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **self.headers}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            connection.request(
                method,
                f"{self._address.path}{path}",
                body=data,
                headers={name: value for name, value in sent.items() if value is not None},
            )
            yield connection.getresponse()
        finally:
            if connection.sock is not None:
                connection.sock.close()
            connection.close()

    def send(self, method: str, body: Any = None, **headers: Any) -> tuple[int, str]:
        """Status and text of a request's answer."""
        with self.open(method, body, **headers) as answer:
            return answer.status, answer.read().decode()

    def begin(self) -> str:
        """Begin a session of the older era; return its id."""
        hello = {
            "jsonrpc": "2.0",
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": OLDER,
                "capabilities": {},
                "clientInfo": {"name": "raw", "version": "1"},
            },
        }
        with self.open("POST", hello) as answer:
            session = str(answer.getheader("mcp-session-id"))
            assert answer.status == 200, answer.read()
            answer.read()
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert self.send("POST", done, Mcp_Session_Id=session)[0] == 202
        return session


def events_in(answer: HTTPResponse) -> Iterator[tuple[str, Any]]:
    """The id and the message of each event of a stream, as they come."""
    event_id, data = "", ""
    with suppress(HTTPException, ValueError):
        while line := answer.readline().decode():
            line = line.rstrip("\r\n")
            if line.startswith("id:"):
                event_id = line[3:].strip()
            elif line.startswith("data:"):
                data += line[5:].strip()
            elif not line and (event_id or data):
                yield event_id, json.loads(data) if data else None
                event_id, data = "", ""


def in_background(work: Any) -> threading.Thread:
    """Run `work` in a thread that nobody waits for."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
