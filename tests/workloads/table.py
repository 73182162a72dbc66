"""The tables of docs/prompts.md, made by playing all workloads: `python -m tests.workloads.table` writes them anew."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.docs.generated import replaced
from tests.workloads import WORKLOADS
from tests.workloads.outside import OUTSIDE
from tests.workloads.outside_playing import play_outside
from tests.workloads.playing import Played, play_all
from tests.workloads.with_tools import WITH_TOOLS
from tests.workloads.with_tools_playing import play_with_tools

PAGE = Path(__file__).resolve().parents[2] / "docs" / "prompts.md"


def quiet_share(played: Sequence[Played]) -> float:
    """The share of tasks that ran without a prompt."""
    return sum(not each.prompts for each in played) / len(played)


def tables(played: Sequence[Played]) -> str:
    """The sums by kind of user, then each task."""
    kinds = list(dict.fromkeys(each.workload.who for each in played))
    groups = [(who, [each for each in played if each.workload.who == who]) for who in kinds]
    sums = [_sum(who, group) for who, group in [*groups, ("**all**", list(played))]]
    each = [
        f"| {play.workload.who} | {play.workload.name} | {play.calls} | {play.prompts or ''} |".replace("|  |", "| |")
        for play in played
    ]
    return "\n".join(
        [
            "| Who | Tasks | without a prompt | Prompts | Prompts a task |",
            "|---|---|---|---|---|",
            *sums,
            "",
            "| Who | Task | Calls | Prompts |",
            "|---|---|---|---|",
            *each,
        ]
    )


def _sum(who: str, played: Sequence[Played]) -> str:
    quiet, prompts = sum(not each.prompts for each in played), sum(each.prompts for each in played)
    share = f"{quiet} ({quiet_share(played):.0%})"
    return f"| {who} | {len(played)} | {share} | {prompts} | {prompts / len(played):.2f} |"


def with_tables(page: str, played: Sequence[Played], place: str = "workloads") -> str:
    """The page with the tables as they came out now, at that place of it."""
    return replaced(page, place, tables(played))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        page = with_tables(PAGE.read_text(), play_all(WORKLOADS, Path(folder, "usual")))
        page = with_tables(page, play_outside(OUTSIDE, Path(folder, "outside")), "outside")
        Path(folder, "tools").mkdir()
        PAGE.write_text(with_tables(page, play_with_tools(WITH_TOOLS, Path(folder, "tools")), "with-tools"))
