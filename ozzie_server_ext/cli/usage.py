"""`ozzie models usage`: what models used, in tokens and money (OB-4)."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from ozzie_server_ext.cli.http import MAX_PAGE, Object, get
from ozzie_server_ext.cli.output import cell, cost, counted, print_json
from ozzie_server_ext.cli.sessions import find_session
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.render.columns import columns
from ozzie_server_ext.render.text import money

_GROUPS: Mapping[str, Callable[[Object], str]] = {
    "model": lambda usage: f"{cell(usage['alias'], 20)}  {cell(_full_name(usage), 36)}",
    "day": lambda usage: cell(usage["day"], 12),
    "session": lambda usage: cell(usage["session_id"] or "no session", 32),
}


def show_usage(options: argparse.Namespace) -> int:
    """Print the sums of each group and of all. Raises NotRunning, Answered, and as `find_session`."""
    session_id = find_session(options.session)["id"] if options.session else None
    asked = {"by": [options.by], "session_id": session_id, "since": options.since, "until": options.until}
    sums = _sums(options.limit, asked)
    if options.json:
        print_json(sums)
        return 0
    if not sums["items"]:
        print("No model was asked in this time.")
        return 0
    for usage in sums["items"]:
        print(_line(_GROUPS[options.by](usage), usage))
    width = columns(_GROUPS[options.by](sums["items"][0]))
    print(_line(cell("all", width), sums["total"]))
    if sums["next"]:
        print("There are more; see --limit.")
    return 0


def _sums(limit: int, asked: Mapping[str, Any]) -> Object:
    """The first `limit` groups, and all together. Raises InputError."""
    if limit < 1:
        raise InputError("limit must be a number from 1 on.")
    found = get("usage", limit=min(limit, MAX_PAGE), **asked)
    while found["next"] and len(found["items"]) < limit:
        more = get("usage", limit=min(limit - len(found["items"]), MAX_PAGE), cursor=found["next"], **asked)
        found = {**more, "items": [*found["items"], *more["items"]]}
    return found


def _full_name(usage: Object) -> str:
    return f"{usage['provider']}/{usage['model']}"


def _line(group: str, usage: Object) -> str:
    calls = cell(counted(usage["calls"], "call"), 11)
    read, written = (f"{usage[name]:,} tokens" for name in ("input_tokens", "output_tokens"))
    return f"{group}  {calls}  {cell(f'{read} in', 20)}  {cell(f'{written} out', 20)}  {_spent(usage)}"


def _spent(usage: Object) -> str:
    """An unknown price is never shown as nothing."""
    unknown = usage["unknown_price_calls"]
    if not unknown:
        return cost(usage["cost"])
    beside = f"{money(usage['known_cost'])} and " if usage["known_cost"] else ""
    return f"{beside}{counted(unknown, 'call')} of unknown price"
