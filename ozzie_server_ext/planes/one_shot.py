"""Running one of our programs for one answer."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryFile
from typing import Self

from ozzie_server_ext.planes.child import child_environment

MAX_WALL_S = 30.0
"""The program limits its own CPU seconds (see child.limit_child), which take longer on a busy machine."""
_POLL_S = 0.005
_OUT_OF_MEMORY = "MemoryError"


class ErrandFailed(Exception):
    """The program failed or could not be started. The text says why."""


class ErrandEnded(ErrandFailed):
    """The program exceeded a limit and was killed."""


async def run_errand(module: str, task: bytes, *, wall_s: float | None = None) -> bytes:
    """Run `python -m module` with `task` as its input, and return its standard output. As it might never end by itself,
    it is killed after `wall_s`, by default MAX_WALL_S, and if the caller is cancelled. Raises ErrandFailed."""
    try:
        with _Files(task) as files:
            child = _spawn(module, files)
            try:
                status = await _status(child, wall_s or MAX_WALL_S)
            finally:
                child.kill()
                child.wait()
            last = files.last_line()
            if status is None or status < 0 or last == _OUT_OF_MEMORY:
                raise ErrandEnded(last)
            return files.answer(status)
    except OSError as error:
        raise ErrandFailed(str(error)) from None


@contextmanager
def errand_beside(module: str, task: bytes) -> Iterator[Callable[[], bytes]]:
    """Run `python -m module` beside other work, for callers without an event loop: yield a function that waits for its
    end, however long that takes, and returns its standard output. It is killed at the end of the `with`. Raises
    ErrandFailed, also from the function."""
    with ExitStack() as stack:
        try:
            files = stack.enter_context(_Files(task))
            child = _spawn(module, files)
        except OSError as error:
            raise ErrandFailed(str(error)) from None
        stack.callback(child.wait)
        stack.callback(child.kill)
        yield lambda: files.answer(child.wait())


class _Files:
    """The program's input and outputs: unnamed files instead of pipes, as nobody has to read while it writes."""

    def __init__(self, task: bytes) -> None:
        with ExitStack() as stack:
            self.stdin, self.stdout, self.stderr = (stack.enter_context(TemporaryFile()) for _ in range(3))
            self.stdin.write(task)
            self.stdin.seek(0)
            self._all = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._all.close()

    def last_line(self) -> str:
        """Return the last line of the errors, which of a Python program is the error."""
        self.stderr.seek(0)
        return self.stderr.read().decode(errors="replace").strip().rpartition("\n")[2]

    def answer(self, status: int) -> bytes:
        """Return the output of a program that has ended. Raises ErrandFailed."""
        if status:
            raise ErrandFailed(self.last_line() or f"It ended with status {status}.")
        self.stdout.seek(0)
        return self.stdout.read()


async def _status(child: subprocess.Popen[bytes], wall_s: float) -> int | None:
    """Return the program's exit status once it has ended, or None after a timeout."""
    # Polled, because child watchers differ between Python versions; less often the longer it takes.
    began = time.monotonic()
    while (took := time.monotonic() - began) < wall_s:
        if (status := child.poll()) is not None:
            return status
        await asyncio.sleep(_POLL_S + took / 50)
    return child.poll()


def _spawn(module: str, files: _Files) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=files.stdin,
        stdout=files.stdout,
        stderr=files.stderr,
        env=child_environment(os.environ),
        # A relative path must not refer to a file of the user's project.
        cwd="/",
        # A new session, which a terminal's or kernel's interrupt does not reach.
        start_new_session=True,
    )
