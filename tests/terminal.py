"""Runs `ozzie` at a terminal, where a person types answers."""

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from tests.rig import GatewayHome

_WITHIN_S = 60
_AT_A_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.executable, "
    "[sys.executable, '-m', 'ozzie_server_ext.cli.main', *sys.argv[1:]])"
)


def typed(home: GatewayHome, *words: str, answers: Sequence[tuple[str, str | Callable[[str], str]]]) -> tuple[int, str]:
    """Run `ozzie` with these words, and press the keys of each answer when its prompt is shown; return the status, and
    all that was to be seen, with the terminal's line ends. An answer may follow from what was seen."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _AT_A_TERMINAL, *words],
        env=dict(home.env),
        cwd=home.project,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    seen, waiting, end = "", list(answers), time.monotonic() + _WITHIN_S
    try:
        while time.monotonic() < end:
            if not select.select([ours], [], [], 1)[0]:
                continue
            try:
                piece = os.read(ours, 4096)
            except OSError:  # as a terminal ends whose other side was closed
                break
            if not piece:
                break
            seen += piece.decode(errors="replace")
            if waiting and waiting[0][0] in seen.rsplit("\n", 1)[-1]:
                keys = waiting.pop(0)[1]
                os.write(ours, (keys if isinstance(keys, str) else keys(seen)).encode())
        status = process.wait(20)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()
        os.close(ours)
    assert not waiting, seen
    return status, seen
