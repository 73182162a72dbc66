"""One child process with its end of a socket pair: spawned in a session of its own, and always reaped."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

STOP_EOF_S = 2.0
STOP_TERM_S = 2.0
MAX_LOG_BYTES = 1 << 20
_POLL_S = 0.01


class ChildProcess:
    """Started by `spawn`. Its standard output and error go to a file, its standard input is closed."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self.pid = popen.pid

    @classmethod
    def spawn(
        cls, argv: Sequence[str], *, env: Mapping[str, str], log_file: Path
    ) -> tuple["ChildProcess", socket.socket]:
        """Starts `argv` with `--fd N --parent PID` added, and returns it with our end of the pair.

        Must be called from the loop's thread (see child.become_child). Raises OSError, and RuntimeError from another.
        """
        asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        try:
            with theirs, _open_log(log_file) as log:
                popen = subprocess.Popen(
                    [*argv, "--fd", str(theirs.fileno()), "--parent", str(os.getpid())],
                    env=dict(env),
                    # A relative path must not mean a file of the user's project.
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(theirs.fileno(),),
                    # Its own session: the interrupt of a terminal or of a kernel does not reach it.
                    start_new_session=True,
                )
        except OSError:
            ours.close()
            raise
        ours.setblocking(False)
        return cls(popen), ours

    def kill(self) -> None:
        """SIGKILL for the child and for all in its session; harmless where it is gone."""
        if self._popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    async def end(self, *, eof_s: float = STOP_EOF_S, term_s: float = STOP_TERM_S) -> str:
        """Waits until the child, whose channel is closed already, ends by itself, then by SIGTERM, then by SIGKILL.

        Returns how it ended. Leaves no zombie, also when cancelled.
        """
        try:
            if not await self._gone_within(eof_s):
                self._popen.terminate()
                if not await self._gone_within(term_s):
                    self.kill()
                    await self._gone_within(term_s)
        finally:
            if self._popen.poll() is None:
                self.kill()
                self._popen.wait(term_s)
        return _how(self._popen.returncode)

    async def _gone_within(self, seconds: float) -> bool:
        # Polled, because a child watcher differs between Python versions and steals from other libraries' children.
        for _ in range(max(1, int(seconds / _POLL_S))):
            if self._popen.poll() is not None:
                return True
            await asyncio.sleep(_POLL_S)
        return self._popen.poll() is not None


def _open_log(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > MAX_LOG_BYTES:
        path.replace(path.with_name(f"{path.name}.1"))
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "wb")


def _how(returncode: int | None) -> str:
    if returncode is None:
        return "It does not end."
    if returncode < 0:
        return f"It was ended by {signal.Signals(-returncode).name}."
    return f"It ended with status {returncode}."
