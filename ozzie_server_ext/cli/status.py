"""`ozzie status`."""

import argparse

from ozzie_server_ext.cli.http import Object, get
from ozzie_server_ext.cli.output import WAYS, counted, local_time, print_json
from ozzie_server_ext.render.text import visible_prose


def status(options: argparse.Namespace) -> int:
    """Print how the gateway is. Raises NotRunning."""
    health = get("health")
    if options.json:
        print_json(health)
        return 0
    print(f"Ozzie {health['version']} runs (process {health['pid']}, up {health['uptime_s']} s).")
    print(f"  folder   {health['home']}")
    print(f"  project  {health['project']}")
    print(f"  server   {_server(health)}{', for a while' if health['temporary'] else ''}")
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
        print(f"The configuration was not taken:\n{visible_prose(health['config_error'])}")
    for file in health["ignored_config"]:
        print(f"{file} is not used: nobody has trusted it yet (ozzie config trust).")
    if health["policy_error"]:
        print(f"The rules were not taken, so no tool runs:\n{visible_prose(health['policy_error'])}")
    for warning in health["policy_warnings"]:
        print(visible_prose(warning))
    for file in health["ignored_policy"]:
        print(f"{file} is not used: nobody has trusted it yet (ozzie policy trust).")
    return 0


def _vault(health: Object) -> str:
    """How it is protected and whether it is open, and of the secrets only how many there are."""
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


def _server(told: Object) -> str:
    return "the gateway alone" if told["headless"] else "Jupyter"
