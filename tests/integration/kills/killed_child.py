"""Compacts or erases, and kills itself at a step: a statement of SQLite, a part of one, or a change of a file.

Arguments: what to do (`compact`, `session`, `message`), the home, the project, the step (0: never), and what to erase.
With 0, it prints how many steps there are.
"""

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.ids import MessageId, SessionId
from ozzie_server_ext.store import compacting, database

INSTRUCTIONS = 200
"""Instructions of SQLite's machine between two steps within a statement."""


class Steps:
    """Counts, and ends the process as power does."""

    def __init__(self, last: int) -> None:
        self.count = 0
        self.is_counting = False
        self._last = last

    def step(self, *_: object) -> int:
        if self.is_counting:
            self.count += 1
            if self.count == self._last:
                os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def before(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            self.step()
            return work(*args, **named)

        return counted

    def watch(self) -> None:
        """Count what SQLite and the file system are asked to change from now on."""
        connect = database.open_writable

        def watched(path: Path) -> sqlite3.Connection:
            connection = connect(path)
            connection.set_trace_callback(self.step)
            connection.set_progress_handler(self.step, INSTRUCTIONS)
            return connection

        for module in (compacting, sys.modules["ozzie_server_ext.store.writer"]):
            setattr(module, "open_writable", watched)  # noqa: B010
        for name in ("unlink", "replace", "fsync"):
            setattr(os, name, self.before(getattr(os, name)))


async def erase(what: str, home: Path, project: Path, name: str, steps: Steps) -> None:
    ozzie = await Ozzie.start(Home(home), project)
    await ozzie.erasures.cleaned()  # nothing of an earlier one is counted
    steps.is_counting = True
    if what == "session":
        await ozzie.erasures.erase_session(SessionId(name), "ana")
    else:
        await ozzie.erasures.erase_message(MessageId(name), "ana")
    steps.is_counting = False
    await ozzie.stop()


def main() -> None:
    what, home, project, last, name = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    steps = Steps(last)
    steps.watch()
    if what == "compact":
        steps.is_counting = True
        compacting.compact(Home(home).database, Home(home).blobs)
    else:
        asyncio.run(erase(what, home, project, name, steps))
    sys.stdout.write(f"{steps.count}\n")


if __name__ == "__main__":
    main()
