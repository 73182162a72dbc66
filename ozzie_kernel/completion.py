"""The kernel's own completions and help: commands and their words; and the replies to a front end."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ozzie_kernel.magics import MAGICS, PYTHON, find_magic, magic_page
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.page import Block, Command, Facts, Sample, Strong, page_bundle, paragraph

LINE_CHARS = 2000
"""Characters of a line to look at on either side of the cursor."""

_NAME = re.compile(r"[ \t]*(%{1,2}\w*)\Z")
_WORD = re.compile(r"[ \t]*%(\w+)[ \t]+(%?\w*)\Z")
_OTHER_SESSIONS = re.compile(r"[ \t]*(?:%session[ \t]+(?:resume|archive|close)|%replay)[ \t]")
_GATEWAY_KNOWS = re.compile(r"[ \t]*%(?:session|model|replay|run)[ \t]|@")


def line_at(code: str, cursor: int) -> tuple[int, str, int]:
    """Return where the cursor's line begins in `code`, the part of it to look at, and the cursor within that."""
    cursor = min(max(cursor, 0), len(code))
    start = max(code.rfind("\n", 0, cursor) + 1, cursor - LINE_CHARS)
    return start, code[start : cursor + LINE_CHARS].split("\n", 1)[0], cursor - start


def own_matches(line: str, *, is_first: bool) -> tuple[int, list[str]] | None:
    """Return the start of the word before the cursor, at the end of `line`, and the commands or words that complete it;
    None if the kernel has none. `is_first`: only a cell's first line may begin with `%%python`."""
    if found := _NAME.match(line):
        names = [*(f"%{name}" for name in MAGICS), *(["%%python"] if is_first else [])]
        return found.start(1), [name for name in names if name.startswith(found[1])]
    if (found := _WORD.match(line)) and (magic := MAGICS.get(found[1])):
        words = MAGICS if magic.name == "help" else magic.words
        matching = [word for word in words if word.startswith(found[2].removeprefix("%"))]
        return (found.start(2), matching) if matching else None
    return None


def asks_gateway(line: str) -> bool:
    """Return whether the gateway may complete `line`: nobody can complete a message without a path."""
    return _GATEWAY_KNOWS.search(line) is not None


def names_sessions(line: str) -> bool:
    """Return whether `line` names other sessions, which the kernel's own token may not see."""
    return _OTHER_SESSIONS.match(line) is not None


_WITH_DETAIL = frozenset({"model", "server", "resource", "template", "prompt", "argument"})


def completion_reply(start: int, end: int, matches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the reply to `complete_request`; each match has a `text`, and a `kind` that Lab shows beside it. For a
    model it shows what it stands for, and its tags; for what MCP servers have, what that is: what stands before it says
    the kind already."""
    kinds: list[dict[str, Any]] = []
    for match in matches:
        kind = (match.get("detail") if match["kind"] in _WITH_DETAIL else "") or match["kind"]
        kinds.append({"start": start, "end": end, "text": match["text"], "type": kind, "signature": ""})
    return {
        "status": "ok",
        "matches": [match["text"] for match in matches],
        "cursor_start": start,
        "cursor_end": end,
        "metadata": {"_jupyter_types_experimental": kinds},
    }


def shifted(found: JsonObject, by: int) -> dict[str, Any]:
    """Return the reply for the gateway's matches in a line that begins at `by`."""
    matches = found["matches"] if isinstance(found["matches"], list) else []
    start, end = int(str(found["start"])), int(str(found["end"]))
    return completion_reply(by + start, by + end, [match for match in matches if isinstance(match, dict)])


_COMMAND = re.compile(r"[ \t]*%(\w+)")
_PYTHON = re.compile(r"[ \t]*%%python\b")


def own_page(line: str) -> Sequence[Block] | None:
    """Return the help of the command that `line` begins with, or None."""
    if _PYTHON.match(line):
        return [paragraph(Command(PYTHON.text), f": {PYTHON.does[0].lower()}{PYTHON.does[1:]}.")]
    found = _COMMAND.match(line)
    return magic_page(find_magic(found[1])) if found and found[1] in MAGICS else None


def is_on_name(line: str, at: int) -> bool:
    """Return whether the cursor is on the command's name."""
    found = _COMMAND.match(line)
    return found is not None and at <= found.end()


def card_page(card: JsonObject) -> list[Block]:
    """Return the page for the gateway's answer to `inspect`."""
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
    """Return the reply to `inspect_request`."""
    data = page_bundle(page) if page else {}
    return {"status": "ok", "found": bool(page), "data": data, "metadata": {}}
