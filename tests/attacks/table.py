"""The table of docs/attacks.md, made by playing all attacks: `python -m tests.attacks.table` writes it anew."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from ozzie_server_ext.render.text import visible_label
from tests.attacks import ATTACKS
from tests.attacks.playing import Played, held_to, play
from tests.docs.generated import replaced

PAGE = Path(__file__).resolve().parents[2] / "docs" / "attacks.md"


def table(played: Sequence[Played]) -> str:
    """The sums by kind, then each attack."""
    kinds = list(dict.fromkeys(each.attack.kind for each in played))
    counts = {kind: Counter(each.ends for each in played if each.attack.kind == kind) for kind in kinds}
    counted = [*counts.items(), ("**all**", Counter(each.ends for each in played))]
    sums = [
        _row(kind, count.total(), *(count[ends] for ends in ("asked", "refused", "harmless")), _had(kind, played))
        for kind, count in counted
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


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _had(kind: str, played: Sequence[Played]) -> int:
    return sum(bool(each.had) for each in played if each.attack.kind == kind or kind == "**all**")


def with_table(page: str, played: Sequence[Played]) -> str:
    """The page with the table as it came out now."""
    return replaced(page, "attacks", table(played))


async def _play_all(folder: Path) -> list[Played]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "user-config"))
        return [await play(attack, folder / str(index), held_to(patch)) for index, attack in enumerate(ATTACKS)]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        PAGE.write_text(with_table(PAGE.read_text(), asyncio.run(_play_all(Path(where)))))
