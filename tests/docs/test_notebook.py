"""The first notebook runs from top to bottom without a key, and reads well where it is saved."""

from collections.abc import Iterator
from typing import Any

import pytest
from nbconvert import HTMLExporter, MarkdownExporter

from tests.docs.executing import OFFLINE, executed, shown

pytestmark = [pytest.mark.timeout(180)]

NAME = "01_first_turn.ipynb"
ANSWERS = {
    "hello": ("Hello. This is Ozzie, the agent server of this Jupyter.", OFFLINE),
    "calculator": ("**434**", "| `calculator` |", OFFLINE),
    "rows": ("**48 rows**", "| `list_files` |", "| `read_file` |", OFFLINE),
    "note": ("| `write_file` |", "Not done: nobody was there to ask", OFFLINE),
    "again": ("| `write_file` |", "Not done: nobody was there to ask", OFFLINE),
    "facts": ("The note is not written. Not done: nobody was there to ask (write_file).", OFFLINE),
    "cost": ("| This session |", "&#36;0.00"),
    "replay": ("Same for all ",),
    "model": ("**offline** answers in this session.", "ollama/NAME"),
}
"""What each code cell of the notebook must show, by the cell's id. The last one is the reader's own, and empty."""


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with executed(NAME, tmp_path_factory.mktemp("notebook")) as (notebook, _):
        yield notebook


def test_every_code_cell_is_known_here(first: Any) -> None:
    cells = [cell["id"] for cell in first["cells"] if cell["cell_type"] == "code"]

    assert cells == [*ANSWERS, "yours"]


@pytest.mark.parametrize("cell_id", ANSWERS)
def test_a_cell_shows_what_the_notebook_promises(first: Any, cell_id: str) -> None:
    (cell,) = [cell for cell in first["cells"] if cell["id"] == cell_id]

    assert [part for part in ANSWERS[cell_id] if part not in shown(cell)] == []
    assert {output["output_type"] for output in cell["outputs"]} == {"display_data"}


def test_a_run_of_a_skill_leaves_a_picture_of_its_steps(first: Any) -> None:
    (cell,) = [cell for cell in first["cells"] if cell["id"] == "facts"]
    picture = cell["outputs"][1]["data"]

    assert picture["image/svg+xml"].startswith("<svg ")
    assert picture["text/plain"].splitlines()[0] == "[done] three-facts  5 of 5"
    for title in ("Where from", "How made", "What for", "Make a note", "Keep it"):
        assert f"[done] {title} " in picture["text/plain"]


def test_no_widget_is_left_behind(first: Any) -> None:
    assert "widgets" not in first["metadata"]


def test_as_html_it_holds_the_answers(first: Any) -> None:
    html, _ = HTMLExporter().from_notebook_node(first)

    for part in (
        "This is Ozzie, the agent server of this Jupyter.",
        "<strong>434</strong>",
        "<strong>48 rows</strong>",
    ):
        assert part in html
    assert html.count(OFFLINE) == 6


def test_as_markdown_it_holds_the_answers(first: Any) -> None:
    markdown, _ = MarkdownExporter().from_notebook_node(first)

    for cell_id in ("hello", "calculator", "rows", "cost"):
        assert [part for part in ANSWERS[cell_id] if part not in markdown] == []
    assert "What is 17.5 % of 2,480? Use the calculator." in markdown
