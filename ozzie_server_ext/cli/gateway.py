"""`ozzie gateway` and `ozzie status`: run the gateway here, detach it, stop it, or show its state."""

import argparse
import os
import select
import signal
import sys
import time
from urllib.parse import urlsplit

from ozzie_kernel.launch import Launched, launch_gateway
from ozzie_server_ext.cli.http import NotRunning, Object, Silent, ask_at, get, handshakes, this_home
from ozzie_server_ext.cli.parser import Misused
from ozzie_server_ext.cli.terminal import WAYS, local_time, print_json
from ozzie_server_ext.config.home import find_home
from ozzie_server_ext.config.loader import load
from ozzie_server_ext.domain.errors import Conflict, OzzieError, Unavailable
from ozzie_server_ext.protocol.attached import attached_servers
from ozzie_server_ext.protocol.handshake import Handshake
from ozzie_server_ext.protocol.owner import owner_pid
from ozzie_server_ext.render.text import counted, visible_prose

# `-P`: a `json.py` in the folder must not shadow the library's.
PROGRAM = (sys.executable, "-P", "-m", "ozzie_server_ext.programs.gateway")
START_S = 40.0
STOP_S = 40.0
POLL_S = 0.05


def gateway(options: argparse.Namespace) -> int:
    """Start or stop a gateway; in the foreground it replaces this process. Raises OzzieError."""
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
    _expect_none_running()
    os.execv(sys.executable, [*PROGRAM, *arguments])


def _start(arguments: list[str], *, as_json: bool) -> int:
    _expect_none_running()
    launched = launch_gateway(this_home(), arguments)
    try:
        url = _wait_until_it_answers(launched)
    except BaseException:
        launched.end()
        raise
    pid = launched.process.pid
    # Without an owner at this moment, this gateway is about to become it.
    owner = owner_pid(this_home()) or pid
    if as_json:
        print_json({"pid": pid, "url": url, "owner": owner})
    else:
        print(f"The gateway runs: process {pid}, {url}")
        settings = load(find_home()).settings.gateway
        if "--port" not in arguments and (notice := settings.other_port_notice(urlsplit(url).port or 0)):
            print(notice)
        if owner != pid:
            print(f"It is attached to the server of process {owner}, and takes over when that one goes.")
    return 0


def _expect_none_running() -> None:
    """Raises Conflict if a gateway that a person started runs already: a second one would serve nobody."""
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
    """Return the health of the server that owns the folder, or None if none does at this moment. Raises Silent."""
    try:
        return get("health")
    except NotRunning:
        return None


def _attached_gateways() -> list[int]:
    return [server.pid for server in attached_servers(this_home()) if server.headless]


def _wait_until_it_answers(launched: Launched) -> str:
    """Return the gateway's address once it answers. Raises Unavailable with its last message if it ended."""
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
            message, hint = launched.reason()
            reason = message or "The gateway ended before it answered."
            break
        time.sleep(POLL_S)
    raise Unavailable(reason, hint=f"{hint} Its log is {launched.log}.".lstrip(), code="gateway.start")


def _answers(handshake: Handshake) -> bool:
    try:
        ask_at(handshake, "health")
    except (OzzieError, OSError):
        return False
    return True


def _stop(*, as_json: bool) -> int:
    """Stop the headless gateways. Attached ones go first, or they would take over."""
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
    for pid in dict.fromkeys(found):  # a gateway that is just taking over is listed twice
        if not _end(pid):
            raise Silent(pid)
        if not as_json:
            print(f"The gateway (process {pid}) is stopped.")
    if as_json:
        print_json({"stopped": found[-1]})
    return 0


def _end(pid: int) -> bool:
    """Stop the gateway gracefully; return whether it is gone in time."""
    if not hasattr(os, "pidfd_open"):  # not on Linux: look at its locks
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


def status(options: argparse.Namespace) -> int:
    """Print the gateway's state. Raises NotRunning."""
    health = get("health")
    if options.json:
        print_json(health)
        return 0
    print(f"Ozzie {health['version']} runs (process {health['pid']}, up {health['uptime_s']} s).")
    print(f"  folder   {health['home']}")
    print(f"  project  {health['project']}")
    print(f"  server   {_server(health)}{', temporary' if health['temporary'] else ''}")
    for attached in health["attached"]:
        print(f"  attached {_server(attached)}, process {attached['pid']}, {attached['url']}")
    print(f"  model    {health['model']}")
    for worker in health["workers"]:
        print(f"  worker   process {worker['pid']}, {_work(worker)}")
    print(f"  tasks    {health['tasks_running']} running")
    print(f"  events   {health['position']}")
    print(f"  vault    {_vault(health)}")
    if health["log_warning"]:
        print(visible_prose(health["log_warning"]))
    print(f"  checked  {local_time(health['store']['checked_at']) or 'not yet'}")
    for warning in (*health["store"]["warnings"], *health["store"]["findings"]):
        print(visible_prose(warning))
    if health["vault_warning"]:
        print(visible_prose(health["vault_warning"]))
    if health["config_error"]:
        print(f"The configuration was rejected:\n{visible_prose(health['config_error'])}")
    for file in health["ignored_config"]:
        print(f"{file} is not used: nobody has trusted it yet (ozzie config trust).")
    if health["policy_error"]:
        print(f"The rules were rejected, so no tool runs:\n{visible_prose(health['policy_error'])}")
    for warning in health["policy_warnings"]:
        print(visible_prose(warning))
    for file in health["ignored_policy"]:
        print(f"{file} is not used: nobody has trusted it yet (ozzie policy trust).")
    return 0


def _vault(health: Object) -> str:
    """Return the vault's protection and state, and the number of secrets but no names."""
    vault = health["vault"]
    if vault is None:
        return "can't be used" if health["vault_warning"] else "none"
    ways = " or ".join(WAYS[way] for way in vault["opens_with"])
    state = "locked (ozzie secrets unlock)" if vault["locked"] else "open"
    return f"{counted(vault['secrets'], 'secret')}, {state}, protected by {ways}"


def _work(worker: Object) -> str:
    if not worker["ready"]:
        return "starting"
    return f"{counted(worker['calls'], 'call')}, {worker['share']:.0%} of a core"


def _server(server: Object) -> str:
    return "the gateway alone" if server["headless"] else "Jupyter"
