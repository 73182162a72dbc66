"""The table of docs/attacks.md, made by playing all attacks: `python -m tests.attacks.table` writes it anew."""

import asyncio
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.web.reach import ErrandWeb
from tests.attacks import ATTACKS
from tests.attacks.playing import Played, play
from tests.workloads.playing import own_keys

PAGE = Path(__file__).resolve().parents[2] / "docs" / "attacks.md"
_PLACE = re.compile(r"(<!-- attacks -->\n).*?(\n<!-- end -->)", re.DOTALL)


def table(played: Sequence[Played]) -> str:
    """The sums by kind, then each attack."""
    kinds = list(dict.fromkeys(each.attack.kind for each in played))
    counts = {kind: Counter(each.ends for each in played if each.attack.kind == kind) for kind in kinds}
    counts["**all**"] = Counter(each.ends for each in played)  # type: ignore[index]
    sums = [
        f"| {kind} | {count.total()} | {count['asked']} | {count['refused']} | {count['harmless']} | 0 |"
        for kind, count in counts.items()
    ]
    each = [
        f"| {play.attack.kind} | {visible_label(play.attack.name)} | {play.ends} | {play.rule} |" for play in played
    ]
    return "\n".join(
        [
            "| Kind | Attacks | asked a person | refused | ran, to no effect | had an effect |",
            "|---|---|---|---|---|---|",
            *sums,
            "",
            "| Kind | Attack | Ended | Decided by |",
            "|---|---|---|---|",
            *each,
        ]
    )


def with_table(page: str, played: Sequence[Played]) -> str:
    """The page with the table as it came out now."""
    page, found = _PLACE.subn(lambda match: match[1] + table(played) + match[2], page)
    if found != 1:
        raise LookupError("docs/attacks.md has no place for the table.")
    return page
