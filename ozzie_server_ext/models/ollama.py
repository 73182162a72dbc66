"""Which models an Ollama on this machine has (MD-7)."""

import contextlib
import http.client
import socket
import threading
from urllib.parse import urlsplit

from ozzie_server_ext.protocol.jsontext import InvalidJson, loads_object

TIMEOUT_S = 0.5
MAX_BYTES = 1 << 20
MAX_NAMES = 30
_MAX_NAME_LENGTH = 200


def installed_models(base_url: str, *, timeout_s: float = TIMEOUT_S) -> tuple[str, ...]:
    """The names of the models at `base_url`; none where no Ollama answers in time. Blocks: not for the event loop.

    Asked directly and never through a proxy, and where it leads elsewhere it is not followed.
    """
    parts = urlsplit(base_url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        connection.connect()
        # The time-out is that of each piece; whoever sends a byte now and then would keep the thread for ever.
        cut = threading.Timer(timeout_s, _cut, [connection.sock])
        cut.start()
        try:
            connection.request("GET", f"{parts.path.rstrip('/')}/api/tags", headers={"Accept": "application/json"})
            response = connection.getresponse()
            if response.status != 200:
                return ()
            found = loads_object(response.read(MAX_BYTES))
        finally:
            cut.cancel()
    except (OSError, http.client.HTTPException, InvalidJson, ValueError):
        return ()
    finally:
        connection.close()
    models = found.get("models")
    names = [model.get("name") for model in models if isinstance(model, dict)] if isinstance(models, list) else []
    return tuple(
        name for name in names if isinstance(name, str) and name.isprintable() and 0 < len(name) <= _MAX_NAME_LENGTH
    )[:MAX_NAMES]


def _cut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
