"""The Jupyter Server extension: starts Ozzie with the server, and stops it before the server's kernels go."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_runtime_dir
from jupyter_server.extension.application import ExtensionApp

from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home, find_home
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.gateway.contents import follow_contents
from ozzie_server_ext.gateway.owner import OwnerLock
from ozzie_server_ext.gateway.routes import handlers
from ozzie_server_ext.gateway.state import GatewayState
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.handshake import (
    VERSION,
    Handshake,
    handshake_path,
    remove_dead_handshakes,
    write_handshake,
)

log = logger(__name__)

STOP_S = 10


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
        follow_contents(self.serverapp, self.state)

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:
        try:
            home = find_home()
            await self._start(home, serverapp)
        except Exception as error:
            if not isinstance(error, OzzieError):
                self.log.exception("Ozzie could not be started")
                error = Unavailable(f"Ozzie could not be started: {error}.", code="gateway.start")
            self.state.fail(error)
            await self.stop_extension()
            self.log.warning("Ozzie does not run in this server. %s %s", error, error.hint)
            return
        self.log.info("Ozzie is ready; its folder is %s", home.root)

    async def _start(self, home: Home, serverapp: Any) -> None:
        home.create()
        self.lock = OwnerLock(home.root)
        self.lock.acquire()
        self.ozzie = await Ozzie.start(home, Path(serverapp.root_dir))
        remove_dead_handshakes(self._handshake_path.parent)
        write_handshake(
            self._handshake_path,
            Handshake(
                v=VERSION,
                url=_own_url(serverapp),
                token=self.state.access.local_token,
                pid=os.getpid(),
                home=str(home.root),
                started=time.time(),
            ),
        )
        self.state.ozzie = self.ozzie

    async def stop_extension(self) -> None:
        """Let go of everything that was started, as far as it was; called again, it does nothing."""
        self._handshake_path.unlink(missing_ok=True)
        ozzie, self.ozzie, self.state.ozzie = self.ozzie, None, None
        try:
            if ozzie is not None:
                async with asyncio.timeout(STOP_S):
                    await ozzie.stop()
        except TimeoutError:
            log.error("Ozzie did not stop within %s s; what was running is recovered at the next start", STOP_S)
        except Exception:
            log.exception("Ozzie did not stop in order; what was running is recovered at the next start")
        finally:
            self._release()

    @property
    def _handshake_path(self) -> Path:
        return handshake_path(Path(jupyter_runtime_dir()), os.getpid())

    def _release(self) -> None:
        if self.lock is not None:
            self.lock.release()
            self.lock = None


def _own_url(serverapp: Any) -> str:
    """The server's address as a process of this machine reaches it. Raises Unavailable for a Unix socket."""
    if serverapp.sock:
        raise Unavailable(
            "Ozzie needs a server that listens on a port, and this one listens on a Unix socket.",
            hint="Start Jupyter without --sock.",
            code="gateway.socket",
        )
    scheme = "https" if serverapp.certfile else "http"
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]", "localhost": "127.0.0.1"}.get(
        serverapp.ip, f"[{serverapp.ip}]" if ":" in serverapp.ip else serverapp.ip
    )
    return f"{scheme}://{host}:{serverapp.port}{serverapp.base_url}"
