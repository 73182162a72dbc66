"""Finding the gateway of this `OZZIE_PATH`, or starting one, and getting the kernel's own token (GW-7, NB-10)."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from jupyter_core.paths import jupyter_runtime_dir
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from ozzie_kernel.client import GatewayClient
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.places import home_folder
from ozzie_server_ext.protocol.handshake import Handshake, find_handshakes, owner_alive
from ozzie_server_ext.protocol.jsontext import loads_object

T = TypeVar("T")

OWNER_WAIT_S = 15.0
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
    """This kernel's link to its home's gateway; one is started where none runs.

    Raises Unavailable, with what to do.
    """

    async def link(handshake: Handshake) -> Link:
        return await _link(handshake, kernel_id, session_name)

    return await reach(link, env)


async def reach(use: Callable[[Handshake], Awaitable[T]], env: Mapping[str, str] = os.environ) -> T:
    """What `use` makes of the first gateway that it can use, starting one where none runs.

    `use` raises Unavailable for a gateway that does not answer. Raises Unavailable, with what to do.
    """
    home = home_folder(env, Path.home)
    # An owner that has not written its handshake yet is just starting: to wait for it is quicker than to compete.
    wait = OWNER_WAIT_S if owner_alive(home) else 0.0
    try:
        return await _try_until(use, home, seconds=wait)
    except Unavailable:
        child = _start_gateway(home)
    try:
        return await _try_until(use, home, seconds=START_WAIT_S, child=child)
    except Unavailable:
        raise Unavailable(
            "Ozzie's gateway can't be reached and could not be started.",
            hint=f"Look into {home / 'logs' / 'app'}, or start Jupyter with `jupyter lab` and run the cell again.",
            code="gateway.unreachable",
        ) from None


async def _try_until(
    use: Callable[[Handshake], Awaitable[T]],
    home: Path,
    *,
    seconds: float,
    child: "subprocess.Popen[bytes] | None" = None,
) -> T:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        for handshake in find_handshakes(Path(jupyter_runtime_dir()), home):
            try:
                return await use(handshake)
            except Unavailable:
                continue
        # A gateway of ours that lost the race for the lock has ended; the winner's handshake is about to be there.
        if loop.time() >= end or (child is not None and child.poll() not in (None, 0)):
            raise Unavailable("No gateway answers.")
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
