"""Asking the running gateway over HTTP, with the token of its handshake."""

import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar

from jupyter_core.paths import jupyter_runtime_dir

from ozzie_server_ext.domain.errors import InputError, OzzieError, Unavailable
from ozzie_server_ext.domain.paths import home_folder
from ozzie_server_ext.protocol.handshake import Handshake, find_handshakes
from ozzie_server_ext.protocol.jsontext import loads_object

T = TypeVar("T")

TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 64 << 20
MAX_PAGE = 500

Object = dict[str, Any]
"""A JSON object of the gateway, whose shape `gateway.rest.shapes` declares."""


class NotRunning(Unavailable):
    """No gateway of this home answers."""

    code = "gateway.not_running"

    def __init__(self, home: Path) -> None:
        super().__init__(
            f"No gateway runs for {home}.",
            hint="Start one with ozzie gateway --detach, or start Jupyter with jupyter lab.",
        )


class Silent(Unavailable):
    """There is a gateway of this home, and it does not answer."""

    code = "gateway.silent"

    def __init__(self, pid: int) -> None:
        super().__init__(
            f"The gateway (process {pid}) does not answer.",
            hint="Try again in a moment. If that does not help, end it.",
        )


class Answered(OzzieError):
    """The gateway refused; code, message and hint are its own."""


def this_home() -> Path:
    """The `OZZIE_PATH` of this terminal. Raises Unavailable."""
    return home_folder(os.environ, Path.home)


def handshakes() -> list[Handshake]:
    """The living gateways of this home, the newest first. Raises Unavailable."""
    home = this_home()
    return list(find_handshakes(Path(jupyter_runtime_dir()), home))


def get(path: str, *, timeout_s: float = TIMEOUT_S, **query: Any) -> Object:
    """`GET /ozzie/api/<path>` at the first gateway of this home that answers; what is None is left out of the query.

    Raises NotRunning, Silent, or Answered.
    """
    given = {name: _in_query(value) for name, value in query.items() if value is not None}
    return _ask(f"{path}?{urllib.parse.urlencode(given, doseq=True)}" if given else path, None, timeout_s, ask_at)


def get_bytes(path: str, *, timeout_s: float = TIMEOUT_S) -> bytes:
    """As `get`, for what is no JSON."""
    return _ask(path, None, timeout_s, read_at)


def post(path: str, body: Object, *, timeout_s: float = TIMEOUT_S) -> Object:
    """`POST /ozzie/api/<path>`, as `get`."""
    return _ask(path, json.dumps(body).encode(), timeout_s, ask_at)


def delete(path: str, *, timeout_s: float = TIMEOUT_S) -> Object:
    """`DELETE /ozzie/api/<path>`, as `get`."""
    return _ask(path, None, timeout_s, partial(ask_at, method="DELETE"))


def items(path: str, count: int, **query: Any) -> Iterator[Object]:
    """The first `count` items of a list, page by page."""
    if count < 1:
        raise InputError("limit must be a number from 1 on.")
    cursor = None
    while count > 0:
        page = get(path, limit=min(count, MAX_PAGE), cursor=cursor, **query)
        yield from page["items"]
        count -= len(page["items"])
        cursor = page["next"]
        if cursor is None:
            return


def _in_query(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _ask(path: str, body: bytes | None, timeout_s: float, asking: Callable[..., T]) -> T:
    found = handshakes()
    for handshake in found:
        try:
            return asking(handshake, path, body, timeout_s)
        except (OSError, HTTPException, InputError):
            continue
    raise Silent(found[0].pid) if found else NotRunning(this_home())


def ask_at(
    handshake: Handshake, path: str, body: bytes | None = None, timeout_s: float = TIMEOUT_S, method: str | None = None
) -> Object:
    """The answer of this very gateway. Raises Answered; OSError, HTTPException or InputError
    where what answers is no gateway."""
    return loads_object(read_at(handshake, path, body, timeout_s, method), max_bytes=MAX_ANSWER_BYTES)


def read_at(handshake: Handshake, path: str, body: bytes | None, timeout_s: float, method: str | None = None) -> bytes:
    """As `ask_at`, whatever it answers. Without a `method`, it is POST where there is a body, and GET where not."""
    request = urllib.request.Request(
        f"{handshake.url}ozzie/api/{path}",
        data=body,
        headers={"Authorization": f"token {handshake.token}", "Content-Type": "application/json"},
        method=method,
    )
    # The address is this machine's own and came with the token from a private file: its certificate may be made by
    # the user, and no proxy of the environment may come between this machine and itself.
    trusting = ssl._create_unverified_context() if handshake.url.startswith("https") else None
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusting))
    try:
        with opener.open(request, timeout=timeout_s) as response:
            return response.read()
    except urllib.error.HTTPError as error:
        raise _refusal(error.code, error.read()) from None


def _refusal(status: int, body: bytes) -> Answered:
    """What the gateway said; something between it and us may have said anything."""
    try:
        said = loads_object(body)
    except InputError:
        said = {}
    message, hint, code = (str(said.get(name, "")) for name in ("message", "hint", "code"))
    return Answered(
        message or f"The gateway answers with the status {status}.", hint=hint, code=code or f"http.{status}"
    )
