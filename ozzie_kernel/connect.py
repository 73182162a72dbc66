"""Finding or starting the gateway of this `OZZIE_PATH`, and getting the kernel's own token."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from jupyter_core.paths import jupyter_runtime_dir

from ozzie_kernel.ahead import launched_ahead
from ozzie_kernel.client import GatewayClient, Refused
from ozzie_kernel.launch import Launched, launch_gateway, reap_ended
from ozzie_server_ext.domain.errors import InputError, OzzieError, Unavailable
from ozzie_server_ext.domain.ids import is_session_id
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.paths import home_folder
from ozzie_server_ext.protocol.attached import owner_expected
from ozzie_server_ext.protocol.handshake import Handshake, find_handshakes, find_other_versions
from ozzie_server_ext.protocol.jsontext import loads_object

if TYPE_CHECKING:
    from tornado.httpclient import HTTPClientError


MAX_BYTES = 64 << 20
"""A larger notebook takes too long to read at a kernel's start; its session is found by its path."""


def noted_session(path: str) -> str:
    """Return the session in the metadata of the notebook at `path`, or ""."""
    try:
        file = Path(path)
        if not path.endswith(".ipynb") or not file.is_file() or file.stat().st_size > MAX_BYTES:
            return ""
        notebook: Any = json.loads(file.read_bytes())
        noted = notebook["metadata"]["ozzie"]["session"]
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return ""
    return noted if isinstance(noted, str) and is_session_id(noted) else ""


T = TypeVar("T")

OWNER_WAIT_S = 15.0
START_WAIT_S = 30.0
LOST_RACE_WAIT_S = 10.0
"""How long to wait for another gateway that started faster than ours, once ours has ended for it."""
MAX_KILLED = 3
"""Restarts after our gateways were killed while starting: the turn itself may be what kills them."""
POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChoice:
    """Which session a kernel uses: by default its notebook's. Otherwise `session_id`, a `new` one, or `again`, one that
    it had before."""

    session_id: str = ""
    new: bool = False
    again: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A connection to a gateway, and this kernel's session there. `copy_of`: the title of the session that it was just
    forked from, because the notebook is a copy."""

    client: GatewayClient
    session_id: str
    handshake: Handshake
    copy_of: str = ""

    @asynccontextmanager
    async def as_user(self) -> AsyncIterator[GatewayClient]:
        """Open a connection with the user's rights to all sessions, for one command. Raises Unavailable."""
        client = await GatewayClient.connect(self.handshake.url, self.handshake.token)
        try:
            yield client
        finally:
            await client.close()


async def connect(
    kernel_id: str, session_name: str, env: Mapping[str, str] = os.environ, *, choice: SessionChoice = SessionChoice()
) -> Link:
    """Connect this kernel to its home's gateway; start one if none runs. `session_name` is Jupyter's: the notebook's
    path.

    Raises Unavailable with a hint, and Refused with the gateway's error.
    """
    noted = "" if choice.again else await asyncio.to_thread(noted_session, session_name)
    return await reach(lambda handshake: _link(handshake, kernel_id, session_name, noted, choice), env)


async def reach(use: Callable[[Handshake], Awaitable[T]], env: Mapping[str, str] = os.environ) -> T:
    """Return the result of `use` with the first usable gateway; start one if none runs.

    `use` raises Unavailable for a gateway that does not answer. Raises Unavailable with a hint.
    """
    home = home_folder(env, Path.home)
    reap_ended()
    _expect_this_version(home)
    # An owner without a handshake is starting, and an attached server takes over soon: waiting is faster.
    wait = OWNER_WAIT_S if owner_expected(home) else 0.0
    try:
        return await _try_until(use, home, seconds=wait)
    except Unavailable:
        launched = launched_ahead(home) or launch_gateway(home)
    for may_be_killed in reversed(range(MAX_KILLED + 1)):
        try:
            return await _try_until(use, home, seconds=START_WAIT_S, launched=launched)
        except Unavailable as error:
            if launched.killed and may_be_killed:
                launched = launch_gateway(home)
                continue
            launched.end()
            raise _unreachable(home, *launched.reason(), error) from None
        except Refused:
            raise  # it works, and others may be using it
        except BaseException:
            launched.end()
            raise
    raise AssertionError("the last round returns or raises")


async def ask_running(method: str, params: Mapping[str, Any], env: Mapping[str, str] = os.environ) -> JsonObject:
    """Send a request to a running gateway of this home as its user; start none.

    Raises Unavailable, and Refused with the gateway's error.
    """

    async def ask(handshake: Handshake) -> JsonObject:
        client = await GatewayClient.connect(handshake.url, handshake.token)
        try:
            return await client.request(method, params)
        finally:
            await client.close()

    return await _try_until(ask, home_folder(env, Path.home), seconds=0.0)


async def _try_until(
    use: Callable[[Handshake], Awaitable[T]], home: Path, *, seconds: float, launched: Launched | None = None
) -> T:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    last = Unavailable("No gateway answers.", code="gateway.unreachable")
    while True:
        reap_ended()
        for handshake in find_handshakes(Path(jupyter_runtime_dir()), home):
            try:
                return await use(handshake)
            except Unavailable as error:
                last = error
        if launched is None or launched.ended:
            end = min(end, loop.time() + (LOST_RACE_WAIT_S if owner_expected(home) else 0.0))
        if loop.time() >= end:
            raise last
        await asyncio.sleep(POLL_S)


def _expect_this_version(home: Path) -> None:
    """Raises Unavailable if only a gateway of another version runs for the home: a second one could not start."""
    runtime = Path(jupyter_runtime_dir())
    if find_other_versions(runtime, home) and next(find_handshakes(runtime, home), None) is None:
        raise Unavailable(
            "The running gateway has another version of Ozzie.",
            hint="Restart Jupyter, or stop that gateway, then run the cell again.",
            code="gateway.version",
        )


def _unreachable(home: Path, reason: str, hint: str, last: Unavailable) -> Unavailable:
    """Return the gateway's own reason and hint for not starting, or a hint where to look."""
    if not reason and last.code != "gateway.unreachable":
        return last
    look = f"Look into {home / 'logs' / 'app'}, or start Jupyter with `jupyter lab` and run the cell again."
    return Unavailable(
        f"Ozzie's gateway could not be started: {reason}" if reason else "Ozzie's gateway could not be reached.",
        hint=hint or look,
        code="gateway.unreachable",
    )


async def _link(handshake: Handshake, kernel_id: str, session_name: str, noted: str, choice: SessionChoice) -> Link:
    wanted: JsonObject = {
        "session_name": session_name,
        "noted": noted,
        "again": choice.again,
        "session_id": choice.session_id,
        "new": choice.new,
        "server_pid": os.getppid(),
    }
    body: JsonObject = {name: value for name, value in wanted.items() if value}
    granted = await _post(f"{handshake.url}ozzie/api/kernels/{kernel_id}/token", handshake.token, body)
    client = await GatewayClient.connect(handshake.url, str(granted["token"]))
    return Link(client, str(granted["session_id"]), handshake, str(granted.get("copy_of", "")))


async def _post(url: str, token: str, body: JsonObject) -> JsonObject:
    # Imported here, so that the kernel is ready sooner.
    from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

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
    except HTTPClientError as error:
        raise _refusal(error) from None
    except OSError as error:
        raise _silent(error) from None
    try:
        return loads_object(response.body)
    except InputError as error:
        raise _silent(error) from None


def _refusal(error: "HTTPClientError") -> OzzieError:
    """Return the gateway's error, or that no gateway is at that address any more."""
    try:
        answer = loads_object(error.response.body) if error.response is not None else {}
    except InputError:
        answer = {}
    code, message, hint = (str(answer.get(name, "")) for name in ("code", "message", "hint"))
    if not message or code.startswith("http."):
        return _silent(error)
    if error.code == 503:
        return Unavailable(message, hint=hint, code=code)
    return Refused(message, hint=hint, code=code)


def _silent(error: Exception) -> Unavailable:
    return Unavailable(f"Ozzie's gateway does not answer: {error}.", code="gateway.unreachable")
