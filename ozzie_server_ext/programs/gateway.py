"""The headless gateway: a Jupyter Server that loads no extension but Ozzie, on loopback.

A kernel starts it where no gateway runs: then on a free port, ending by itself when nobody has used it for a while, or
when a person has started a server for the same home (ADR 11).
"""

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

from ozzie_server_ext.programs.broken import can_not_be_loaded

if __name__ == "__main__":
    # To load takes a second, and in it an interrupt has nothing to put in order: it ends the program without a word.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# jsonschema builds a grammar for IRIs when it is imported, which takes as long as all the rest of a start and
# serves a format that none of Jupyter's schemas uses. Without this package it leaves that format unchecked.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

try:
    from jupyter_server.serverapp import ServerApp
    from tornado.ioloop import PeriodicCallback

    # Jupyter loads it by its name, and goes on without what it can't load.
    import ozzie_server_ext.extension  # noqa: F401
    from ozzie_server_ext.config.home import find_home
    from ozzie_server_ext.config.loader import load
    from ozzie_server_ext.config.settings import GatewaySettings
    from ozzie_server_ext.domain.errors import InputError, OzzieError, Unavailable
    from ozzie_server_ext.gateway.state import GatewayState
    from ozzie_server_ext.programs.gateway_server import GatewayHttpServer, Terminal, told
    from ozzie_server_ext.protocol.attached import attached_servers
except Exception as error:  # packages of other versions than ours raise whatever they like
    sys.exit(can_not_be_loaded("ozzie gateway", error))

CHECK_IDLE_EVERY_S = 5.0
CHECK_HEIRS_EVERY_S = 0.5
CHECK_IDLE_MOMENT_EVERY_S = 0.01
"""While another one waits: where all cells of a notebook are run, little time lies between two turns."""


class GatewayServer(ServerApp):
    """A server for Ozzie alone: without Jupyter's own services for files, kernels and the like, which nobody asked
    this port to offer."""

    default_services: Any = ("auth", "security")
    terminal: Terminal | None = None
    """Where to tell how it stands; without one, its log goes to standard error."""

    def get_default_logging_config(self) -> Any:
        config = super().get_default_logging_config()
        return self.terminal.logging_config(config) if self.terminal is not None else config

    def init_httpserver(self) -> None:
        super().init_httpserver()  # finds the port, and binds it once the loop runs
        self._http_server = GatewayHttpServer(self.web_app, ssl_options=self.ssl_options, xheaders=self.trust_xheaders)

    def write_browser_open_files(self) -> None:
        """None is written: there is no page to open, and its address would hold a token."""


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="ozzie gateway", description="Run Ozzie's gateway without JupyterLab.")
    parser.add_argument("--port", type=_port, help="0 for any free port (default: gateway.port, or 18420 if free)")
    parser.add_argument("--project", type=_folder, default=Path.cwd(), help="the project folder (default: here)")
    parser.add_argument(
        "--idle-exit", type=float, metavar="SECONDS", help="end when no client was connected for so long"
    )
    parser.add_argument(
        "--temporary", action="store_true", help="end when a server runs that a person started, and nothing is running"
    )
    parser.add_argument("--verbose", action="store_true", help="show the server's log instead of how it stands")
    options = parser.parse_args(argv)
    terminal = None if options.verbose else Terminal()
    try:
        # A kernel says which port; only a person's gateway needs the configuration before it can even listen.
        gateway = load(find_home()).settings.gateway if options.port is None else GatewaySettings(port=options.port)
    except InputError as error:
        sys.exit(told(error))
    server = _build(gateway, options.project, terminal)
    if notice := gateway.other_port_notice(server.port):
        terminal.say(notice) if terminal is not None else server.log.warning("%s", notice)
    state: GatewayState | None = server.web_app.settings.get("ozzie")
    if state is None:
        sys.exit(told(_not_loaded()))
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
    if failures and terminal is None:  # last of all: see ozzie_kernel/launch.py
        print(told(failures[-1]), file=sys.stderr)
    elif terminal is not None and not failures:
        terminal.say("The gateway is stopped.")
    sys.exit(1 if failures else 0)


def _not_loaded() -> OzzieError:
    return Unavailable(
        "Jupyter did not load Ozzie's server extension.",
        hint="See with `jupyter server extension list` whether it is turned off, or install jupyter-ozzie again.",
        code="install.incomplete",
    )


def _port(text: str) -> int:
    if not text.isdecimal() or len(text) > 5 or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text[:20]} is no port; give a number from 0 to 65535")
    return int(text)


def _folder(text: str) -> Path:
    folder = Path(text).absolute()
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no folder")
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
        # Nor does Jupyter's own API say anything to who is not known.
        "allow_unauthenticated_access": False,
        # Without Jupyter's "open this page": there is no page.
        "log_level": "CRITICAL" if gateway.port == 0 and terminal is None else "WARN",
    }
    # As arguments, because these win over whatever the user's Jupyter configuration says of a server's address.
    argv = [f"--ServerApp.{name}={value}" for name, value in settings.items()]
    try:
        server.initialize(argv=argv, find_extensions=False, new_httpserver=True)
    except SystemExit:
        if terminal is not None:
            terminal.gave_up()
        raise
    _keep_token_secret(server)
    return server


def _keep_token_secret(server: GatewayServer) -> None:
    """Jupyter prints a token of its own making, which would stand in a log then, and in what is told of why a gateway
    ended. Nobody needs it: there is no page, and programs take the token of the handshake."""
    provider = server.identity_provider
    if provider.token:  # it is made at the first look at it
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
    """Tasks that run see their end here. Kernels wait for the other one, and go on there. Who was attached before this
    one began had its chance, and did not take it."""
    passed_by = attached_servers(home)

    def waits() -> bool:
        return any(server not in passed_by for server in attached_servers(home))

    def leave_when_idle() -> None:
        if not waits():
            leaving.stop()
        elif state.ozzie is not None and not state.ozzie.busy:
            signal.raise_signal(signal.SIGTERM)

    def check() -> None:
        if waits() and not leaving.is_running():
            leaving.start()

    leaving = PeriodicCallback(leave_when_idle, CHECK_IDLE_MOMENT_EVERY_S * 1000)
    PeriodicCallback(check, CHECK_HEIRS_EVERY_S * 1000).start()


if __name__ == "__main__":
    main()
