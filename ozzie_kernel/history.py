"""What was typed into Ozzie's cells, over restarts, in a file of its own: not among the Python of other kernels."""

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


def remembered(code: str) -> str:
    """`code` as the history keeps it: behind `%model NAME` nothing but an address, since a key may have been typed
    into its place, and no halves of surrogate pairs, which no file can hold."""
    # The lines are those of `cells.parse`, with every blank that may stand between two words.
    kept = "".join(map(_without_key, code.splitlines(keepends=True)))
    return kept.encode("utf-8", "replace").decode()


def _without_key(line: str) -> str:
    text = line.splitlines()[0]
    found = _MODEL.fullmatch(text)
    if found is None or _ADDRESS.match(found[2].rstrip()):
        return line
    return found[1] + line[len(text) :]


class OzzieHistory(HistoryManager):
    """IPython's history, with cells as they were typed: a `%%python` cell runs without its first line."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._typed: str | None = None
        super().__init__(*args, **kwargs)

    @contextmanager
    def typed(self, code: str) -> Iterator[None]:
        """While the cell of this text runs, it is what is stored."""
        self._typed = remembered(code)
        try:
            yield
        finally:
            self._typed = None

    def store_inputs(self, line_num: int, source: str, source_raw: str | None = None) -> None:
        super().store_inputs(line_num, source, self._typed if self._typed is not None else source_raw)


class OzzieShell(ZMQInteractiveShell):
    """IPython's shell, for the `%%python` cells of a kernel."""

    def init_history(self) -> None:
        manager = self.config.HistoryManager
        if "hist_file" not in manager and self.profile_dir is not None:
            manager.hist_file = str(Path(self.profile_dir.location, FILE_NAME))
            _make_private(manager.hist_file)
        self.history_manager = OzzieHistory(shell=self, parent=self)
        configurables: list[Any] = self.configurables
        configurables.append(self.history_manager)


def _make_private(path: str) -> None:
    """What was typed is for nobody else to read. Where the file can't be made, IPython goes on without one."""
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
