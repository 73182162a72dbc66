"""`ozzie status`."""

import json

from ozzie_server_ext.cli.http import get


def status(*, as_json: bool) -> int:
    """Print how the gateway is. Raises NotRunning."""
    health = get("health")
    if as_json:
        print(json.dumps(health))
        return 0
    print(f"Ozzie {health['version']} runs (process {health['pid']}, up {health['uptime_s']} s).")
    print(f"  folder   {health['home']}")
    print(f"  project  {health['project']}")
    print(f"  model    {health['model']}")
    print(f"  tasks    {health['tasks_running']} running")
    print(f"  events   {health['position']}")
    if health["log_warning"]:
        print(f"{health['log_warning']} Run: ozzie events verify")
    if health["config_error"]:
        print(f"The configuration was not taken:\n{health['config_error']}")
    for file in health["ignored_config"] if isinstance(health["ignored_config"], list) else []:
        print(f"{file} is not used: nobody has trusted it yet (ozzie config trust).")
    return 0
