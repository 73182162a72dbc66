"""A program of ours that is run for one answer, with a hard end: for work that might never come to one by itself."""

import asyncio
import os
import subprocess
import sys
import time
from tempfile import TemporaryFile
from typing import BinaryIO

from ozzie_server_ext.planes.child import child_environment

MAX_WALL_S = 30.0
"""The program itself has seconds of CPU (see child.limit_child), which on a busy machine take longer."""
_POLL_S = 0.005
_OUT_OF_MEMORY = "MemoryError"


class ErrandFailed(Exception):
    """The program came to no answer, by a fault of its own, or it could not be started. It says why."""


class ErrandEnded(ErrandFailed):
    """It was ended, because it used up what it may."""


async def run_errand(module: str, task: bytes, *, wall_s: float | None = None) -> bytes:
    """What `python -m module` writes to its standard output when it reads `task`. Where the caller is cancelled, it is
    ended, and so it is after `wall_s`, MAX_WALL_S by default. Raises ErrandFailed."""
    try:
        # Files without a name, and no pipes: nobody has to read while it writes.
        with TemporaryFile() as asked, TemporaryFile() as told, TemporaryFile() as said:
            asked.write(task)
            asked.seek(0)
            status = await _status(module, asked, told, said, wall_s or MAX_WALL_S)
            told.seek(0)
            said.seek(0)
            answer, last = told.read(), said.read().decode(errors="replace").strip().rpartition("\n")[2]
    except OSError as error:
        raise ErrandFailed(str(error)) from None
    if status is None or status < 0 or last == _OUT_OF_MEMORY:
        raise ErrandEnded(last)
    if status:
        raise ErrandFailed(last or f"It ended with status {status}.")
    return answer


async def _status(module: str, asked: BinaryIO, told: BinaryIO, said: BinaryIO, wall_s: float) -> int | None:
    """How it ended; None where its time was up."""
    child = _spawn(module, asked, told, said)
    try:
        # Polled, because child watchers differ between Python versions (see process.ChildProcess); more seldom the
        # longer it takes.
        began = time.monotonic()
        while (took := time.monotonic() - began) < wall_s:
            if (status := child.poll()) is not None:
                return status
            await asyncio.sleep(_POLL_S + took / 50)
        return child.poll()
    finally:
        child.kill()
        child.wait()


def _spawn(module: str, asked: BinaryIO, told: BinaryIO, said: BinaryIO) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=asked,
        stdout=told,
        stderr=said,
        env=child_environment(os.environ),
        # A relative path must not mean a file of the user's project.
        cwd="/",
        # Its own session: the interrupt of a terminal or of a kernel does not reach it.
        start_new_session=True,
    )
