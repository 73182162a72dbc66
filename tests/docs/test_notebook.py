"""The first notebook runs from top to bottom without a key, and reads well where it is saved."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbconvert import HTMLExporter, MarkdownExporter

from tests.rig import new_home

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

NAME = "01_first_turn.ipynb"
NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
OFFLINE = "Offline script, not a language model. Connect a model for real answers: %model"
ANSWERS = {
    "hello": ("Hello. This is Ozzie, the agent server of this Jupyter.", OFFLINE),
    "calculator": ("**434**", "| `calculator` |", OFFLINE),
    "rows": ("**48 rows**", "| `list_files` |", "| `read_file` |", OFFLINE),
    "note": ("| `write_file` |", "Not done: nobody was there to ask", OFFLINE),
    "again": ("| `write_file` |", "Not done: nobody was there to ask", OFFLINE),
    "cost": ("| This session |", "&#36;0.00"),
    "model": ("**offline** answers in this session.", "ollama/NAME"),
}
"""What each code cell of the notebook must show, by the cell's id. The last one is the reader's own, and empty."""


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The notebook after a run in a home of its own."""
    home = new_home(tmp_path_factory.mktemp("notebook"))
    shutil.copytree(NOTEBOOKS, home.project, dirs_exist_ok=True)
    command = [sys.executable, "-m", "nbconvert", "--to=notebook", "--execute", "--inplace", NAME]
    subprocess.run(command, cwd=home.project, env=dict(home.env), check=True, capture_output=True, timeout=150)
    yield nbformat.read(home.project / NAME, as_version=4)
    home.stop_gateways()


def shown(cell: Any) -> str:
    return "\n".join(output["data"].get("text/markdown", "") for output in cell["outputs"] if "data" in output)


def test_every_code_cell_is_known_here(executed: Any) -> None:
    cells = [cell["id"] for cell in executed["cells"] if cell["cell_type"] == "code"]

    assert cells == [*ANSWERS, "yours"]


@pytest.mark.parametrize("cell_id", ANSWERS)
def test_a_cell_shows_what_the_notebook_promises(executed: Any, cell_id: str) -> None:
    (cell,) = [cell for cell in executed["cells"] if cell["id"] == cell_id]

    assert [part for part in ANSWERS[cell_id] if part not in shown(cell)] == []
    assert {output["output_type"] for output in cell["outputs"]} == {"display_data"}


def test_no_widget_is_left_behind(executed: Any) -> None:
    assert "widgets" not in executed["metadata"]


def test_as_html_it_holds_the_answers(executed: Any) -> None:
    html, _ = HTMLExporter().from_notebook_node(executed)

    for part in (
        "This is Ozzie, the agent server of this Jupyter.",
        "<strong>434</strong>",
        "<strong>48 rows</strong>",
    ):
        assert part in html
    assert html.count(OFFLINE) == 5


def test_as_markdown_it_holds_the_answers(executed: Any) -> None:
    markdown, _ = MarkdownExporter().from_notebook_node(executed)

    for cell_id in ("hello", "calculator", "rows", "cost"):
        assert [part for part in ANSWERS[cell_id] if part not in markdown] == []
    assert "What is 17.5 % of 2,480? Use the calculator." in markdown
