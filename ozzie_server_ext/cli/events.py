"""`ozzie events tail`: print the newest events, and follow new ones."""

import argparse
import json
from collections.abc import Mapping
from typing import Any

from ozzie_server_ext.cli.http import Object, get, items
from ozzie_server_ext.cli.sessions import find_session
from ozzie_server_ext.cli.terminal import cell, local_time, print_json, print_notice
from ozzie_server_ext.domain.events import FINAL_TYPES
from ozzie_server_ext.render.text import cut_end, visible_label

_DETAIL_WIDTH = 32
# Payload fields to show, the most informative first.
_DETAIL_FIELDS = (
    "text",
    "title",
    "name",
    "message",
    "summary",
    "reason",
    "model",
    "decision",
    "version",
    "plane",
    "status",
)


def tail(options: argparse.Namespace) -> int:
    """Print events, oldest first; with --follow until interrupted, or until the end of the task that was named. Raises
    NotRunning, NotFound, Answered."""
    wanted = {
        "type": options.type or None,
        "session_id": find_session(options.session)["id"] if options.session else None,
        "task_id": options.task,
    }
    position = get("health")["position"]
    newest = list(items("events", options.limit, newest_first=True, **wanted))
    found = [_record(event) for event in reversed(newest)]
    if not options.follow:
        if options.json:
            print_json(found)
        else:
            for record in found:
                print(_line(record))
        return 0
    from ozzie_server_ext.cli.follow import follow  # loads tornado

    def show(record: Object) -> None:
        print(json.dumps(record) if options.json else _line(record), flush=True)

    for record in found:
        show(record)
    last = max([position, *(record["position"] for record in found)])
    if found and options.task and found[-1]["type"] in FINAL_TYPES:
        return 0
    follow(
        last, {name: value for name, value in wanted.items() if value}, lambda frame: show(_record(frame)), print_notice
    )
    return 0


def _record(event: Mapping[str, Any]) -> Object:
    """Return the fields to show of an event, from REST or from the feed."""
    names = ("position", "ts", "type", "session_id", "task_id", "labels", "payload")
    return {name: event[name] for name in names}


def _line(record: Object) -> str:
    payload = record["payload"]
    detail = next((str(payload[name]) for name in _DETAIL_FIELDS if payload.get(name)), "")
    at = local_time(record["ts"], "%H:%M:%S")
    detail = cut_end(visible_label(detail), _DETAIL_WIDTH)
    task = (record["task_id"] or "")[-6:]
    return f"{record['position']:>6}  {at}  {task:6}  {cell(record['type'], 20)}  {detail}".rstrip()
