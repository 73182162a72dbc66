"""The Jupyter Server extension: starts Ozzie with the server, and stops it before the server's kernels go."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_runtime_dir
from jupyter_server.extension.application import ExtensionApp

from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import find_home
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.gateway.owner import OwnerLock
from ozzie_server_ext.gateway.routes import handlers
from ozzie_server_ext.gateway.state import GatewayState
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.handshake import VERSION, Handshake, handshake_path, write_handshake

log = logger(__name__)


class OzzieExtension(ExtensionApp):
    """Hosts the gateway in a Jupyter Server."""

    name = "ozzie_server_ext"
    app_name = "Ozzie"
    description = "The agent server that lives in Jupyter"
    load_other_extensions = True

    def initialize_settings(self) -> None:
        self.state = GatewayState()
        self.lock: OwnerLock | None = None
        self.ozzie: Ozzie | None = None
        self.settings["ozzie"] = self.state

    def initialize_handlers(self) -> None:
        # The base class puts this list below the server's own routes; the base URL is part of each pattern.
        assert self.serverapp is not None, "handlers are added once the extension is linked to a server"
        self.handlers.extend(handlers(self.serverapp.base_url))

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:
        home = find_home()
        try:
            home.create()
            lock = OwnerLock(home.root)
            lock.acquire()
            self.lock = lock
            self.ozzie = self.state.ozzie = await Ozzie.start(home, Path(serverapp.root_dir))
        except OzzieError as error:
            self.state.fail(error)
            self._release()
            self.log.warning("Ozzie does not run in this server. %s %s", error, error.hint)
            return
        write_handshake(
            self._handshake_path,
            Handshake(
                v=VERSION,
                url=_loopback_url(serverapp),
                token=self.state.access.local_token,
                pid=os.getpid(),
                home=str(home.root),
                started=time.time(),
            ),
        )
        self.log.info("Ozzie is ready; its folder is %s", home.root)

    async def stop_extension(self) -> None:
        self._handshake_path.unlink(missing_ok=True)
        ozzie, self.ozzie, self.state.ozzie = self.ozzie, None, None
        if ozzie is not None:
            try:
                async with asyncio.timeout(10):
                    await ozzie.stop()
            except TimeoutError:
                log.error("Ozzie did not stop within 10 s; what was running is recovered at the next start")
        self._release()

    @property
    def _handshake_path(self) -> Path:
        return handshake_path(Path(jupyter_runtime_dir()), os.getpid())

    def _release(self) -> None:
        if self.lock is not None:
            self.lock.release()
            self.lock = None


def _loopback_url(serverapp: Any) -> str:
    """The server's address as a process of this machine reaches it."""
    scheme = "https" if serverapp.certfile else "http"
    host = "[::1]" if serverapp.ip == "::1" else "127.0.0.1"
    return f"{scheme}://{host}:{serverapp.port}{serverapp.base_url}"
