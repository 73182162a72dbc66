"""`ozzie incidents`: what happened that a person should look at."""

import argparse

from ozzie_server_ext.cli.http import expect_id, get, post
from ozzie_server_ext.cli.settling import indented
from ozzie_server_ext.cli.terminal import local_time, print_json, print_result
from ozzie_server_ext.render.text import visible_label


def list_incidents(options: argparse.Namespace) -> int:
    """Print the open incidents, the newest first; with `--all`, closed ones too. Raises NotRunning, or Answered."""
    state = "all" if options.all else "open"
    found = get("incidents", state=state, limit=options.limit)["items"]
    if options.json:
        print_json(found)
        return 0
    for each in found:
        end = f", closed {local_time(each['closed_at'])}" if each["closed_at"] else ""
        print(f"{each['id']}  {local_time(each['opened_at'])}  {visible_label(each['about'])}{end}")
        print(*indented(each["message"]), sep="\n")
    if not found:
        print("No incidents." if options.all else "No open incidents.")
    return 0


def close_incident(options: argparse.Namespace) -> int:
    """Close an incident. Raises NotRunning, NotFound."""
    expect_id(options.incident_id, "incident")
    closed = post(f"incidents/{options.incident_id}/close", {})
    return print_result(closed, f"The incident about {visible_label(closed['about'])} is closed.", as_json=options.json)
