"""What a tool shows while it runs: progress and output. It is shown at once and not kept.

A tool may print endlessly: only the last lines are held, and they are shown at most twenty times a second.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Literal, TypeAlias

from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.text import visible_label

Kind: TypeAlias = Literal["tool.output", "tool.call.progressed"]
Show: TypeAlias = Callable[[Kind, JsonObject], None]

SHOWN_LINES = 12
INTERVAL_S = 0.05
MOST_LINE = 2000
"""Characters. A longer line is not shown at all: half of a secret would not be found."""
_BEFORE = 200
"""Lines held before the visible ones: a private key is recognized by its first line."""
_ENDLESS = " " * (MOST_LINE + 1)
_MOST_AT_ONCE = 256 * 1024
"""Characters taken from one piece of output; of a longer one, the end."""


class LiveCall:
    """The live display of one call, for the event loop's thread only. `clean` removes secrets from a text."""

    def __init__(self, call_id: CallId, show: Show, clean: Callable[[str], str]) -> None:
        self._call_id = call_id
        self._show = show
        self._clean = clean
        self._lines: deque[str] = deque(maxlen=SHOWN_LINES + _BEFORE)
        self._count = 0
        self._begun = ""
        self._message = ""
        self._waiting: dict[Kind, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def progress(self, message: str) -> None:
        """Show how far the tool is, in a few words: "3 of 8 files"."""
        self._message = message[:MOST_LINE]
        self._changed("tool.call.progressed")

    def output(self, text: str) -> None:
        """Take a piece of output. A line is shown once it is complete."""
        if len(text) > _MOST_AT_ONCE:
            left_out, text = text[:-_MOST_AT_ONCE], text[-_MOST_AT_ONCE:]
            self._count += left_out.count("\n")
            self._begun = _ENDLESS  # the rest of a line whose beginning is unknown
        *whole, self._begun = (self._begun + text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
        if len(self._begun) > MOST_LINE:
            self._begun = _ENDLESS
        if whole:
            self._count += len(whole)
            self._lines.extend(whole)
            self._changed("tool.output")

    def close(self) -> None:
        """Show nothing more: the outcome is reported separately."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def _changed(self, kind: Kind) -> None:
        if self._is_over:
            return
        self._waiting[kind] = None
        if self._timer is None:
            self._publish()

    def _publish(self) -> None:
        for kind in self._waiting:
            self._show(kind, self._output() if kind == "tool.output" else self._progress())
        had_news = bool(self._waiting)
        self._waiting = {}
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_S, self._publish) if had_news else None

    def _progress(self) -> JsonObject:
        return {"call_id": self._call_id, "summary": visible_label(self._clean(self._message))}

    def _output(self) -> JsonObject:
        lines = [line if len(line) <= MOST_LINE else "(a very long line)" for line in self._lines]
        shown = self._clean("\n".join(lines)).split("\n")[-SHOWN_LINES:]
        return {"call_id": self._call_id, "lines": [*shown], "count": self._count}
