"""Running one of our programs for one answer, with a hard limit, for work that might never end by itself."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryFile
from typing import BinaryIO

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
    """Run `python -m module` with `task` as its input, and return its standard output. It is killed if the caller is
    cancelled, or after `wall_s`, by default MAX_WALL_S. Raises ErrandFailed."""
    try:
        # Unnamed files instead of pipes: nobody has to read while it writes.
        with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
            stdin.write(task)
            stdin.seek(0)
            status = await _status(module, stdin, stdout, stderr, wall_s or MAX_WALL_S)
            stdout.seek(0)
            stderr.seek(0)
            answer, last = stdout.read(), stderr.read().decode(errors="replace").strip().rpartition("\n")[2]
    except OSError as error:
        raise ErrandFailed(str(error)) from None
    if status is None or status < 0 or last == _OUT_OF_MEMORY:
        raise ErrandEnded(last)
    if status:
        raise ErrandFailed(last or f"It ended with status {status}.")
    return answer


@contextmanager
def errand_beside(module: str, task: bytes) -> Iterator[Callable[[], bytes]]:
    """Run `python -m module` beside other work, for callers without an event loop: yield a function that waits for its
    end and returns its standard output. It is killed at the end of the `with`. Raises ErrandFailed, also from the
    function."""
    with ExitStack() as stack:
        try:
            stdin, stdout, stderr = (stack.enter_context(TemporaryFile()) for _ in range(3))
            stdin.write(task)
            stdin.seek(0)
            child = _spawn(module, stdin, stdout, stderr)
        except OSError as error:
            raise ErrandFailed(str(error)) from None
        stack.callback(child.wait)
        stack.callback(child.kill)

        def answer() -> bytes:
            status = child.wait()
            stdout.seek(0)
            stderr.seek(0)
            if status:
                last = stderr.read().decode(errors="replace").strip().rpartition("\n")[2]
                raise ErrandFailed(last or f"It ended with status {status}.")
            return stdout.read()

        yield answer


async def _status(module: str, stdin: BinaryIO, stdout: BinaryIO, stderr: BinaryIO, wall_s: float) -> int | None:
    """Run the program; return its exit status, or None after a timeout."""
    child = _spawn(module, stdin, stdout, stderr)
    try:
        # Polled, because child watchers differ between Python versions; less often the longer it takes.
        began = time.monotonic()
        while (took := time.monotonic() - began) < wall_s:
            if (status := child.poll()) is not None:
                return status
            await asyncio.sleep(_POLL_S + took / 50)
        return child.poll()
    finally:
        child.kill()
        child.wait()


def _spawn(module: str, stdin: BinaryIO, stdout: BinaryIO, stderr: BinaryIO) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=child_environment(os.environ),
        # A relative path must not refer to a file of the user's project.
        cwd="/",
        # A new session, which a terminal's or kernel's interrupt does not reach.
        start_new_session=True,
    )
