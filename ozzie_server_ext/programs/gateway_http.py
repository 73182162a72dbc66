"""The HTTP server of a headless gateway: what a client that nobody knows may take of its memory and time."""

from typing import Any

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream

from ozzie_server_ext.protocol.frames import MAX_FRAME_BYTES

MAX_CONNECTIONS = 512
"""Those that became WebSockets are not counted: their clients are known."""
MAX_HEADER_BYTES = 64 << 10
HEADER_S = 10.0
"""How long a connection may be idle before and between requests, too."""
BODY_S = 30.0
MAX_JUPYTERS_BODY_BYTES = 64 << 10
"""For Jupyter's own routes, such as its login. Ozzie's bound their bodies themselves."""


class GatewayHttpServer(HTTPServer):
    """Bounds each connection, and how many there are."""

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        super().initialize(
            *args,
            **kwargs,
            max_header_size=MAX_HEADER_BYTES,
            max_body_size=MAX_JUPYTERS_BODY_BYTES,
            max_buffer_size=2 * MAX_FRAME_BYTES,
            idle_connection_timeout=HEADER_S,
            body_timeout=BODY_S,
        )
        self._open = 0

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        if self._open >= MAX_CONNECTIONS:
            stream.close()
            return
        self._open += 1
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        self._open -= 1
        super().on_close(server_conn)
