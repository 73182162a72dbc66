"""Which models an Ollama has, and what they can do (MD-1, MD-7)."""

import contextlib
import http.client
import json
import socket
import threading
from urllib.parse import urlsplit

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads_object
from ozzie_server_ext.protocol.worker import ModelFacts

TIMEOUT_S = 0.5
MAX_BYTES = 1 << 20
MAX_NAMES = 30
_MAX_NAME_LENGTH = 200


def installed_models(base_url: str, *, timeout_s: float = TIMEOUT_S) -> tuple[str, ...]:
    """The names of the models at `base_url`; none where no Ollama answers in time. Blocks: not for the event loop."""
    models = _asked(base_url, "GET", "/api/tags", None, timeout_s).get("models")
    names = [model.get("name") for model in models if isinstance(model, dict)] if isinstance(models, list) else []
    return tuple(
        name for name in names if isinstance(name, str) and name.isprintable() and 0 < len(name) <= _MAX_NAME_LENGTH
    )[:MAX_NAMES]


def abilities(base_url: str, model: str, *, timeout_s: float = TIMEOUT_S) -> ModelFacts:
    """What the Ollama at `base_url` says that its model can do; nothing where it does not answer in time, has no such
    model, or is too old to say. Blocks, as `installed_models`."""
    said = _asked(base_url, "POST", "/api/show", {"model": model}, timeout_s).get("capabilities")
    if not isinstance(said, list) or not said:
        return ModelFacts()
    # It names every ability that a model has.
    return ModelFacts(tools="tools" in said, images="vision" in said, reasoning="thinking" in said)


def _asked(base_url: str, method: str, path: str, body: JsonObject | None, timeout_s: float) -> JsonObject:
    """The answer; an empty one where there is none. Asked directly and never through a proxy, and where it leads
    elsewhere it is not followed."""
    parts = urlsplit(base_url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    headers = {"Accept": "application/json", **({"Content-Type": "application/json"} if body else {})}
    try:
        connection.connect()
        # The time-out is that of each piece; whoever sends a byte now and then would keep the thread for ever.
        cut = threading.Timer(timeout_s, _cut, [connection.sock])
        cut.start()
        try:
            connection.request(method, f"{parts.path.rstrip('/')}{path}", json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            return loads_object(response.read(MAX_BYTES)) if response.status == 200 else {}
        finally:
            cut.cancel()
    except (OSError, http.client.HTTPException, InvalidJson, ValueError):
        return {}
    finally:
        connection.close()


def _cut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
