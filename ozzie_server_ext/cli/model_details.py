"""`ozzie models show`: one model in full."""

import argparse
from collections.abc import Iterator

from ozzie_server_ext.cli.http import Object, get
from ozzie_server_ext.cli.output import cost, counted, print_json, tokens
from ozzie_server_ext.render.models import LABELS, fact_words, tag_words
from ozzie_server_ext.render.text import money, visible_label, visible_prose

WAIT_S = 60.0
"""It may take a start of the model worker."""

_WIDTH = max(map(len, LABELS.values()))
_WORDS = 32


def show_model(options: argparse.Namespace) -> int:
    """Print what is known of a model. Raises NotRunning, Answered."""
    model = get("models/show", timeout_s=WAIT_S, name=options.model)
    if options.json:
        print_json(model)
        return 0
    print(visible_label(model["name"]) + (", the default" if model["is_default"] else ""))
    for label, said in _standing(model):
        print(f"  {label:<{_WIDTH}}  {visible_label(said)}".rstrip())
    print()
    for name, label in LABELS.items():
        fact = model["capabilities"][name]
        source = "" if fact["source"] == "unknown" else fact["source"]
        print(f"  {label:<{_WIDTH}}  {fact_words(name, fact['value']):<{_WORDS}}  {source}".rstrip())
    if model["unasked"]:
        print(f"\nlitellm's table could not be asked: {visible_prose(model['unasked'])}")
    return 0


def _standing(model: Object) -> Iterator[tuple[str, str]]:
    at = f" at {model['address']}" if model["address"] else ""
    through = f"{model['provider']}, which is " if model["provider"] not in ("", model["name"]) else ""
    yield "Stands for", f"{through}{model['driver']}/{model['model']}{at}"
    if model["then"]:
        yield "Then", ", ".join(model["then"])
    if model["stronger"]:
        yield "Stronger", ", ".join(model["stronger"])
    if model["tags"]:
        yield "Tags", tag_words(model["tags"])
    yield "Key", model["missing"] or _key(model)
    yield "Last call", model["health"] or "none lately"
    yield "Today", _used(model["today"])
    yield "In all", _used(model["total"])


def _key(model: Object) -> str:
    if not model["key"]:
        return "none needed"
    # The others are places; Claude Code's token says whose it is by its name.
    return model["key_name"] if model["key"] == "Claude Code" else f"{model['key_name']} from the {model['key']}"


def _used(usage: Object) -> str:
    if not usage["calls"]:
        return "no calls"
    told = [counted(usage["calls"], "call"), tokens({"input": usage["input_tokens"], "output": usage["output_tokens"]})]
    if usage["failed_calls"]:
        told.insert(1, f"{usage['failed_calls']:,} of them failed")
    unknown = usage["unknown_price_calls"]
    if not unknown:
        return ", ".join([*told, cost(usage["cost"])])
    if usage["known_cost"]:
        told.append(money(usage["known_cost"]))
    return ", ".join([*told, f"{counted(unknown, 'call')} of unknown price"])
