"""Rules that a person made on a card, by "Don't ask again": from then on, files of a folder are written and edited
without a question (docs/policy.md, Don't ask again; docs/adr/0076-standing-rules.md).

They stand in a file of their own beside the user's, which Ozzie writes, and count as the user's do.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ozzie_server_ext.config.files import locked, replace_file
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import content_if_there, parse_object
from ozzie_server_ext.domain.approvals import SessionGrant
from ozzie_server_ext.domain.events import ApprovalRequested
from ozzie_server_ext.policy.approvals import places
from ozzie_server_ext.policy.conditions import MAX_COMPONENTS
from ozzie_server_ext.policy.decision import Verdict
from ozzie_server_ext.policy.engine import CHANGES
from ozzie_server_ext.policy.files import read
from ozzie_server_ext.policy.rules import MAX_PATTERN
from ozzie_server_ext.policy.sources import ANY
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.render.text import cut_end, visible_label

TOOLS = {"fs.write": "write_file", "fs.edit": "edit_file"}
"""The tools that may be let through, and what they are called. They keep what they replace, and look at what they
write. To move a file into the trash, or to apply what a command made, is another thing to say yes to."""
_HEAD = """\
// The rules that "Don't ask again" has made on cards. Ozzie writes this file anew each time, so put rules of your own
// into policy.jsonc beside it. To take one back: ozzie policy revoke ID
"""
_NOT_IN_IDS = re.compile(r"[^a-z0-9._-]+")
_MOST_OF_ID = 40
_MOST_OF_NAME, _MOST_OF_PLACE = 60, 160
"""Characters of each in a rule's reason."""


def offered(cover: SessionGrant | None, verdict: Verdict) -> str:
    """Return what a person may let through from now on, in words; "" if that is not offered. It is where the default
    asks for a change: if a rule asks, or content from outside does, another rule would not help. Not in hidden folders,
    which programs look into."""
    if cover is None or cover.tool_id not in TOOLS or verdict.rule != CHANGES.rule or verdict.place:
        return ""
    paths = (*cover.below, *cover.on)
    names_more = cover.hosts or cover.labels or cover.arguments
    if not paths or names_more or not cover.project.startswith("/") or not all(map(_is_plain, paths)):
        return ""
    return f"`{'` and `'.join(TOOLS.values())}` {places(cover.below, cover.on)}"


def _is_plain(path: Sequence[str]) -> bool:
    """Whether a pattern can mean that path and nothing else."""
    is_short = len(path) < MAX_COMPONENTS and len("/".join(path)) < MAX_PATTERN - len("/**")
    return is_short and all(ANY not in part and not part.startswith(".") and part == part.strip() for part in path)


def add(home: Home, asked: ApprovalRequested, by: str, at: datetime) -> tuple[str, bool]:
    """Make the rule that a request offers, unless there is one; return its id, and whether it is new. Raises
    ConfigError or JsoncError if the file can't be read or is full, OSError if it can't be written."""
    cover = asked.cover
    assert cover is not None
    when = {
        "tools": [*TOOLS],
        "side_effects": ["reversible"],
        "categories": [],
        "project": cover.project,
        "paths": [*("/".join((*folder, "**")) for folder in cover.below), *("/".join(file) for file in cover.on)],
    }
    with locked(home.standing_file):
        rules = _rules(home)
        for rule in rules:
            if rule["when"] == when:
                return str(rule["id"]), False
        rule_id = _id((*cover.below, *cover.on)[0], {str(rule["id"]) for rule in rules})
        who = cut_end(visible_label(by), _MOST_OF_NAME)
        where = cut_end(f"{places(cover.below, cover.on)} of {visible_label(cover.project)}", _MOST_OF_PLACE)
        an_example = "/".join((*cover.below[0], "example.md") if cover.below else cover.on[0])
        rules.append(
            {
                "id": rule_id,
                "decision": "allow",
                "reason": f"{who} let changes {where} through on a card on {at.astimezone():%Y-%m-%d}.",
                "when": when,
                "examples": {"match": [{"tool": "write_file", "args": {"path": an_example}, "project": cover.project}]},
            }
        )
        _write(home, rules)
    return rule_id, True


def revoke(home: Home, rule_id: str) -> bool:
    """Take a rule away; return False if there is none of that id. Raises as `add`."""
    with locked(home.standing_file):
        rules = _rules(home)
        left = [rule for rule in rules if rule["id"] != rule_id]
        if len(left) < len(rules):
            _write(home, left)
    return len(left) < len(rules)


def _rules(home: Home) -> list[dict[str, Any]]:
    """Return the rules as they are written. Raises ConfigError or JsoncError."""
    content = content_if_there(home.standing_file)
    if content is None:
        return []
    read(home.standing_file, content, lambda name: None)  # whoever made it invalid is told where
    written: Any = parse_object(content, home.standing_file).value
    return list(written.get("rules", []))


def _write(home: Home, rules: Sequence[dict[str, Any]]) -> None:
    lines = ",\n".join(f"    {dumps(rule)}" for rule in rules)
    content = f'{_HEAD}{{\n  "rules": [\n{lines}\n  ]\n}}\n'.encode()
    read(home.standing_file, content, lambda name: None)  # what would not be taken must not be written
    replace_file(home.standing_file, content)


def _id(path: Sequence[str], taken: set[str]) -> str:
    """Return an id for a rule, from the name of its folder or file."""
    name = _NOT_IN_IDS.sub("-", "/".join(path).lower())[:_MOST_OF_ID].strip("-.") or "changes"
    found, number = f"standing.{name}", 1
    while found in taken:
        number += 1
        found = f"standing.{name}-{number}"
    return found
