"""The headless gateway: a Jupyter Server with nothing in it but Ozzie, on loopback (GW-1).

A kernel starts it where no gateway runs: then on a free port, ending by itself when nobody has used it for a while.
"""

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

from jupyter_server.serverapp import ServerApp
from tornado.ioloop import PeriodicCallback

CHECK_IDLE_EVERY_S = 5.0


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="ozzie gateway", description="Run Ozzie's gateway without JupyterLab.")
    parser.add_argument("--port", type=int, default=18420, help="0 for any free port (default 18420)")
    parser.add_argument("--project", type=Path, default=Path.cwd(), help="the project folder (default: here)")
    parser.add_argument(
        "--idle-exit", type=float, metavar="SECONDS", help="end when no client was connected for so long"
    )
    options = parser.parse_args(argv)
    server = _build(options.port, options.project.absolute())
    if options.idle_exit:
        _end_when_idle(server, options.idle_exit)
    # SIGINT asks a question on a terminal and skips the clean-up without one; SIGTERM stops in order either way.
    signal.signal(signal.SIGINT, lambda *_: signal.raise_signal(signal.SIGTERM))
    server.start()
    sys.exit(0)


def _build(port: int, project: Path) -> ServerApp:
    server = ServerApp.instance(
        ip="127.0.0.1",
        port=port,
        open_browser=False,
        root_dir=str(project),
        allow_root=True,
        jpserver_extensions={"ozzie_server_ext": True},
        log_level="WARN",
    )
    server.initialize(argv=[], find_extensions=False, new_httpserver=True)
    return server


def _end_when_idle(server: ServerApp, seconds: float) -> None:
    loop = asyncio.get_event_loop_policy().get_event_loop()
    last_used = loop.time()

    def check() -> None:
        nonlocal last_used
        state: Any = server.web_app.settings.get("ozzie")
        if state is None or state.clients or (state.ozzie is not None and state.ozzie.driver.busy):
            last_used = loop.time()
        elif loop.time() - last_used > seconds:
            signal.raise_signal(signal.SIGTERM)

    PeriodicCallback(check, CHECK_IDLE_EVERY_S * 1000).start()


if __name__ == "__main__":
    main()
