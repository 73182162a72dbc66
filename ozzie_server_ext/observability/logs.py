"""Application logs: one JSON object a line in `logs/app/`, with the ids of agent, session, task, action and trace."""

import logging
import logging.handlers
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import TextIOWrapper
from json.encoder import encode_basestring_ascii  # keeps a hostile text from looking like another line in a terminal
from pathlib import Path
from typing import NamedTuple, cast

from ozzie_server_ext.domain.disk import hint_for
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.redaction import redact_text

_ROOT = "ozzie"
_OWN_FIELDS = ("agent_id", "session_id", "task_id", "action_id", "trace_id")


def logger(module: str) -> logging.Logger:
    """Return the logger of a module, below the one that `log_to` writes to a file."""
    return logging.getLogger(f"{_ROOT}.{module.removeprefix('ozzie_server_ext.')}")


class Line(NamedTuple):
    """A sentence, and the ids that it is about, by `_OWN_FIELDS`."""

    message: str
    ids: Mapping[str, str | None]


def log_lines(log: logging.Logger, level: int, lines: Sequence[Line]) -> None:
    """Log several lines as one record: making, formatting and writing a record takes ten times what a line does."""
    log.log(level, "%s", "\n".join(line.message for line in lines), extra={"lines": lines})


class _JsonLines(logging.Formatter):
    """Writes a line for a record, or for each of its `lines`."""

    def __init__(self, known_secrets: Callable[[], Sequence[str]]) -> None:
        super().__init__()
        self._known_secrets = known_secrets

    def format(self, record: logging.LogRecord) -> str:
        known = self._known_secrets()
        ts = self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}"
        begin = f'{{"ts": "{ts}", {_field("level", record.levelname.lower())}, {_field("logger", record.name)}'
        begin += f', "pid": {record.process}'
        end = ""
        if record.exc_info:
            end = f", {_field('traceback', redact_text(self.formatException(record.exc_info), known))}"
        lines = getattr(record, "lines", None) or [Line(record.getMessage(), record.__dict__)]
        shown = {message: redact_text(message, known) for message in {line.message for line in lines}}
        return "\n".join(f"{begin}, {_field('message', shown[line.message])}{_ids(line.ids)}{end}}}" for line in lines)


def _field(name: str, value: object) -> str:
    return f'"{name}": {encode_basestring_ascii(str(value))}'


def _ids(ids: Mapping[str, object]) -> str:
    return "".join([f", {_field(name, value)}" for name in _OWN_FIELDS if (value := ids.get(name)) is not None])


class _PrivateFile(logging.handlers.RotatingFileHandler):
    """A rotating log file that only the user can read. A line is formatted and written once, where the base class
    formats it twice and asks the file for its size each time."""

    _size = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line. Errors go to `handleError`, as with every handler."""
        try:
            line = self.format(record) + self.terminator
            if self.stream is None:  # its file could not be replaced the last time
                self.stream = self._open()
            if self._size + len(line) >= self.maxBytes:  # the lines are ASCII
                self.doRollover()
            self.stream.write(line)
            self.stream.flush()
            self._size += len(line)
        except Exception:
            self.handleError(record)

    def _open(self) -> TextIOWrapper:
        opener = partial(os.open, mode=0o600)
        self._size = os.path.getsize(self.baseFilename) if os.path.exists(self.baseFilename) else 0
        return cast(TextIOWrapper, open(self.baseFilename, self.mode, encoding=self.encoding, opener=opener))


def log_to(folder: Path, name: str, known_secrets: Callable[[], Sequence[str]] = tuple) -> logging.Handler:
    """Write log lines to `folder/name.jsonl` (0600, at most 5 files of 5 MB), until `stop_logging`.

    `known_secrets` returns values to remove, in addition to anything that looks like a secret. Raises Unavailable.
    """
    path = folder / f"{name}.jsonl"
    try:
        handler = _PrivateFile(path, maxBytes=5_000_000, backupCount=4, encoding="utf-8")
    except OSError as error:
        raise Unavailable(
            f"The log file {path} can't be written: {error.strerror}.",
            hint=hint_for(path, error=error),
            code="home.unusable",
        ) from error
    handler.setFormatter(_JsonLines(known_secrets))
    root = logging.getLogger(_ROOT)
    root.setLevel(logging.INFO)
    root.addHandler(handler)
    return handler


def stop_logging(handler: logging.Handler) -> None:
    logging.getLogger(_ROOT).removeHandler(handler)
    handler.close()
