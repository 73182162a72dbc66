"""The headless gateway: a Jupyter Server with nothing in it but Ozzie, on loopback (GW-1).

A kernel starts it where no gateway runs: then on a free port, ending by itself when nobody has used it for a while.
"""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from jupyter_server.serverapp import ServerApp
from tornado.ioloop import PeriodicCallback

from ozzie_server_ext.config.home import find_home
from ozzie_server_ext.config.loader import load
from ozzie_server_ext.config.settings import GatewaySettings
from ozzie_server_ext.domain.errors import InputError, OzzieError
from ozzie_server_ext.gateway.state import GatewayState

CHECK_IDLE_EVERY_S = 5.0


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="ozzie gateway", description="Run Ozzie's gateway without JupyterLab.")
    parser.add_argument("--port", type=int, help="0 for any free port (default: gateway.port, which is 18420)")
    parser.add_argument("--project", type=Path, default=Path.cwd(), help="the project folder (default: here)")
    parser.add_argument(
        "--idle-exit", type=float, metavar="SECONDS", help="end when no client was connected for so long"
    )
    options = parser.parse_args(argv)
    try:
        # A kernel says which port; only a person's gateway needs the configuration before it can even listen.
        gateway = load(find_home()).settings.gateway if options.port is None else GatewaySettings(port=options.port)
    except InputError as error:
        sys.exit(f"{error}\n{error.hint}")
    server = _build(gateway.host, gateway.port, options.project.absolute())
    state: GatewayState = server.web_app.settings["ozzie"]
    failures: list[OzzieError] = []

    def fail(error: OzzieError) -> None:
        failures.append(error)
        signal.raise_signal(signal.SIGTERM)

    state.on_failure = fail
    if options.idle_exit:
        _end_when_idle(state, options.idle_exit)
    # SIGINT asks a question on a terminal and skips the clean-up without one; SIGTERM stops in order either way.
    signal.signal(signal.SIGINT, lambda *_: signal.raise_signal(signal.SIGTERM))
    server.start()
    for error in failures:
        print(error, error.hint, sep="\n", file=sys.stderr)
    sys.exit(1 if failures else 0)


def _build(host: str, port: int, project: Path) -> ServerApp:
    server = ServerApp.instance(
        ip=host,
        port=port,
        open_browser=False,
        root_dir=str(project),
        allow_root=True,
        jpserver_extensions={"ozzie_server_ext": True},
        log_level="WARN",
    )
    server.initialize(argv=[], find_extensions=False, new_httpserver=True)
    return server


def _end_when_idle(state: GatewayState, seconds: float) -> None:
    loop = asyncio.get_event_loop_policy().get_event_loop()
    last_used = loop.time()

    def check() -> None:
        nonlocal last_used
        if state.clients or (state.ozzie is not None and state.ozzie.busy):
            last_used = loop.time()
        elif loop.time() - last_used > seconds:
            signal.raise_signal(signal.SIGTERM)

    PeriodicCallback(check, min(CHECK_IDLE_EVERY_S, seconds / 4) * 1000).start()


if __name__ == "__main__":
    main()
