"""What Shift-Tab shows: a command's help, or the gateway's card of a tool, a model, a session, a file."""

import re
from collections.abc import Sequence
from typing import Any

from ozzie_kernel.magics import MAGICS, PYTHON, find_magic, magic_page
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.page import Block, Command, Facts, Sample, Strong, page_bundle, paragraph

_COMMAND = re.compile(r"[ \t]*%(\w+)")
_PYTHON = re.compile(r"[ \t]*%%python\b")


def own_page(line: str) -> Sequence[Block] | None:
    """The help of the command that `line` begins with; None where it begins with none."""
    if _PYTHON.match(line):
        return [paragraph(Command(PYTHON.text), f": {PYTHON.does[0].lower()}{PYTHON.does[1:]}.")]
    found = _COMMAND.match(line)
    return magic_page(find_magic(found[1])) if found and found[1] in MAGICS else None


def is_on_name(line: str, at: int) -> bool:
    """Whether the cursor stands on the command's own name, and not on what follows."""
    found = _COMMAND.match(line)
    return found is not None and at <= found.end()


def card_page(card: JsonObject) -> list[Block]:
    """The gateway's card of a thing (`inspect`)."""
    page: list[Block] = [paragraph(Strong(str(card["name"])), f" · {card['kind']}")]
    if card["about"]:
        page.append(paragraph(str(card["about"])))
    facts = card["facts"] if isinstance(card["facts"], list) else []
    pairs = [(str(fact[0]), str(fact[1])) for fact in facts if isinstance(fact, list) and len(fact) == 2]
    if pairs:
        page.append(Facts(pairs))
    if card["sample"]:
        page.append(Sample(str(card["sample"])))
    return page


def inspection_reply(page: Sequence[Block] | None) -> dict[str, Any]:
    """The reply to `inspect_request`."""
    data = page_bundle(page) if page else {}
    return {"status": "ok", "found": bool(page), "data": data, "metadata": {}}
