"""Sends the text of all streams together: the first piece of each at once, the rest on one common tick.

One tick for all streams is what helps when the worker is busy; a window per stream is of no use at ten tokens a
second. The deadline is tested on every addition too, because timers starve while the loop is full.
"""

import asyncio
from collections.abc import Callable

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.jsontext import repair_text

TICK_S = 0.02
MAX_LINE_CHARS = 128 * 1024
"""A character takes six bytes at most, so a line of this many stays below 1 MiB."""


class DeltaBatch:
    """Collects pieces per call and hands messages of the worker protocol to `send`."""

    def __init__(self, send: Callable[[JsonObject], None], *, tick_s: float = TICK_S) -> None:
        self._send = send
        self._tick_s = tick_s
        self._loop = asyncio.get_running_loop()
        self._open: set[str] = set()
        self._halves: dict[str, str] = {}
        self._pending: dict[str, list[str]] = {}
        self._size = 0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, call_id: str, text: str) -> None:
        """The next piece of a call's answer; text without a character is passed over.

        The first half of a surrogate pair waits for the second: a provider may cut between them, and neither can be
        sent alone.
        """
        text = self._halves.pop(call_id, "") + text
        if "\ud800" <= text[-1:] <= "\udbff":
            self._halves[call_id], text = text[-1], text[:-1]
        for at in range(0, len(text), MAX_LINE_CHARS):
            self._add(call_id, text[at : at + MAX_LINE_CHARS])

    def end(self, call_id: str) -> None:
        """Sends what is left of the call, which has no more to come."""
        if half := self._halves.pop(call_id, ""):
            self._add(call_id, half)
        if call_id in self._pending:
            self.flush()
        self._open.discard(call_id)

    def flush(self) -> None:
        """Sends all that waits, in one message."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending:
            texts: JsonObject = {call_id: repair_text("".join(parts)) for call_id, parts in self._pending.items()}
            self._pending.clear()
            self._size = 0
            self._send({"type": "tokens", "texts": texts})

    def _add(self, call_id: str, text: str) -> None:
        if call_id not in self._open:
            self._open.add(call_id)
            self._send({"type": "token", "id": call_id, "text": repair_text(text)})
            return
        if self._size + len(text) > MAX_LINE_CHARS:
            self.flush()
        self._pending.setdefault(call_id, []).append(text)
        self._size += len(text)
        if self._timer is None:
            self._due = self._loop.time() + self._tick_s
            self._timer = self._loop.call_at(self._due, self.flush)
        elif self._loop.time() >= self._due:
            self.flush()
