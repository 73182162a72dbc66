"""One line of an answer in S2 §1: an event, or text as it stands. Pure."""

from typing import TypeAlias

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.codec import InvalidShape
from ozzie_server_ext.protocol.jsontext import repair_text
from ozzie_server_ext.protocol.ndjson import decode_line
from ozzie_server_ext.protocol.worker import Error, Stop, Token, parse_event

Said: TypeAlias = str | Stop | Error | None
"""Text, an end, or nothing that matters."""


def read_line(line: bytes, *, is_first: bool, has_end: bool = True) -> Said:
    """What a line says. Plain lines are text and keep their line break (unless there is none, `has_end`), empty ones
    too. So is a line that happens to be JSON and is no event: a model may well write `42` or `{"a": 1}`.

    `{"ok": true, …}` acknowledges a request only before any text (`is_first`). Bytes that are no UTF-8 are replaced.
    """
    message = decode_line(line)
    if isinstance(message, dict):
        event = _event(message)
        if event is not None:
            return repair_text(event.text) if isinstance(event, Token) else event
        if is_first and message.get("ok") is True:
            return None
    return line.decode("utf-8", "replace") + ("\n" if has_end else "")


def _event(message: JsonObject) -> Token | Stop | Error | None:
    """The event that the object is; None where it is none."""
    if message.get("ok") is False:
        return Error(message=str(message["error"])) if isinstance(message.get("error"), str) else None
    if message.get("type") == "stop":
        try:
            found = parse_event(message)
            return found if isinstance(found, Stop) else Stop()
        except InvalidShape:
            # Fields of its own with our names: that it is an end counts.
            return Stop()
    if message.get("type") == "error":
        return Error(message=str(message.get("message", "")))
    if message.get("type") == "token" and isinstance(text := message.get("text"), str):
        return Token(text=text)
    return None
