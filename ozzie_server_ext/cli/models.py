"""`ozzie models`: list, test and show models, resolve selectors, and sum up usage."""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ozzie_server_ext.cli.http import MAX_PAGE, Object, get, post
from ozzie_server_ext.cli.sessions import find_session
from ozzie_server_ext.cli.terminal import (
    cell,
    cost,
    failure_lines,
    named_folder,
    print_json,
    standard_input,
    tokens,
)
from ozzie_server_ext.config.jsonc import parse
from ozzie_server_ext.domain.errors import InputError, Unavailable
from ozzie_server_ext.render.models import LABELS, fact_words, tag_words
from ozzie_server_ext.render.text import columns, counted, duration, money, visible_label, visible_prose

QUESTION = "Answer with one short sentence: are you there?"
TRY_WAIT_S = 620.0
MAX_TITLE = 60


def list_models(options: argparse.Namespace) -> int:
    """Print the models that can be chosen. Raises NotRunning."""
    listing = get("models", project=named_folder(options))
    if options.json:
        print_json(listing["items"])
        return 0
    for model in listing["items"]:
        mark = "*" if model["is_default"] else " "
        stands_for = f"= {model['model']}" if model["driver"] == "alias" else f"{model['driver']}/{model['model']}"
        state = visible_label(", ".join(filter(None, [model["missing"] or _key(model), model["health"]])))
        print(f"{mark} {cell(model['name'], 20)}  {cell(stands_for, 36)}  {state}".rstrip())
    for offer in listing["offers"]:
        print(f"Found: {visible_label(offer['found'])}. Use it with --model {visible_label(offer['choose'])}")
    if listing["vault_warning"]:
        print(visible_prose(listing["vault_warning"]))
    if listing["config_error"]:
        print(f"The configuration was rejected:\n{visible_prose(listing['config_error'])}")
    return 0


def test_model(options: argparse.Namespace) -> int:
    """Run one real turn with a model; return 0 if it answered. Raises NotRunning, or Answered."""
    # In a new session: the messages of earlier tests would be sent along, and paid for.
    session = post("sessions", {"title": f"test of {options.model}"[:MAX_TITLE]})
    params = {"content": QUESTION, "session_id": session["id"], "model": options.model, "wait": True}
    try:
        task = post("message", params, timeout_s=TRY_WAIT_S)
    finally:
        post(f"sessions/{session['id']}/archive", {})
    if "status" not in task:
        raise Unavailable(
            f"The turn {task['task_id']} is still running after ten minutes.",
            hint="See ozzie tasks show.",
            code="timeout",
        )
    found = _summary(options.model, task)
    if options.json:
        print_json(found)
    else:
        _print(found)
    return 0 if found["ok"] else 1


def resolve_model(options: argparse.Namespace) -> int:
    """Print the model that a selector chooses; return 1 if none fits. Raises JsoncError, Answered, NotRunning."""
    text = standard_input("The selector") if options.selector == "-" else options.selector
    found = post("models/resolve", {"selector": parse(text, "selector").value, "project": named_folder(options)})
    if options.json:
        print_json(found)
        return 0 if found["chosen"] else 1
    if options.explain:
        for model in found["weighed"]:
            print(_explained(model, found))
    if found["chosen"]:
        print(f"{visible_label(found['chosen'])}  {visible_label(found['model'])}")
        return 0
    print(visible_prose(found["reason"]), file=sys.stderr)
    return 1


def _explained(model: Object, found: Object) -> str:
    mark = "*" if model["name"] == found["chosen"] else " "
    if model["fits"]:
        met = f": {', '.join(model['preferred'])}" if model["preferred"] else ""
        result = f"fits, {model['score']} of {found['wishes']} preferred{met}"
    else:
        result = "; ".join(f"not {failed['constraint']}: {failed['reason']}" for failed in model["failed"])
    return f"{mark} {cell(model['name'], 20)}  {visible_label(result)}".rstrip()


def _summary(name: str, task: Object) -> Object:
    calls = [step for step in task["steps"] if step["purpose"] == "answer"]
    first = next((call["ttft_ms"] for call in calls if call["ttft_ms"] is not None), None)
    return {
        "name": name,
        "ok": task["status"] == "SUCCEEDED",
        "provider": calls[-1]["provider"] if calls else "",
        "model": calls[-1]["model"] if calls else "",
        "ttft_ms": first,
        "token_usage": task["token_usage"],
        "cost": task["cost"],
        "text": task["text"],
        "task_id": task["task_id"],
        "error": task["error"],
    }


def _print(found: Object) -> None:
    name = visible_label(found["name"])
    stands_for = visible_label(f"{found['provider']}/{found['model']}") if found["model"] else ""
    print(f"{name}  {stands_for}".rstrip())
    if found["error"]:
        print(*failure_lines(found["error"]), sep="\n")
        return
    first = "no text came" if found["ttft_ms"] is None else f"first token after {duration(found['ttft_ms'] / 1000)}"
    print(", ".join([first, tokens(found["token_usage"]), cost(found["cost"])]))


def _key(model: Object) -> str:
    place = model["key"]
    # The others are places; this is a program.
    return f"key from {'' if place == 'Claude Code' else 'the '}{place}" if place else ""


SHOW_WAIT_S = 60.0
"""Long enough to start the model worker."""

_WIDTH = max(map(len, LABELS.values()))
_WORDS = 32


def show_model(options: argparse.Namespace) -> int:
    """Print a model's facts and capabilities. Raises NotRunning, Answered."""
    model = get("models/show", timeout_s=SHOW_WAIT_S, name=options.model, project=named_folder(options))
    if options.json:
        print_json(model)
        return 0
    print(visible_label(model["name"]) + (", the default" if model["is_default"] else ""))
    for label, text in _facts(model):
        print(f"  {label:<{_WIDTH}}  {visible_label(text)}".rstrip())
    print()
    for name, label in LABELS.items():
        fact = model["capabilities"][name]
        source = "" if fact["source"] == "unknown" else fact["source"]
        print(f"  {label:<{_WIDTH}}  {fact_words(name, fact['value']):<{_WORDS}}  {source}".rstrip())
    if model["unasked"]:
        print(f"\nlitellm's table could not be read: {visible_prose(model['unasked'])}")
    return 0


def _facts(model: Object) -> Iterator[tuple[str, str]]:
    at = f" at {model['address']}" if model["address"] else ""
    through = f"{model['provider']}, which is " if model["provider"] not in ("", model["name"]) else ""
    yield "Stands for", f"{through}{model['driver']}/{model['model']}{at}"
    if model["then"]:
        yield "Then", ", ".join(model["then"])
    if model["stronger"]:
        yield "Stronger", ", ".join(model["stronger"])
    if model["tags"]:
        yield "Tags", tag_words(model["tags"])
    yield "Key", model["missing"] or _key_line(model)
    yield "Last call", model["health"] or "none lately"
    yield "Today", _used(model["today"])
    yield "In all", _used(model["total"])


def _key_line(model: Object) -> str:
    if not model["key"]:
        return "none needed"
    # The others are places; Claude Code's token names its owner itself.
    return model["key_name"] if model["key"] == "Claude Code" else f"{model['key_name']} from the {model['key']}"


def _used(usage: Object) -> str:
    if not usage["calls"]:
        return "no calls"
    parts = [
        counted(usage["calls"], "call"),
        tokens({"input": usage["input_tokens"], "output": usage["output_tokens"]}),
    ]
    if usage["failed_calls"]:
        parts.insert(1, f"{usage['failed_calls']:,} of them failed")
    unknown = usage["unknown_price_calls"]
    if unknown and usage["known_cost"]:
        parts.append(money(usage["known_cost"]))
    return ", ".join([*parts, f"{counted(unknown, 'call')} of unknown price" if unknown else cost(usage["cost"])])


_GROUPS: Mapping[str, Callable[[Object], str]] = {
    "model": lambda usage: f"{cell(usage['alias'], 20)}  {cell(usage['provider'] + '/' + usage['model'], 36)}",
    "day": lambda usage: cell(usage["day"], 12),
    "session": lambda usage: cell(usage["session_id"] or "no session", 32),
}


def show_usage(options: argparse.Namespace) -> int:
    """Print usage for each group, and the total. Raises NotRunning, Answered, and as `find_session`."""
    session_id = find_session(options.session)["id"] if options.session else None
    query = {"by": [options.by], "session_id": session_id, "since": options.since, "until": options.until}
    sums = _sums(options.limit, query)
    if options.json:
        print_json(sums)
        return 0
    if not sums["items"]:
        print("No model was called in this time.")
        return 0
    for usage in sums["items"]:
        print(_line(_GROUPS[options.by](usage), usage))
    width = columns(_GROUPS[options.by](sums["items"][0]))
    print(_line(cell("all", width), sums["total"]))
    if sums["next"]:
        print("There are more; see --limit.")
    return 0


def _sums(limit: int, query: Mapping[str, Any]) -> Object:
    """Return the first `limit` groups, and the total. Raises InputError."""
    if limit < 1:
        raise InputError("limit must be a number from 1 on.")
    found = get("usage", limit=min(limit, MAX_PAGE), **query)
    while found["next"] and len(found["items"]) < limit:
        more = get("usage", limit=min(limit - len(found["items"]), MAX_PAGE), cursor=found["next"], **query)
        found = {**more, "items": [*found["items"], *more["items"]]}
    return found


def _line(group: str, usage: Object) -> str:
    calls = cell(counted(usage["calls"], "call"), 11)
    read, written = (f"{usage[name]:,} tokens" for name in ("input_tokens", "output_tokens"))
    return f"{group}  {calls}  {cell(f'{read} in', 20)}  {cell(f'{written} out', 20)}  {_spent(usage)}"


def _spent(usage: Object) -> str:
    """Return the cost. An unknown price is never shown as zero."""
    unknown = usage["unknown_price_calls"]
    if not unknown:
        return cost(usage["cost"])
    beside = f"{money(usage['known_cost'])} and " if usage["known_cost"] else ""
    return f"{beside}{counted(unknown, 'call')} of unknown price"
