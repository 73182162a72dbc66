"""One JSON object per line, framed so that a peer can neither block nor exhaust the reader."""

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.jsontext import MAX_BYTES, InvalidJson, canonical_bytes, loads

MAX_LINE_TO_GATEWAY = MAX_BYTES
MAX_LINE_TO_WORKER = 64 << 20
"""A whole conversation goes to a worker in one line; answers are bounded more tightly."""


class LineTooLong(InputError):
    """A line exceeds the limit; the stream can't be followed any further."""

    code = "input.line"

    def __init__(self, max_line: int) -> None:
        super().__init__(f"A line is longer than {max_line:,} bytes.")


def encode_line(message: JsonObject, *, max_line: int = MAX_LINE_TO_WORKER) -> bytes:
    """Return `message` as one line. Raises InvalidJson, LineTooLong."""
    line = canonical_bytes(message, sort=False) + b"\n"
    if len(line) > max_line + 1:
        raise LineTooLong(max_line)
    return line


def decode_line(line: bytes, *, max_line: int = MAX_LINE_TO_GATEWAY) -> JsonObject | str:
    """Return the object in `line`; any other line as plain text, which S2 takes for a token. Lone surrogates are
    repaired: they come from a model, and losing the answer would be worse."""
    try:
        value: Json = loads(line, max_bytes=max_line, surrogates="repair")
    except InvalidJson:
        value = None
    return value if isinstance(value, dict) else line.decode("utf-8", "replace")


class LineDecoder:
    """Splits a stream of bytes into lines, however the bytes were split on their way. Empty lines are skipped unless
    `keep_empty`: where plain lines are text, empty ones are too."""

    def __init__(self, *, max_line: int = MAX_LINE_TO_GATEWAY, keep_empty: bool = False) -> None:
        self._max_line = max_line
        self._keep_empty = keep_empty
        self._buffer = bytearray()
        self._searched = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes, without their ends. Raises LineTooLong, after which it is useless."""
        self._buffer += data
        lines: list[bytes] = []
        start = 0
        while (end := self._buffer.find(b"\n", max(start, self._searched))) >= 0:
            if end - start > self._max_line:
                raise LineTooLong(self._max_line)
            line = bytes(self._buffer[start:end]).removesuffix(b"\r")
            if line or self._keep_empty:
                lines.append(line)
            start = end + 1
        del self._buffer[:start]
        # Nothing is searched twice, or a long line in small pieces would take quadratic time.
        self._searched = len(self._buffer)
        if self._searched > self._max_line:
            raise LineTooLong(self._max_line)
        return lines

    def rest(self) -> bytes:
        """Return the beginning of a line that has no end yet."""
        return bytes(self._buffer)
