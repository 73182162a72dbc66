"""`ozzie models`: list them, try one, see what a selector chooses."""

import argparse
import sys

from ozzie_server_ext.cli.http import Object, get, post
from ozzie_server_ext.cli.output import cell, cost, failure_lines, print_json, tokens
from ozzie_server_ext.cli.standard_input import standard_input
from ozzie_server_ext.config.jsonc import parse
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.render.text import duration, visible_label, visible_prose

QUESTION = "Answer with one short sentence: are you there?"
WAIT_S = 620.0
MAX_TITLE = 60


def list_models(options: argparse.Namespace) -> int:
    """Print the models that can be chosen. Raises NotRunning."""
    listing = get("models")
    if options.json:
        print_json(listing["items"])
        return 0
    for model in listing["items"]:
        mark = "*" if model["is_default"] else " "
        stands_for = f"= {model['model']}" if model["driver"] == "alias" else f"{model['driver']}/{model['model']}"
        said = visible_label(", ".join(filter(None, [model["missing"] or _key(model), model["health"]])))
        print(f"{mark} {cell(model['name'], 20)}  {cell(stands_for, 36)}  {said}".rstrip())
    for offer in listing["offers"]:
        print(f"Found: {visible_label(offer['found'])}. Use it with --model {visible_label(offer['choose'])}")
    if listing["vault_warning"]:
        print(visible_prose(listing["vault_warning"]))
    if listing["config_error"]:
        print(f"The configuration was not taken:\n{visible_prose(listing['config_error'])}")
    return 0


def test_model(options: argparse.Namespace) -> int:
    """One real turn with a model; 0 if it answered. Raises NotRunning, or Answered."""
    # In a session of its own: what came of earlier tests would be sent along, and paid for.
    session = post("sessions", {"title": f"test of {options.model}"[:MAX_TITLE]})
    asked = {"content": QUESTION, "session_id": session["id"], "model": options.model, "wait": True}
    try:
        task = post("message", asked, timeout_s=WAIT_S)
    finally:
        post(f"sessions/{session['id']}/archive", {})
    if "status" not in task:
        raise Unavailable(
            f"The turn {task['task_id']} has not ended after ten minutes.", hint="See ozzie tasks show.", code="timeout"
        )
    found = _summary(options.model, task)
    if options.json:
        print_json(found)
    else:
        _print(found)
    return 0 if found["ok"] else 1


def resolve_model(options: argparse.Namespace) -> int:
    """Print what a selector chooses; 0 if there is something. Raises JsoncError, Answered, NotRunning."""
    text = standard_input("The selector") if options.selector == "-" else options.selector
    found = post("models/resolve", {"selector": parse(text, "selector").value})
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
        fared = f"fits, {model['score']} of {found['wishes']} preferred{met}"
    else:
        fared = "; ".join(f"not {failed['constraint']}: {failed['reason']}" for failed in model["failed"])
    return f"{mark} {cell(model['name'], 20)}  {visible_label(fared)}".rstrip()


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
    named = visible_label(found["name"])
    stands_for = visible_label(f"{found['provider']}/{found['model']}") if found["model"] else ""
    print(f"{named}  {stands_for}".rstrip())
    if found["error"]:
        print(*failure_lines(found["error"]), sep="\n")
        return
    first = "no text came" if found["ttft_ms"] is None else f"first token after {duration(found['ttft_ms'] / 1000)}"
    print(", ".join([first, tokens(found["token_usage"]), cost(found["cost"])]))


def _key(model: Object) -> str:
    place = model["key"]
    # The others are places; this is a program's name.
    return f"key from {'' if place == 'Claude Code' else 'the '}{place}" if place else ""
