"""HTTP requests to the running gateway, with the token of its handshake."""

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

from ozzie_server_ext.domain.errors import InputError, NotFound, OzzieError, Unavailable
from ozzie_server_ext.domain.ids import is_ulid
from ozzie_server_ext.domain.paths import home_folder
from ozzie_server_ext.protocol.handshake import Handshake, find_handshakes
from ozzie_server_ext.protocol.jsontext import loads_object
from ozzie_server_ext.render.text import visible_label

T = TypeVar("T")

TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 64 << 20
MAX_PAGE = 500

Object = dict[str, Any]
"""A JSON object from the gateway; `gateway.rest.shapes` declares the shapes."""


class NotRunning(Unavailable):
    """No gateway of this home answers."""

    code = "gateway.not_running"

    def __init__(self, home: Path) -> None:
        super().__init__(
            f"No gateway runs for {home}.",
            hint="Start one with ozzie gateway --detach, or start Jupyter with jupyter lab.",
        )


class Silent(Unavailable):
    """A gateway of this home runs but does not answer."""

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
    """Return the running gateways of this home, the newest first. Raises Unavailable."""
    home = this_home()
    return list(find_handshakes(Path(jupyter_runtime_dir()), home))


def get(path: str, *, timeout_s: float = TIMEOUT_S, **query: Any) -> Object:
    """`GET /ozzie/api/<path>` from the first gateway of this home that answers. Leave None out of the query.

    Raises NotRunning, Silent, or Answered.
    """
    given = {name: value for name, value in query.items() if value is not None}
    given |= {name: str(value).lower() for name, value in given.items() if isinstance(value, bool)}
    return _request(f"{path}?{urllib.parse.urlencode(given, doseq=True)}" if given else path, None, timeout_s, ask_at)


def get_bytes(path: str, *, timeout_s: float = TIMEOUT_S) -> bytes:
    """As `get`, for a response that is not JSON."""
    return _request(path, None, timeout_s, read_at)


def post(path: str, body: Object, *, timeout_s: float = TIMEOUT_S) -> Object:
    """`POST /ozzie/api/<path>`, as `get`."""
    return _request(path, json.dumps(body).encode(), timeout_s, ask_at)


def delete(path: str, *, timeout_s: float = TIMEOUT_S) -> Object:
    """`DELETE /ozzie/api/<path>`, as `get`."""
    return _request(path, None, timeout_s, partial(ask_at, method="DELETE"))


def items(path: str, count: int, **query: Any) -> Iterator[Object]:
    """Yield the first `count` items of a list, page by page."""
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


def expect_id(text: str, what: str) -> None:
    """Raise NotFound unless `text` is an id, of a task, an approval or an artifact."""
    if not is_ulid(text):
        raise NotFound(f"There is no {what} {visible_label(text)[:40]}.", hint=f"List them with ozzie {what}s list.")


def _request(path: str, body: bytes | None, timeout_s: float, send: Callable[..., T]) -> T:
    found = handshakes()
    for handshake in found:
        try:
            return send(handshake, path, body, timeout_s)
        except (OSError, HTTPException, InputError):
            continue
    raise Silent(found[0].pid) if found else NotRunning(this_home())


def ask_at(
    handshake: Handshake, path: str, body: bytes | None = None, timeout_s: float = TIMEOUT_S, method: str | None = None
) -> Object:
    """Return this gateway's response. Raises Answered; OSError, HTTPException or InputError from anything else."""
    return loads_object(read_at(handshake, path, body, timeout_s, method), max_bytes=MAX_ANSWER_BYTES)


def read_at(handshake: Handshake, path: str, body: bytes | None, timeout_s: float, method: str | None = None) -> bytes:
    """As `ask_at`, but return raw bytes. Without a `method`, use POST with a body and GET without."""
    request = urllib.request.Request(
        f"{handshake.url}ozzie/api/{path}",
        data=body,
        headers={"Authorization": f"token {handshake.token}", "Content-Type": "application/json"},
        method=method,
    )
    # A loopback address that came with the token from a private file: its certificate may be the user's own, and no
    # proxy from the environment may sit between this machine and itself.
    trusting = ssl._create_unverified_context() if handshake.url.startswith("https") else None
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusting))
    try:
        with opener.open(request, timeout=timeout_s) as response:
            return response.read()
    except urllib.error.HTTPError as error:
        raise _refusal(error.code, error.read()) from None


def _refusal(status: int, body: bytes) -> Answered:
    """Return the gateway's error. The body may be anything: a proxy may have written it."""
    try:
        error = loads_object(body)
    except InputError:
        error = {}
    message, hint, code = (str(error.get(name, "")) for name in ("message", "hint", "code"))
    return Answered(message or f"The gateway answered with status {status}.", hint=hint, code=code or f"http.{status}")
