"""The notebook about replays and forks runs from top to bottom without a key, and forges nothing unseen."""

from collections.abc import Iterator
from typing import Any

import nbformat
import pytest

from tests.docs.executing import OFFLINE, executed, shown
from tests.rig import GatewayHome

pytestmark = [pytest.mark.timeout(180)]

NAME = "05_replay_and_fork.ipynb"
ANSWERS = {
    "rows": ("**48 rows**", OFFLINE),
    "share": ("**434**", OFFLINE),
    "note": ("Not done: nobody was there to ask (write_file)", OFFLINE),
    "step": ("| 1 | How many rows has @data/sales.csv? |", "| 3 | Write a two-line note to notes/shares.md. |"),
    "check": ("Same for all ",),
    "rules": (),
    "try": (
        'of turn 2 differs: decision of tool.call.decided was "ALLOW", and would be "ASK". The rules are other ones.',
        "`%replay --turn 2`",
    ),
    "export": (),
    "write": ("shares.ipynb",),
    "verify": ("4 of 4 cells are as exported.", "changed since: its output", "3 of 4 cells are as exported."),
    "turns": ("| 3 |", "`%session fork 3`"),
    "fork": ("begins after turn 1. This session stays.", "**shares-again.ipynb**"),
}
"""What each code cell of the notebook must show, by the cell's id. The last one is the reader's own, and empty."""


@pytest.fixture(scope="module")
def fifth(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, GatewayHome]]:
    with executed(NAME, tmp_path_factory.mktemp("notebook")) as found:
        yield found


def test_every_code_cell_is_known_here(fifth: tuple[Any, GatewayHome]) -> None:
    cells = [cell["id"] for cell in fifth[0]["cells"] if cell["cell_type"] == "code"]

    assert cells == [*ANSWERS, "yours"]


@pytest.mark.parametrize("cell_id", ANSWERS)
def test_a_cell_shows_what_the_notebook_promises(fifth: tuple[Any, GatewayHome], cell_id: str) -> None:
    (cell,) = [cell for cell in fifth[0]["cells"] if cell["id"] == cell_id]
    printed = "".join(output.get("text", "") for output in cell["outputs"])

    assert [part for part in ANSWERS[cell_id] if part not in shown(cell) + printed] == []
    assert bool(cell["outputs"]) == bool(ANSWERS[cell_id])
    assert "Traceback" not in printed


def test_the_fork_has_the_cells_up_to_its_turn_and_one_to_go_on_in(fifth: tuple[Any, GatewayHome]) -> None:
    fork = nbformat.read(fifth[1].project / "shares-again.ipynb", as_version=4)

    sources = [cell["source"] for cell in fork["cells"] if cell["cell_type"] == "code"]
    assert sources == ["How many rows has @data/sales.csv?", ""]
