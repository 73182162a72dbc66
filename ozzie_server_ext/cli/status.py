"""`ozzie status` and `ozzie tasks list`."""

import json
import urllib.parse

from ozzie_server_ext.cli.http import get
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.render.text import visible_label


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


def tasks_list(*, limit: int, as_json: bool) -> int:
    """Print the newest tasks. Raises NotRunning, or Answered for a limit out of range."""
    items = get(f"tasks?{urllib.parse.urlencode({'limit': limit})}")["items"]
    tasks = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    if as_json:
        print(json.dumps(tasks))
        return 0
    if not tasks:
        print("No tasks yet. Run a cell of an Ozzie notebook, or try: ozzie ask hello")
    for task in tasks:
        print(f"{task['task_id']}  {_cell(task['status'], 16)}  {_cell(task['title'], 60)}")
    return 0


def _cell(value: Json, width: int) -> str:
    return visible_label(str(value))[:width].ljust(width)
