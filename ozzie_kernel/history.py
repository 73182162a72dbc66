"""The history of what the user typed: cells as typed, and no keys."""

import contextlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.history import HistoryManager

FILE_NAME = "ozzie-history.sqlite"

_MODEL = re.compile(r"(\s*%model\s+\S+)\s+(\S.*)")
_ADDRESS = re.compile(r"https?://[^\s@?#]+\Z")


def history_text(code: str) -> str:
    """Return `code` for the history: after `%model NAME` only an address, because a key may have been typed there; and
    no lone surrogates, which no file can store."""
    # The lines are those of `cells.parse`, with any blanks between words.
    kept = "".join(map(_without_key, code.splitlines(keepends=True)))
    return kept.encode("utf-8", "replace").decode()


def _without_key(line: str) -> str:
    text = line.splitlines()[0]
    found = _MODEL.fullmatch(text)
    if found is None or _ADDRESS.match(found[2].rstrip()):
        return line
    return found[1] + line[len(text) :]


class OzzieHistory(HistoryManager):
    """IPython's history with cells as typed: a `%%python` cell runs without its first line."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._typed: str | None = None
        super().__init__(*args, **kwargs)

    @contextmanager
    def typed(self, code: str) -> Iterator[None]:
        """Store `code` for the cell that runs meanwhile."""
        self._typed = history_text(code)
        try:
            yield
        finally:
            self._typed = None

    def store_inputs(self, line_num: int, source: str, source_raw: str | None = None) -> None:
        super().store_inputs(line_num, source, self._typed if self._typed is not None else source_raw)


class OzzieShell(ZMQInteractiveShell):
    """IPython's shell for `%%python` cells."""

    def init_history(self) -> None:
        manager = self.config.HistoryManager
        if "hist_file" not in manager and self.profile_dir is not None:
            manager.hist_file = str(Path(self.profile_dir.location, FILE_NAME))
            _make_private(manager.hist_file)
        self.history_manager = OzzieHistory(shell=self, parent=self)
        configurables: list[Any] = self.configurables
        configurables.append(self.history_manager)


def _make_private(path: str) -> None:
    """Create the file for the user alone. If that fails, IPython goes on without one."""
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
