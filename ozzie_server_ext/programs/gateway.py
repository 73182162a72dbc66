"""The headless gateway: a Jupyter Server on loopback with Ozzie as its only extension.

A kernel starts one if no gateway runs. That one uses a free port, and ends by itself when nobody has used it for a
while, or when a person has started a server for the same home (ADR 11).
"""

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

from ozzie_server_ext.programs.broken import can_not_be_loaded

if __name__ == "__main__":
    # While modules load, an interrupt has nothing to clean up: end the program silently.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# jsonschema builds a grammar for IRIs at import, which takes as long as the rest of the start and serves a format that
# none of Jupyter's schemas uses. Without this package it skips that format.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

try:
    from jupyter_server.serverapp import ServerApp
    from tornado.ioloop import PeriodicCallback

    # Jupyter loads it by name, and continues without extensions that it can't load.
    import ozzie_server_ext.extension  # noqa: F401
    from ozzie_server_ext.config.home import find_home
    from ozzie_server_ext.config.loader import load
    from ozzie_server_ext.config.settings import GatewaySettings
    from ozzie_server_ext.domain.errors import InputError, OzzieError, Unavailable
    from ozzie_server_ext.gateway.state import GatewayState
    from ozzie_server_ext.programs.gateway_server import GatewayHttpServer, Terminal, message_of
    from ozzie_server_ext.protocol.attached import attached_servers
except Exception as error:  # packages of other versions raise all kinds
    sys.exit(can_not_be_loaded("ozzie gateway", error))

CHECK_IDLE_EVERY_S = 5.0
CHECK_SUCCESSOR_EVERY_S = 0.5
CHECK_IDLE_MOMENT_EVERY_S = 0.01
"""While a successor waits. If all cells of a notebook run, little time lies between two turns."""


class GatewayServer(ServerApp):
    """A server for Ozzie alone, without Jupyter's own services for files, kernels and the like."""

    default_services: Any = ("auth", "security")
    terminal: Terminal | None = None
    """Where to print messages; without it, the log goes to standard error."""

    def get_default_logging_config(self) -> Any:
        config = super().get_default_logging_config()
        return self.terminal.logging_config(config) if self.terminal is not None else config

    def init_httpserver(self) -> None:
        super().init_httpserver()  # finds the port, and binds it once the loop runs
        self._http_server = GatewayHttpServer(self.web_app, ssl_options=self.ssl_options, xheaders=self.trust_xheaders)

    def write_browser_open_files(self) -> None:
        """Write none: there is no page to open, and its address would contain a token."""


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="ozzie gateway", description="Run Ozzie's gateway without JupyterLab.")
    parser.add_argument("--port", type=_port, help="0 for any free port (default: gateway.port, or 18420 if free)")
    parser.add_argument("--project", type=_folder, default=Path.cwd(), help="the project folder (default: here)")
    parser.add_argument("--idle-exit", type=float, metavar="SECONDS", help="exit after this long without a client")
    parser.add_argument(
        "--temporary", action="store_true", help="exit when a server that a person started runs, and no task is running"
    )
    parser.add_argument("--verbose", action="store_true", help="show the server's log instead of its state")
    options = parser.parse_args(argv)
    terminal = None if options.verbose else Terminal()
    try:
        # A kernel passes the port; only a gateway that a person starts needs the configuration before it can listen.
        gateway = load(find_home()).settings.gateway if options.port is None else GatewaySettings(port=options.port)
    except InputError as error:
        sys.exit(message_of(error))
    server = _build(gateway, options.project, terminal)
    if notice := gateway.other_port_notice(server.port):
        terminal.say(notice) if terminal is not None else server.log.warning("%s", notice)
    state: GatewayState | None = server.web_app.settings.get("ozzie")
    if state is None:
        sys.exit(message_of(_not_loaded()))
    state.headless = True
    state.reporter = terminal
    state.temporary = options.temporary
    failures: list[OzzieError] = []

    def fail(error: OzzieError) -> None:
        failures.append(error)
        signal.raise_signal(signal.SIGTERM)

    state.on_failure = fail
    if options.idle_exit:
        _end_when_idle(state, options.idle_exit)
    if options.temporary:
        _end_when_another_takes_over(state, find_home().root)
    # SIGINT asks a question on a terminal and skips the clean-up without one; SIGTERM stops in order either way.
    signal.signal(signal.SIGINT, lambda *_: signal.raise_signal(signal.SIGTERM))
    server.start()
    if failures and terminal is None:  # last, because ozzie_kernel/launch.py reads the last lines
        print(message_of(failures[-1]), file=sys.stderr)
    elif terminal is not None and not failures:
        terminal.say("The gateway is stopped.")
    sys.exit(1 if failures else 0)


def _not_loaded() -> OzzieError:
    return Unavailable(
        "Jupyter did not load Ozzie's server extension.",
        hint="Check with `jupyter server extension list` whether it is disabled, or install jupyter-ozzie again.",
        code="install.incomplete",
    )


def _port(text: str) -> int:
    if not text.isdecimal() or len(text) > 5 or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text[:20]} is not a port; give a number from 0 to 65535")
    return int(text)


def _folder(text: str) -> Path:
    folder = Path(text).absolute()
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a folder")
    return folder


def _build(gateway: GatewaySettings, project: Path, terminal: Terminal | None) -> GatewayServer:
    GatewayServer.terminal = terminal
    server = GatewayServer.instance(allow_root=True, jpserver_extensions={"ozzie_server_ext": True})
    settings = {
        "ip": gateway.host,
        "port": gateway.port,
        "port_retries": 50 if gateway.takes_any_port else 0,
        "root_dir": str(project),
        "open_browser": False,
        "jpserver_extensions": "ozzie_server_ext=True",
        "allow_remote_access": False,
        # Jupyter's own API answers no unauthenticated clients either.
        "allow_unauthenticated_access": False,
        # Without Jupyter's "open this page": there is no page.
        "log_level": "CRITICAL" if gateway.port == 0 and terminal is None else "WARN",
    }
    # As arguments, because they override the user's Jupyter configuration of a server's address.
    argv = [f"--ServerApp.{name}={value}" for name, value in settings.items()]
    try:
        server.initialize(argv=argv, find_extensions=False, new_httpserver=True)
    except SystemExit:
        if terminal is not None:
            terminal.gave_up()
        raise
    _hide_token(server)
    return server


def _hide_token(server: GatewayServer) -> None:
    """Jupyter prints a token that it generates, which would end up in a log and in the reason why a gateway ended.
    Nobody needs it: there is no page, and programs use the handshake's token."""
    provider = server.identity_provider
    if provider.token:  # the first access generates it
        provider.token_generated = False


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


def _end_when_another_takes_over(state: GatewayState, home: Path) -> None:
    """Exit once another server waits and no task runs. Kernels then continue at the other one. Servers that were
    attached before this one started do not count: they did not take over."""
    present = attached_servers(home)

    def waits() -> bool:
        return any(server not in present for server in attached_servers(home))

    def leave_when_idle() -> None:
        if not waits():
            leaving.stop()
        elif state.ozzie is not None and not state.ozzie.busy:
            signal.raise_signal(signal.SIGTERM)

    def check() -> None:
        if waits() and not leaving.is_running():
            leaving.start()

    leaving = PeriodicCallback(leave_when_idle, CHECK_IDLE_MOMENT_EVERY_S * 1000)
    PeriodicCallback(check, CHECK_SUCCESSOR_EVERY_S * 1000).start()


if __name__ == "__main__":
    main()
