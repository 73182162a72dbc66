"""`ozzie gateway`: run it here, leave it running, or stop the one that runs (GW-1)."""

import argparse
import os
import select
import signal
import sys
import time
from urllib.parse import urlsplit

from ozzie_kernel.launch import Launched, launch_gateway
from ozzie_server_ext.cli.http import NotRunning, Object, Silent, ask_at, get, handshakes, this_home
from ozzie_server_ext.cli.output import print_json
from ozzie_server_ext.cli.parser import Misused
from ozzie_server_ext.config.home import find_home
from ozzie_server_ext.config.loader import load
from ozzie_server_ext.config.settings import GatewaySettings
from ozzie_server_ext.domain.errors import Conflict, OzzieError, Unavailable
from ozzie_server_ext.protocol.attached import attached_servers
from ozzie_server_ext.protocol.handshake import Handshake
from ozzie_server_ext.protocol.owner import owner_pid

# `-P`: a `json.py` in the folder must not take the place of the library's.
PROGRAM = (sys.executable, "-P", "-m", "ozzie_server_ext.programs.gateway")
START_S = 40.0
STOP_S = 40.0
POLL_S = 0.05


def gateway(options: argparse.Namespace) -> int:
    """Start or stop; in the foreground the gateway takes this process's place. Raises OzzieError."""
    given = {"--port": options.port, "--project": options.project, "--idle-exit": options.idle_exit}
    arguments = [word for name, value in given.items() if value is not None for word in (name, value)]
    if options.verbose:
        arguments.append("--verbose")
    if options.stop:
        if options.detach or arguments:
            raise Misused("--stop goes alone.", hint="See ozzie gateway --help.")
        return _stop(as_json=options.json)
    if options.detach:
        return _start(arguments, as_json=options.json)
    if options.json:
        raise Misused("--json goes with --detach or --stop.", hint="See ozzie gateway --help.")
    _expect_room()
    os.execv(sys.executable, [*PROGRAM, *arguments])


def _start(arguments: list[str], *, as_json: bool) -> int:
    _expect_room()
    launched = launch_gateway(this_home(), arguments)
    try:
        url = _wait_until_it_answers(launched)
    except BaseException:
        launched.end()
        raise
    pid = launched.process.pid
    # Where nobody owns the folder at this moment, this one is about to.
    owner = owner_pid(this_home()) or pid
    if as_json:
        print_json({"pid": pid, "url": url, "owner": owner})
    else:
        print(f"The gateway runs: process {pid}, {url}")
        if "--port" not in arguments and (notice := _own_settings().other_port_notice(urlsplit(url).port or 0)):
            print(notice)
        if owner != pid:
            print(f"It is attached to the server of process {owner}, and takes over when that one goes.")
    return 0


def _own_settings() -> GatewaySettings:
    return load(find_home()).settings.gateway


def _expect_room() -> None:
    """Raises Conflict where a person's gateway runs already, beside which another would serve nobody."""
    owner, runs = _owner(), _attached_gateways()
    if owner is not None and owner["headless"] and not owner["temporary"]:
        runs.append(owner["pid"])
    if runs:
        raise Conflict(
            f"A gateway runs already (process {runs[-1]}).",
            hint="Stop it with ozzie gateway --stop.",
            code="gateway.running",
        )


def _owner() -> Object | None:
    """The health of the server that owns the folder; None where none does at this moment. Raises Silent."""
    try:
        return get("health")
    except NotRunning:
        return None


def _attached_gateways() -> list[int]:
    return [server.pid for server in attached_servers(this_home()) if server.headless]


def _wait_until_it_answers(launched: Launched) -> str:
    """The address of the gateway once it answers. Raises Unavailable with its own words where it ended."""
    end = time.monotonic() + START_S
    reason, hint = f"The gateway did not answer within {START_S:.0f} s.", ""
    while time.monotonic() < end:
        for handshake in handshakes():
            if handshake.pid == launched.process.pid and _answers(handshake):
                return handshake.url
        for server in attached_servers(this_home()):
            if server.pid == launched.process.pid:
                return server.url
        if launched.ended:
            said, hint = launched.reason()
            reason = said or "The gateway ended before it answered."
            break
        time.sleep(POLL_S)
    raise Unavailable(reason, hint=f"{hint} Its own words are in {launched.log}.".lstrip(), code="gateway.start")


def _answers(handshake: Handshake) -> bool:
    try:
        ask_at(handshake, "health")
    except (OzzieError, OSError):
        return False
    return True


def _stop(*, as_json: bool) -> int:
    """Stop what is headless. A gateway that is attached goes first, or it would take over."""
    owner, found = _owner(), _attached_gateways()
    if owner is not None and owner["headless"]:
        found.append(int(owner["pid"]))
    if owner is None and not found:
        raise NotRunning(this_home())
    if owner is not None and not found:
        raise Conflict(
            f"The gateway is part of a Jupyter Server (process {owner['pid']}), which may hold open notebooks.",
            hint="Stop that server where it was started.",
            code="gateway.jupyter",
        )
    for pid in dict.fromkeys(found):  # one that is just taking over is told of twice
        if not _end(pid):
            raise Silent(pid)
        if not as_json:
            print(f"The gateway (process {pid}) is stopped.")
    if as_json:
        print_json({"stopped": found[-1]})
    return 0


def _end(pid: int) -> bool:
    """Have the gateway stop in order; whether it is gone in time."""
    if not hasattr(os, "pidfd_open"):  # not on Linux: its locks tell
        os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + STOP_S
        while (runs := _serves(pid)) and time.monotonic() < end:
            time.sleep(POLL_S)
        return not runs
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        return bool(select.select([process], [], [], STOP_S)[0])
    finally:
        os.close(process)


def _serves(pid: int) -> bool:
    return pid == owner_pid(this_home()) or pid in [server.pid for server in attached_servers(this_home())]
