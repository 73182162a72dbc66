"""The Jupyter Server extension: starts Ozzie with the server, and stops it before the server's kernels go."""

import asyncio
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from jupyter_core.paths import jupyter_runtime_dir
from jupyter_server.extension.application import ExtensionApp
from tornado.ioloop import PeriodicCallback

from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import find_home
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.gateway.jupyter_server import follow_contents, jupyter_around
from ozzie_server_ext.gateway.leadership import Leadership
from ozzie_server_ext.gateway.routes import handlers
from ozzie_server_ext.gateway.services import Services
from ozzie_server_ext.gateway.state import GatewayState, Reporter
from ozzie_server_ext.gateway.stop_signals import StopSignals, release_idle_threads_at_exit
from ozzie_server_ext.observability.heap import settle_heap
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.attached import AttachedServer
from ozzie_server_ext.protocol.handshake import (
    VERSION,
    Handshake,
    handshake_path,
    remove_dead_handshakes,
    write_handshake,
)

log = logger(__name__)

STOP_S = 10
NOTE_ACTIVITY_EVERY_S = 5.0


class OzzieExtension(ExtensionApp):
    """Hosts the gateway in a Jupyter Server, or hands on to the server that hosts it for the same home."""

    name = "ozzie_server_ext"
    app_name = "Ozzie"
    description = "The agent server that lives in Jupyter"
    load_other_extensions = True
    _stop_signals: StopSignals | None = None
    """None where nobody linked it, as the classic notebook server does not."""

    def _link_jupyter_server_extension(self, serverapp: Any) -> None:
        super()._link_jupyter_server_extension(serverapp)
        # Before Jupyter installs its handlers: it logs much from then on.
        self._stop_signals = StopSignals(serverapp)
        self._stop_signals.install()

    def initialize_settings(self) -> None:
        self.state = GatewayState()
        self.ozzie: Ozzie | None = None
        self._leadership: Leadership | None = None
        self._is_stopped = False
        self._noting = PeriodicCallback(self._note_activity, NOTE_ACTIVITY_EVERY_S * 1000)
        self.settings["ozzie"] = self.state

    def initialize_handlers(self) -> None:
        # The base class puts these below the server's base URL.
        self.handlers.extend(handlers())
        follow_contents(self.serverapp, self.state)

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:
        if self._is_stopped:  # the server, while it still started other extensions
            return
        reporter: Reporter = self.state.reporter or _LogReporter(self.log)
        unfit = _unfit(serverapp)
        url = "" if unfit else _own_url(serverapp)

        async def begin() -> Services:
            return await self._begin(url, Path(serverapp.root_dir))

        try:
            self._leadership = Leadership(
                find_home(),
                Path(jupyter_runtime_dir()),
                Path(serverapp.root_dir),
                self.state,
                AttachedServer(pid=os.getpid(), url=url, headless=self.state.headless, root=str(serverapp.root_dir)),
                begin=begin,
                end=self._end,
                reporter=reporter,
                unfit=unfit,
            )
        except OzzieError as error:  # an account without any folder
            reporter.failed(error)
            self.state.fail(error)
            self.state.on_failure(error)
            return
        self._noting.start()
        await self._leadership.start()

    async def _begin(self, url: str, project: Path) -> Services:
        """Start Ozzie, and tell kernels and commands where. What was begun is undone by `_end`."""
        assert self._leadership is not None
        around = jupyter_around(self.serverapp, self.state, self._leadership.home)
        self.ozzie = ozzie = await Ozzie.start(self._leadership.home, project, around)
        ozzie.on_replaced = self._leadership.replaced
        settle_heap()
        remove_dead_handshakes(self._handshake_path.parent)
        write_handshake(
            self._handshake_path,
            Handshake(
                v=VERSION,
                url=url,
                token=self.state.access.local_token,
                pid=os.getpid(),
                home=str(ozzie.home.root),
                started=time.time(),
            ),
        )
        return ozzie

    async def _end(self) -> None:
        """Undo `_begin`, as far as it came."""
        ozzie, self.ozzie = self.ozzie, None
        try:
            self._handshake_path.unlink(missing_ok=True)
        except OSError as error:  # raised, it would keep the server itself from stopping
            log.warning("%s can't be removed: %s", self._handshake_path, error.strerror)
        try:
            if ozzie is not None:
                async with asyncio.timeout(STOP_S):
                    await ozzie.stop()
        except TimeoutError:
            log.error("Ozzie did not stop within %s s; what was running is recovered at the next start", STOP_S)
        except Exception:
            log.exception("Ozzie did not stop in order; what was running is recovered at the next start")

    async def stop_extension(self) -> None:
        """Release everything that was started; called again, it does nothing."""
        if not self._is_stopped:
            release_idle_threads_at_exit()
        self._is_stopped = True
        self._noting.stop()
        if self._leadership is not None:
            await self._leadership.stop()
        if self._stop_signals is not None:
            self._stop_signals.remove()

    # The base class says None, and asks whether it is true.
    def current_activity(self) -> Any:
        """What keeps Jupyter from ending an idle server. The tasks of the owner that this server is attached to do
        not: they go on without it."""
        return ["tasks"] if self.ozzie is not None and self.ozzie.busy else None

    def _note_activity(self) -> None:
        """Let a running task count in the time of the last activity, by which hubs and Jupyter itself end servers."""
        if self.current_activity():
            self.settings["last_activity_times"][self.name] = datetime.now(UTC)

    @property
    def _handshake_path(self) -> Path:
        return handshake_path(Path(jupyter_runtime_dir()), os.getpid())


class _LogReporter(msgspec.Struct, frozen=True):
    """Tells in Jupyter's log."""

    log: Any

    def say(self, sentence: str) -> None:
        self.log.info("%s", sentence)

    def warn(self, sentence: str) -> None:
        self.log.warning("%s", sentence)

    def failed(self, error: OzzieError) -> None:
        self.warn(f"Ozzie does not run in this server. {error} {error.hint}".rstrip())


def _unfit(serverapp: Any) -> OzzieError | None:
    """Why kernels and commands could not reach this server, if so."""
    if not serverapp.sock:
        return None
    return Unavailable(
        "Ozzie needs a server that listens on a port, and this one listens on a Unix socket.",
        hint="Start Jupyter without --sock.",
        code="gateway.socket",
    )


def _own_url(serverapp: Any) -> str:
    """The server's address as a process of this machine reaches it."""
    scheme = "https" if serverapp.certfile else "http"
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]", "localhost": "127.0.0.1"}.get(
        serverapp.ip, f"[{serverapp.ip}]" if ":" in serverapp.ip else serverapp.ip
    )
    return f"{scheme}://{host}:{serverapp.port}{serverapp.base_url}"
