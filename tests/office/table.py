"""The table of the office in docs/prompts.md, made by playing all tasks: `python -m tests.office.table` writes it."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.docs.generated import replaced
from tests.office.apart import APART
from tests.office.everyday import EVERYDAY
from tests.office.playing import Played, play_all
from tests.office.task import Task

PAGE = Path(__file__).resolve().parents[2] / "docs" / "prompts.md"
HALVES: Mapping[str, Sequence[Task]] = {"for tuning": EVERYDAY, "kept apart": APART}
"""Rules may be tuned with the first half alone; the other one shows what they are worth."""


def table(halves: Mapping[str, Sequence[Played]]) -> str:
    """How often a person was asked, by half, then in both."""
    both = [played for half in halves.values() for played in half]
    rows = [_row(name, played) for name, played in [*halves.items(), ("**both**", both)]]
    return "\n".join(
        ["| Half | Tasks | with a question | Questions | most in a task |", "|---|---|---|---|---|", *rows]
    )


def _row(name: str, played: Sequence[Played]) -> str:
    asked = [len(each.asked) for each in played]
    with_one = sum(bool(count) for count in asked)
    share = f"{with_one} ({with_one / len(asked):.0%})"
    return f"| {name} | {len(asked)} | {share} | {sum(asked)} | {max(asked)} |"


def with_table(page: str, halves: Mapping[str, Sequence[Played]]) -> str:
    """The page with the table as it came out now."""
    return replaced(page, "office", table(halves))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        played = {name: play_all(tasks, Path(folder, name)) for name, tasks in HALVES.items()}
    PAGE.write_text(with_table(PAGE.read_text(), played))
