"""`ozzie tools`: the tools that a model can call, and the rules' decision on each."""

import argparse
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from ozzie_server_ext.cli.http import Object, get
from ozzie_server_ext.cli.terminal import cell, first_sentence_lines, named_folder, print_json
from ozzie_server_ext.render.questions import EFFECTS_AT_LENGTH, REPEATS, RULINGS
from ozzie_server_ext.render.text import visible_label, visible_prose

WIDEST_NAME = 28
"""Two names and a ruling stay below 80 columns."""


def list_tools(options: argparse.Namespace) -> int:
    """Print the tools. Raises NotRunning."""
    listing = get("tools", project=named_folder(options))
    if options.json:
        print_json(listing["items"])
        return 0
    print(*rows(listing["items"]), sep="\n")
    if listing["policy_error"]:
        print(f"The rules were rejected, so nothing runs:\n{visible_prose(listing['policy_error'])}")
    return 0


def rows(tools: Sequence[Object]) -> Iterator[str]:
    """Yield the lines of each tool: names and ruling, then the first sentence of its description."""
    names, ids = (min(max((len(tool[key]) for tool in tools), default=0), WIDEST_NAME) for key in ("name", "tool_id"))
    for tool in tools:
        ruling = RULINGS[tool["ruling"]["decision"]]
        yield f"{cell(tool['name'], names)}  {cell(tool['tool_id'], ids)}  {ruling}"
        yield from first_sentence_lines(tool["about"])


def show_tool(options: argparse.Namespace) -> int:
    """Print one tool's contract. Raises NotRunning, Answered."""
    tool = get(f"tools/{quote(options.name, safe='')}", project=named_folder(options))
    if options.json:
        print_json(tool)
        return 0
    print(f"{visible_label(tool['name'])}\n  {visible_label(tool['about'])}\n")
    for label, text in _facts(tool):
        print(f"  {label:<12}  {visible_label(text)}")
    return 0


def _facts(tool: Object) -> Iterator[tuple[str, str]]:
    needed = tool["parameters"]["required"]
    for name, schema in tool["parameters"]["properties"].items():
        default = "needed" if name in needed else f"otherwise {schema.get('default')!r}"
        yield name, ". ".join(filter(None, [default, str(schema.get("description", ""))]))
    yield "Id", ", ".join([tool["tool_id"], *tool["names"]])
    yield "Version", tool["version"]
    yield "Side effect", EFFECTS_AT_LENGTH[tool["side_effect"]]
    yield "Risk", tool["risk_level"]
    for needed in tool["requires"]:
        if needed["capability"]:
            yield "Needs", f"{needed['capability']}. {needed['problem']}".removesuffix(". ")
    if permissions := [needed["permission"] for needed in tool["requires"] if needed["permission"]]:
        yield "May", ", ".join(permissions)
    if tool["categories"]:
        yield "Kind", ", ".join(category.replace("_", " ") for category in tool["categories"])
    yield "Repeating", REPEATS[tool["idempotency"]]
    yield "Time limit", f"{tool['timeout_s']:g} s"
    ruling = tool["ruling"]
    where = f" (rule {ruling['rule']} in {ruling['place']})" if ruling["place"] else f" ({ruling['rule']})"
    yield "A call", f"{RULINGS[ruling['decision']]}. {ruling['reason']}{where}"
