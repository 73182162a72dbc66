"""The notebook about tools and approvals runs from top to bottom without a key, with nobody there to say yes."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.docs.executing import NOTEBOOKS, OFFLINE, executed, shown
from tests.rig import GatewayHome

pytestmark = [pytest.mark.soak, pytest.mark.timeout(180)]

NAME = "02_tools_and_approvals.ipynb"
NOBODY = "Not done: nobody was there to ask"
ANSWERS = {
    "sandbox": ("| `shell` |", "North", "It ran."),
    "walls": ("| `shell` |", "Read-only file system", "It ended with `exit "),
    "changes": ("| `shell` |", "| `apply_changes` |", f"{NOBODY} (apply_changes)"),
    "cells": ("| `read_notebook` |", "1. markdown: `# Sales`", "2. code: `import csv`"),
    "insert": ("| `insert_cell` |", f"{NOBODY} (insert_cell)"),
    "code": ("| `read_notebook` |", "| `edit_cell` |", f"{NOBODY} (edit_cell)"),
    "back": ("There is no edit of a notebook to take back.",),
    "kernels": ("| `list_kernels` |", "No kernel runs"),
}
"""What each code cell of the notebook must show, by the cell's id. The last one is the reader's own, and empty."""


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, GatewayHome]]:
    with executed(NAME, tmp_path_factory.mktemp("notebook")) as found:
        yield found


def test_every_code_cell_is_known_here(second: tuple[Any, GatewayHome]) -> None:
    cells = [cell["id"] for cell in second[0]["cells"] if cell["cell_type"] == "code"]

    assert cells == [*ANSWERS, "yours"]


@pytest.mark.parametrize("cell_id", ANSWERS)
def test_a_cell_shows_what_the_notebook_promises(second: tuple[Any, GatewayHome], cell_id: str) -> None:
    (cell,) = [cell for cell in second[0]["cells"] if cell["id"] == cell_id]

    assert [part for part in (*ANSWERS[cell_id], OFFLINE) if part not in shown(cell)] == []


def test_nothing_was_done_without_a_yes(second: tuple[Any, GatewayHome]) -> None:
    project = second[1].project

    for name in ("data/sales.csv", "data/analysis.ipynb"):
        assert (project / name).read_bytes() == (NOTEBOOKS / name).read_bytes()
