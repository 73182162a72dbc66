"""The headless gateway's HTTP server, and what it tells the terminal that it runs in."""

import logging
import sys
from contextlib import suppress
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.observability.logs import logger
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


_ANOTHER_PORT = "Choose another one with --port, or as gateway.port in config.jsonc; 0 is any that is free."


class Terminal(logging.Handler):
    """Tells on standard error. As a handler it takes what Jupyter, Tornado and asyncio log of consequence into Ozzie's
    own log instead, which is a file while this gateway owns its home."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._log = logger("server")
        self._last_words = ""
        # While there is no file, a logger of ours without a handler would fall back on the terminal.
        logging.getLogger("ozzie").addHandler(logging.NullHandler())
        logging.getLogger().addHandler(self)

    def say(self, sentence: str) -> None:
        # Standard error may be closed, or its terminal gone: a gateway goes on without.
        if sys.stderr is not None:
            with suppress(OSError):
                sys.stderr.write(f"{sentence}\n")
                sys.stderr.flush()

    warn = say

    def failed(self, error: OzzieError) -> None:
        self.say(told(error))

    def gave_up(self) -> None:
        """Jupyter ended the program before its server could listen."""
        sentence = self._last_words.removeprefix("ERROR: ")
        self.say(f"ozzie gateway: {sentence}")
        if " port " in sentence:
            self.say(_ANOTHER_PORT)

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] == "ozzie":  # it is in our log already
            return
        if record.levelno >= logging.CRITICAL:
            self._last_words = record.getMessage()
        self._log.log(record.levelno, "%s", record.getMessage(), exc_info=record.exc_info)

    def logging_config(self, config: dict[str, Any]) -> dict[str, Any]:
        """The configuration of a Jupyter application's logging with this in the place of its console."""
        return {**config, "handlers": {"console": {"()": lambda: self, "level": "WARNING"}}}


def told(error: OzzieError) -> str:
    """A sentence and what to do next, a line each: as who started this program reads them (ozzie_kernel/launch.py)."""
    return f"ozzie gateway: {error}\n{error.hint}".rstrip()
