"""What a tool says while it runs: how far it is, and what it prints. Shown at once, and kept nowhere.

A tool may print without end: only the last lines are held, and they are shown at most twenty times a second.
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
"""In characters. Of a longer line nothing is shown: half of a secret would not be found."""
_BEFORE = 200
"""Lines that are held behind those that are shown: a private key is found by its first one."""
_ENDLESS = " " * (MOST_LINE + 1)
_MOST_AT_ONCE = 256 * 1024
"""In characters, of what is printed in one go; of more, the end."""


class LiveCall:
    """What one call shows. For the loop's thread alone; `clean` takes secrets out of a text."""

    def __init__(self, call_id: CallId, show: Show, clean: Callable[[str], str]) -> None:
        self._call_id = call_id
        self._show = show
        self._clean = clean
        self._lines: deque[str] = deque(maxlen=SHOWN_LINES + _BEFORE)
        self._count = 0
        self._begun = ""
        self._said = ""
        self._waiting: dict[Kind, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def progress(self, said: str) -> None:
        """How far it is, in a few words: "3 of 8 files"."""
        self._said = said[:MOST_LINE]
        self._changed("tool.call.progressed")

    def output(self, text: str) -> None:
        """What it prints, in pieces as they come. A line is shown once it is whole."""
        if len(text) > _MOST_AT_ONCE:
            left_out, text = text[:-_MOST_AT_ONCE], text[-_MOST_AT_ONCE:]
            self._count += left_out.count("\n")
            self._begun = _ENDLESS  # what follows is the end of a line that is not known
        *whole, self._begun = (self._begun + text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
        if len(self._begun) > MOST_LINE:
            self._begun = _ENDLESS
        if whole:
            self._count += len(whole)
            self._lines.extend(whole)
            self._changed("tool.output")

    def close(self) -> None:
        """Nothing is shown any more: how it ended is told otherwise."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def _changed(self, kind: Kind) -> None:
        if self._is_over:
            return
        self._waiting[kind] = None
        if self._timer is None:
            self._tell()

    def _tell(self) -> None:
        for kind in self._waiting:
            self._show(kind, self._output() if kind == "tool.output" else self._progress())
        had_news = bool(self._waiting)
        self._waiting = {}
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_S, self._tell) if had_news else None

    def _progress(self) -> JsonObject:
        return {"call_id": self._call_id, "summary": visible_label(self._clean(self._said))}

    def _output(self) -> JsonObject:
        lines = [line if len(line) <= MOST_LINE else "(a very long line)" for line in self._lines]
        shown = self._clean("\n".join(lines)).split("\n")[-SHOWN_LINES:]
        return {"call_id": self._call_id, "lines": [*shown], "count": self._count}
