"""Asking the running gateway over HTTP, with the token of its handshake."""

import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_runtime_dir

from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.places import home_folder
from ozzie_server_ext.protocol.handshake import Handshake, find_handshakes
from ozzie_server_ext.protocol.jsontext import loads_object

TIMEOUT_S = 10.0


class NotRunning(Unavailable):
    """No gateway of this home answers."""

    code = "gateway.not_running"

    def __init__(self, home: Path) -> None:
        super().__init__(
            f"No gateway runs for {home}.", hint="Start one with `ozzie gateway`, or start Jupyter with `jupyter lab`."
        )


class Answered(OzzieError):
    """The gateway refused; code, message and hint are its own."""


def get(path: str) -> JsonObject:
    """`GET /ozzie/api/<path>` at the first gateway of this home that answers.

    Raises NotRunning, or Answered.
    """
    return _ask(path, None)


def post(path: str, body: JsonObject) -> JsonObject:
    """`POST /ozzie/api/<path>`, as `get`."""
    return _ask(path, json.dumps(body).encode())


def _ask(path: str, body: bytes | None) -> JsonObject:
    home = home_folder(os.environ, Path.home)
    for handshake in find_handshakes(Path(jupyter_runtime_dir()), home):
        try:
            return _ask_one(handshake, path, body)
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            continue
    raise NotRunning(home)


def _ask_one(handshake: Handshake, path: str, body: bytes | None) -> JsonObject:
    request = urllib.request.Request(
        f"{handshake.url}ozzie/api/{path}",
        data=body,
        headers={"Authorization": f"token {handshake.token}", "Content-Type": "application/json"},
    )
    # No proxy of the environment may come between this machine and itself.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=TIMEOUT_S) as response:
            return loads_object(response.read())
    except urllib.error.HTTPError as error:
        said: dict[str, Any] = json.loads(error.read() or b"{}")
        raise Answered(
            said.get("message", f"HTTP {error.code}."), hint=said.get("hint", ""), code=said.get("code")
        ) from None
