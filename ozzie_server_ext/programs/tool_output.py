"""What the tool host returns of a call: its output, or why it came to nothing."""

import json

from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.jsontext import repair_text
from ozzie_server_ext.protocol.tool_host import MAX_OUTPUT_CHARS, Error, ErrorCode, Output

MAX_VALUES = 100_000
"""Values in the structured form of a result: the gateway reads all of them at once, while it does nothing else."""


class Failure(Exception):
    """Why a connection or a call came to nothing; see `Error`."""

    def __init__(self, code: ErrorCode, message: str, *, was_sent: bool = False, scope: str = "") -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.was_sent = was_sent
        self.scope = scope

    def event(self, call_id: str) -> Error:
        words = repair_text(str(self))
        return Error(id=call_id, code=self.code, message=words, was_sent=self.was_sent, scope=self.scope)


def has_many(value: Json) -> bool:
    """Return whether there are more than `MAX_VALUES` values in it."""
    level, count = [value], 0
    while level and count <= MAX_VALUES:
        count += len(level)
        below = (part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list))
        level = [each for values in below for each in values]
    return count > MAX_VALUES


def text_of(output: Output) -> str:
    """Return the JSON of an output. Raises Failure for one that is too long."""
    text = json.dumps(encode(output), ensure_ascii=False, separators=(",", ":"))
    if len(text) > MAX_OUTPUT_CHARS:
        words = f"It returned more than {MAX_OUTPUT_CHARS >> 20} MiB, which is too much for one result."
        raise Failure("mcp.too_long", words, was_sent=True)
    return repair_text(text)
