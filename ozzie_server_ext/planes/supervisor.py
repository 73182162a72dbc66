"""Keeps one child process: starts it on demand, watches it, starts it again with growing pauses, stops it cleanly."""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.channel import Channel
from ozzie_server_ext.planes.environment import child_environment
from ozzie_server_ext.planes.identity import ProcessMark, mark_of
from ozzie_server_ext.planes.process import ChildProcess
from ozzie_server_ext.planes.restarts import Pace, Restarts

log = logger(__name__)


class PlaneUnavailable(Unavailable):
    """The child does not run, and will not be started now."""

    code = "plane.unavailable"


async def _nobody(mark: ProcessMark) -> None:
    pass


class Supervisor:
    """One child of ours. `channel()` gives the connection to it, and starts it where needed.

    `on_started(mark)` and `on_lost(pid, reason)` tell the application, which records both; the first is waited for
    before a call can go out, so that no call goes to a child that nobody would find again. `on_heartbeat` gets each
    heartbeat of a child that is ready.
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
        self._farewell = "It was given up."
        self.pid: int | None = None

    def start(self) -> None:
        """Begins to start the child, where it does not run. Raises PlaneUnavailable."""
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
        """Whether the child runs, or is being started, or will be started again."""
        return self._keeper is not None and not self._keeper.done()

    @property
    def connected(self) -> Channel | None:
        """The connection to a child that is ready; None where a call would have to wait."""
        future = self._channel
        if future is None or not future.done() or future.cancelled() or future.exception() is not None:
            return None
        return future.result()

    async def channel(self) -> Channel:
        """The connection to a child that is ready, waiting for its start or restart.

        Raises PlaneUnavailable where it does not come up.
        """
        self.start()
        assert self._channel is not None
        return await asyncio.shield(self._channel)

    async def stop(self, reason: str = "It was stopped with its gateway.") -> None:
        """Ends the child for good, in bounded time; `reason` is told to `on_lost`."""
        self._stopping = True
        self._farewell = reason
        if self._keeper is not None:
            self._keeper.cancel()
            # Not `await`: how the keeper ended is no reason for a gateway not to stop.
            await asyncio.wait({self._keeper})
        self._give_up(f"The {self.name} was stopped.")

    # --- inside -------------------------------------------------------------------------------------------

    async def _keep_or_give_up(self) -> None:
        try:
            await self._keep()
        except Exception as error:
            # Only the kind: what could not be sent may be a key, and this sentence is shown.
            log.exception("the %s is not kept running any more", self.name)
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
            # Jitter keeps several children from starting at the same moment.
            await asyncio.sleep(pause * (1 + self._pace.jitter * self._luck()))

    async def _one_life(self) -> str:
        """Runs one child from its start to its end; returns why it ended."""
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
            # At once: who asks for a connection now must wait for the next child.
            if self._channel is None or self._channel.done():
                self._channel = loop.create_future()

        try:
            child, end = ChildProcess.spawn(self._argv, env=self._env, log_file=self._log_file)
        except OSError as error:
            return f"It can't be started: {error}."
        self.pid = child.pid
        mark = mark_of(child.pid)
        reason = ""
        noted = False
        try:
            channel = await Channel.open(end, on_event=on_event, on_lost=on_lost, kill=child.kill)
            silence = asyncio.create_task(_silence(channel, self._pace.starting_silent_s))
            try:
                await asyncio.wait({ready, lost, silence}, return_when=asyncio.FIRST_COMPLETED)
                if ready.done() and not lost.done():
                    noted = True
                    await self._on_started(mark)
                if noted and not lost.done():
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
            reason = f"{reason or self._farewell} {await child.end()}"
            self.pid = None
            if noted:
                self._on_lost(child.pid, reason)
        return reason

    def _give_up(self, reason: str) -> None:
        if self._channel is not None and not self._channel.done():
            self._channel.set_exception(PlaneUnavailable(reason))
            self._channel.exception()  # read here, because nobody may be waiting


async def _silence(channel: Channel, limit: float) -> str:
    """Returns once nothing has come over `channel` for `limit` seconds, and says so."""
    loop = asyncio.get_running_loop()
    while True:
        heard_at = channel.heard_at
        await asyncio.sleep(max(0.0, heard_at + limit - loop.time()))
        # Our own loop may have been held up for that long: what lies in the socket is read before judging.
        await asyncio.sleep(0.05)
        if channel.heard_at == heard_at and not channel.stalled:
            return f"Nothing was heard of it for {limit:g} s."
