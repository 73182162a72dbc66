"""Supervises one child process: starts it on demand, watches it, restarts it with growing pauses, stops it cleanly."""

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.channel import Channel
from ozzie_server_ext.planes.child import child_environment
from ozzie_server_ext.planes.identity import ProcessMark, mark_of


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds. The number of deaths in a row selects the pause."""

    silent_s: float = 20.0
    starting_silent_s: float = 60.0
    pauses_s: tuple[float, ...] = (0.1, 0.5, 2.0, 10.0, 30.0)
    jitter: float = 0.2
    circuit_deaths: int = 5
    circuit_window_s: float = 120.0


class Restarts:
    """Counts deaths. Times are seconds of a monotonic clock."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._deaths: deque[float] = deque(maxlen=pace.circuit_deaths)
        self._in_a_row = 0

    def death(self, now: float, *, lived_s: float) -> float | None:
        """Count a death; return the pause before the next start, or None for no restart now."""
        self._deaths.append(now)
        self._in_a_row = 1 if lived_s > self._pace.circuit_window_s else self._in_a_row + 1
        if self.circuit_open(now):
            return None
        return self._pace.pauses_s[min(self._in_a_row, len(self._pace.pauses_s)) - 1]

    def circuit_open(self, now: float) -> bool:
        """Return whether so many died in so short a time that another start would be pointless."""
        full = len(self._deaths) == self._pace.circuit_deaths
        return full and now - self._deaths[0] < self._pace.circuit_window_s


STOP_EOF_S = 2.0
STOP_TERM_S = 2.0
MAX_LOG_BYTES = 1 << 20
_POLL_S = 0.01


class ChildProcess:
    """A child process, started by `spawn`. Its output goes to a file, its standard input is closed."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self.pid = popen.pid

    @classmethod
    def spawn(
        cls, argv: Sequence[str], *, env: Mapping[str, str], log_file: Path
    ) -> tuple["ChildProcess", socket.socket]:
        """Start `argv` with `--fd N --parent PID` appended; return it with our end of the socket pair.

        Must be called from the loop's thread (see child.become_child). Raises OSError, and RuntimeError from another
        thread.
        """
        asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        try:
            with theirs, _open_log(log_file) as log:
                popen = subprocess.Popen(
                    [*argv, "--fd", str(theirs.fileno()), "--parent", str(os.getpid())],
                    env=dict(env),
                    # A relative path must not refer to a file of the user's project.
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(theirs.fileno(),),
                    # A new session, which a terminal's or kernel's interrupt does not reach.
                    start_new_session=True,
                )
        except OSError:
            ours.close()
            raise
        ours.setblocking(False)
        return cls(popen), ours

    def kill(self) -> None:
        """Send SIGKILL to the child and its whole session; harmless if it is gone."""
        if self._popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    async def end(self, *, eof_s: float = STOP_EOF_S, term_s: float = STOP_TERM_S) -> str:
        """Wait until the child, whose channel is closed, ends by itself, then by SIGTERM, then by SIGKILL.

        Return how it ended. Leave no zombie, even when cancelled.
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
        return _exit_text(self._popen.returncode)

    async def _gone_within(self, seconds: float) -> bool:
        # Polled, because child watchers differ between Python versions and take other libraries' children.
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


def _exit_text(returncode: int | None) -> str:
    if returncode is None:
        return "It does not end."
    if returncode < 0:
        return f"It was ended by {signal.Signals(-returncode).name}."
    return f"It ended with status {returncode}."


log = logger(__name__)


class PlaneUnavailable(Unavailable):
    """The child does not run, and will not be started now."""

    code = "plane.unavailable"


async def _nobody(mark: ProcessMark) -> None:
    pass


class Supervisor:
    """Supervises one child. `channel()` returns the connection to it, and starts it if needed.

    The application records `on_started(mark)` and `on_lost(pid, reason)`. The first is awaited before any call goes
    out, so that every child with a call can be found again. `on_heartbeat` gets each heartbeat of a ready child.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        log_file: Path,
        env: Mapping[str, str] | None = None,
        on_started: Callable[[ProcessMark], Awaitable[None]] = _nobody,
        on_lost: Callable[[int, str], None] = lambda pid, reason: None,
        pace: Pace | None = None,
        luck: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self.on_heartbeat: Callable[[JsonObject], None] = lambda message: None
        self._argv = argv
        self._log_file = log_file
        self._env = child_environment(os.environ if env is None else env)
        self._on_started = on_started
        self._on_lost = on_lost
        self._pace = pace or Pace()
        self._restarts = Restarts(self._pace)
        self._luck = luck
        self._keeper: asyncio.Task[None] | None = None
        self._channel: asyncio.Future[Channel] | None = None
        self._stopping = False
        self._stop_reason = "It was given up."
        self.pid: int | None = None

    def start(self) -> None:
        """Start the child, unless it runs. Raises PlaneUnavailable."""
        if self._stopping:
            raise PlaneUnavailable(f"The {self.name} was stopped.")
        if self._keeper is None or self._keeper.done():
            loop = asyncio.get_running_loop()
            if self._restarts.circuit_open(loop.time()):
                raise PlaneUnavailable(f"The {self.name} stopped too often.", hint=f"See {self._log_file.name}.")
            self._channel = loop.create_future()
            self._keeper = asyncio.create_task(self._keep_or_give_up(), name=f"keeper of the {self.name}")

    @property
    def kept(self) -> bool:
        """Whether the child runs, is starting, or will be restarted."""
        return self._keeper is not None and not self._keeper.done()

    @property
    def connected(self) -> Channel | None:
        """The connection to a ready child; None if a call would have to wait."""
        future = self._channel
        if future is None or not future.done() or future.cancelled() or future.exception() is not None:
            return None
        return future.result()

    async def channel(self) -> Channel:
        """Return the connection to a ready child, waiting for its start or restart.

        Raises PlaneUnavailable if it does not start.
        """
        self.start()
        assert self._channel is not None
        return await asyncio.shield(self._channel)

    async def stop(self, reason: str = "It was stopped with its gateway.") -> None:
        """Stop the child for good, in bounded time; `reason` goes to `on_lost`."""
        self._stopping = True
        self._stop_reason = reason
        if self._keeper is not None:
            self._keeper.cancel()
            # Not `await`: the keeper's failure must not prevent a gateway's stop.
            await asyncio.wait({self._keeper})
        self._give_up(f"The {self.name} was stopped.")

    async def _keep_or_give_up(self) -> None:
        try:
            await self._keep()
        except Exception as error:
            # Only the kind: the message may contain a key, and this text is shown.
            log.exception("the %s is no longer kept running", self.name)
            self._give_up(f"The {self.name} can't be kept running: {type(error).__name__}; see Ozzie's log.")

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            started_at = loop.time()
            reason = await self._one_life()
            pause = self._restarts.death(loop.time(), lived_s=loop.time() - started_at)
            if pause is None:
                self._give_up(f"The {self.name} stopped too often in a short while. {reason}")
                return
            # Jitter keeps several children from starting at once.
            await asyncio.sleep(pause * (1 + self._pace.jitter * self._luck()))

    async def _one_life(self) -> str:
        """Run one child from start to end; return why it ended."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        lost: asyncio.Future[str] = loop.create_future()

        def on_event(message: JsonObject | str) -> None:
            match message:
                case {"type": "ready"} if not ready.done():
                    ready.set_result(None)
                case {"type": "heartbeat"} if ready.done():
                    self.on_heartbeat(message)
                case _:
                    return

        def on_lost(reason: str) -> None:
            if not lost.done():
                lost.set_result(reason)
            # At once: later callers must wait for the next child.
            if self._channel is None or self._channel.done():
                self._channel = loop.create_future()

        try:
            child, end = ChildProcess.spawn(self._argv, env=self._env, log_file=self._log_file)
        except OSError as error:
            return f"It can't be started: {error}."
        self.pid = child.pid
        mark = mark_of(child.pid)
        reason = ""
        recorded = False
        try:
            channel = await Channel.open(end, on_event=on_event, on_lost=on_lost, kill=child.kill)
            silence = asyncio.create_task(_silence(channel, self._pace.starting_silent_s))
            try:
                await asyncio.wait({ready, lost, silence}, return_when=asyncio.FIRST_COMPLETED)
                if ready.done() and not lost.done():
                    recorded = True
                    await self._on_started(mark)
                if recorded and not lost.done():
                    assert self._channel is not None
                    self._channel.set_result(channel)
                    silence.cancel()
                    silence = asyncio.create_task(_silence(channel, self._pace.silent_s))
                await asyncio.wait({lost, silence}, return_when=asyncio.FIRST_COMPLETED)
                if lost.done():
                    reason = lost.result()
                else:
                    reason = silence.result()
                    child.kill()
            finally:
                silence.cancel()
                channel.close()
        finally:
            end.close()
            reason = f"{reason or self._stop_reason} {await child.end()}"
            self.pid = None
            if recorded:
                self._on_lost(child.pid, reason)
        return reason

    def _give_up(self, reason: str) -> None:
        if self._channel is not None and not self._channel.done():
            self._channel.set_exception(PlaneUnavailable(reason))
            self._channel.exception()  # retrieved here, because nobody may be waiting


async def _silence(channel: Channel, limit: float) -> str:
    """Wait until nothing has come over `channel` for `limit` seconds; return a sentence about it."""
    loop = asyncio.get_running_loop()
    while True:
        heard_at = channel.heard_at
        await asyncio.sleep(max(0.0, heard_at + limit - loop.time()))
        # Our own loop may have been blocked for that long: read what is in the socket before judging.
        await asyncio.sleep(0.05)
        if channel.heard_at == heard_at and not channel.stalled:
            return f"It sent nothing for {limit:g} s."
