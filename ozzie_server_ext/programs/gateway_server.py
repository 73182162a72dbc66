"""The headless gateway's HTTP server, and its messages to the terminal."""

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
"""WebSockets do not count: their clients are known."""
MAX_HEADER_BYTES = 64 << 10
HEADER_S = 10.0
"""Also the limit for idle connections, before and between requests."""
BODY_S = 30.0
MAX_JUPYTERS_BODY_BYTES = 64 << 10
"""For Jupyter's own routes, such as its login. Ozzie's routes bound their bodies themselves."""


class GatewayHttpServer(HTTPServer):
    """Bounds each connection, and their number."""

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
    """Messages on standard error. As a log handler, it sends warnings of Jupyter, Tornado and asyncio to Ozzie's own
    log instead, which is a file while this gateway owns its home."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._log = logger("server")
        self._last_message = ""
        # Without a handler, Ozzie's loggers would fall back on the terminal until the file is open.
        logging.getLogger("ozzie").addHandler(logging.NullHandler())
        logging.getLogger().addHandler(self)

    def say(self, sentence: str) -> None:
        # Standard error may be closed, or its terminal gone: the gateway continues without it.
        if sys.stderr is not None:
            with suppress(OSError):
                sys.stderr.write(f"{sentence}\n")
                sys.stderr.flush()

    warn = say

    def failed(self, error: OzzieError) -> None:
        self.say(message_of(error))

    def gave_up(self) -> None:
        """Jupyter exited before its server could listen."""
        sentence = self._last_message.removeprefix("ERROR: ")
        self.say(f"ozzie gateway: {sentence}")
        if " port " in sentence:
            self.say(_ANOTHER_PORT)

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] == "ozzie":  # already in our log
            return
        if record.levelno >= logging.CRITICAL:
            self._last_message = record.getMessage()
        self._log.log(record.levelno, "%s", record.getMessage(), exc_info=record.exc_info)

    def logging_config(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return the logging configuration of a Jupyter application, with this handler instead of its console."""
        return {**config, "handlers": {"console": {"()": lambda: self, "level": "WARNING"}}}


def message_of(error: OzzieError) -> str:
    """Return the error and its hint, one line each, as ozzie_kernel/launch.py reads them."""
    return f"ozzie gateway: {error}\n{error.hint}".rstrip()
