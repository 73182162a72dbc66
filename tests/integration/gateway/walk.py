"""Requests as any program could send them, and an example path for each route."""

import contextlib
import http.client
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ozzie_server_ext.gateway import routes
from ozzie_server_ext.gateway.routes import PREFIX, WS_PATH
from tests.rig import Gateway

KERNEL_ID = "11111111-2222-3333-4444-555555555555"
EXAMPLES = {
    "pin_id": "01J00000000000000000000000",
    "kernel_id": KERNEL_ID,
    "name": "calculator",
    "task_id": "01M800000000000000000000ZZ",
    "approval_id": "01M800000000000000000000ZZ",
    "artifact_id": "01M800000000000000000000ZZ",
    "message_id": "01M800000000000000000000ZZ",
    "session_id": "sess_01M800000000000000000000ZZ",
    "step_id": "gate",
    "incident_id": "01M800000000000000000000ZZ",
}
WS_UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def example(path: str) -> str:
    """An address that the path matches."""
    return PREFIX + re.sub(r"\{(\w+)\}", lambda match: EXAMPLES[match[1]], path)


REST = [(operation.method, example(operation.path)) for operation in routes.REST]
NOWHERE = [(method, f"{PREFIX}/nonesuch") for method in ("GET", "POST", "PUT", "PATCH", "DELETE")]
WS = ("GET", PREFIX + WS_PATH)


def ask(
    gateway: Gateway,
    method: str,
    path: str,
    *,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
    body: str | bytes | None = None,
) -> tuple[int, dict[str, Any]]:
    """Status and JSON body of one request."""
    status, _, found = ask_whole(gateway, method, path, token=token, headers=headers, body=body)
    return status, found


def ask_whole(
    gateway: Gateway,
    method: str,
    path: str,
    *,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
    body: str | bytes | None = None,
) -> tuple[int, Mapping[str, str], dict[str, Any]]:
    """Status, headers and JSON body of one request."""
    address = urlsplit(gateway.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
    sent = {"Content-Type": "application/json"} if method == "POST" else {}
    if path.split("?")[0] == WS[1]:
        sent |= WS_UPGRADE
    if token:
        sent["Authorization"] = f"token {token}"
    with contextlib.closing(connection):
        connection.request(
            method, path, body="{}" if method == "POST" and body is None else body, headers={**sent, **(headers or {})}
        )
        socket = connection.sock
        with contextlib.closing(connection.getresponse()) as response:
            if response.status == 101:
                socket.close()
                return 101, {}, {}
            text = response.read()
    try:
        found = json.loads(text)
    except ValueError:
        found = {}
    return response.status, dict(response.getheaders()), found
