"""Finding the gateway of this `OZZIE_PATH`, or starting one, and getting the kernel's own token (GW-7, NB-10)."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_core.paths import jupyter_runtime_dir
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from ozzie_kernel.client import GatewayClient
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.places import home_folder
from ozzie_server_ext.protocol.handshake import Handshake, find_handshakes
from ozzie_server_ext.protocol.jsontext import loads_object

SERVER_WAIT_S = 15.0
START_WAIT_S = 30.0
POLL_S = 0.05
IDLE_EXIT_S = 600


@dataclass(frozen=True, slots=True)
class Link:
    """A connected gateway and the session that this kernel was given there."""

    client: GatewayClient
    session_id: str
    url: str


async def connect(kernel_id: str, session_name: str, env: Mapping[str, str] = os.environ) -> Link:
    """A connection to this home's gateway.

    A kernel that a Jupyter Server started waits for that server's Ozzie; any other starts a gateway where none
    runs. Raises Unavailable, with what to do.
    """
    home = home_folder(env, Path.home())
    runtime = Path(jupyter_runtime_dir())
    wait = SERVER_WAIT_S if "JPY_PARENT_PID" in env else 0.0
    link = await _try_until(runtime, home, kernel_id, session_name, seconds=wait)
    if link is None:
        child = _start_gateway(home)
        link = await _try_until(runtime, home, kernel_id, session_name, seconds=START_WAIT_S, child=child)
    if link is None:
        raise Unavailable(
            "Ozzie's gateway can't be reached and could not be started.",
            hint=f"Look into {home / 'logs' / 'app'}, or start Jupyter with `jupyter lab` and run the cell again.",
            code="gateway.unreachable",
        )
    return link


async def _try_until(
    runtime: Path,
    home: Path,
    kernel_id: str,
    session_name: str,
    *,
    seconds: float,
    child: "subprocess.Popen[bytes] | None" = None,
) -> Link | None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        for handshake in find_handshakes(runtime, home):
            try:
                return await _link(handshake, kernel_id, session_name)
            except Unavailable:
                continue
        # A gateway that lost the race for the lock ends at once; the winner's handshake is about to be there.
        if loop.time() >= end or (child is not None and child.poll() not in (None, 0)):
            return None
        await asyncio.sleep(POLL_S)


async def _link(handshake: Handshake, kernel_id: str, session_name: str) -> Link:
    granted = await _post(
        f"{handshake.url}ozzie/api/kernels/{kernel_id}/token", handshake.token, {"session_name": session_name}
    )
    client = await GatewayClient.connect(handshake.url, str(granted["token"]))
    return Link(client, str(granted["session_id"]), handshake.url)


async def _post(url: str, token: str, body: JsonObject) -> JsonObject:
    request = HTTPRequest(
        url,
        method="POST",
        headers={"Authorization": f"token {token}", "Content-Type": "application/json"},
        body=json.dumps(body),
        connect_timeout=5,
        request_timeout=10,
        validate_cert=False,
    )
    try:
        response = await AsyncHTTPClient().fetch(request)
    except (OSError, HTTPClientError) as error:
        raise Unavailable(f"Ozzie's gateway does not answer: {error}.", code="gateway.unreachable") from None
    return loads_object(response.body)


def _start_gateway(home: Path) -> "subprocess.Popen[bytes]":
    """A gateway of its own process session, so that neither the kernel's interrupt nor its end reaches it."""
    logs = home / "logs" / "app"
    logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(logs / "gateway-start.log", "ab", opener=_private) as output:
        return subprocess.Popen(
            [sys.executable, "-m", "ozzie_server_ext.programs.gateway", "--port", "0", "--idle-exit", str(IDLE_EXIT_S)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
