"""What a benchmark says: rows that compare one figure of ours with its rival or floor in the same run."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One row. `ours` and `against` are in `unit`; `ratio` compares them as `target` says; `met`, whether it holds.

    `against` and `ratio` are None where the target is a figure of its own. `note` says what stands beside the figures.
    """

    name: str
    ours: float
    against: float | None
    ratio: float | None
    unit: str
    target: str
    met: bool
    note: str = ""


def emit(results: Sequence[Result]) -> None:
    """Print rows as JSON, a line each, for `bench.__main__` and whoever runs one benchmark alone."""
    for result in results:
        print(json.dumps(asdict(result)), flush=True)


def table(rows: Sequence[dict[str, object]]) -> str:
    """The rows as columns of text."""
    head = ("benchmark", "ours", "against", "ratio", "target", "met")
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _cells(row: dict[str, object]) -> tuple[str, ...]:
    unit = row["unit"]
    against = "" if row["against"] is None else f"{row['against']} {unit}"
    ratio = "" if row["ratio"] is None else str(row["ratio"])
    return (
        str(row["name"]),
        f"{row['ours']} {unit}",
        against,
        ratio,
        str(row["target"]),
        "yes" if row["met"] else "NO",
    )
