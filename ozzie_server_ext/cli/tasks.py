"""`ozzie tasks`: list them, stop one."""

import json
import urllib.parse

from ozzie_server_ext.cli.http import get, post
from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.ids import is_ulid
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.render.text import visible_label


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


def tasks_cancel(task_id: str, *, as_json: bool) -> int:
    """Stop a task. Raises NotRunning, NotFound, or Answered for one that has ended already."""
    if not is_ulid(task_id):
        raise NotFound(f"There is no task {visible_label(task_id)[:40]}.", hint="List them with ozzie tasks list.")
    post(f"tasks/{task_id}/cancel", {"reason": "ozzie tasks cancel"})
    print(json.dumps({"cancelled": task_id}) if as_json else f"The task {task_id} is stopped.")
    return 0


def _cell(value: Json, width: int) -> str:
    return visible_label(str(value))[:width].ljust(width)
