"""The notebook about workflows runs from top to bottom without a key, with nobody there to say yes."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.docs.executing import OFFLINE, executed

pytestmark = [pytest.mark.soak, pytest.mark.timeout(180)]

NAME = "03_workflow.ipynb"
UNTRUSTED = "If the file changes, it is not used until it is trusted again."
ANSWERS = {
    "skills": ('`%run three-facts [topic="tea"]`', "`%run researcher question=…`"),
    "facts": (OFFLINE, "Not done: nobody was there to ask (write_file).", "[done] three-facts  5 of 5"),
    "write": ("prices, a workflow of 3 steps. No errors.",),
    "trust": ("prices can be used in this project from now on", UNTRUSTED),
    "prices": (
        "**Failed.** prices failed. Price list: notes/prices.csv does not exist.",
        "[failed] prices  2 of 3, 1 failed",
        "[done] Date ",
        "[waiting] Count the rows",
    ),
    "retry": ("The task goes on as attempt 2.", "It has left: 2 steps.", "tried    2 times", "**2 rows**", OFFLINE),
    "record": ("step.failed", "task.retried", "task.succeeded", "prices: Count the rows"),
    "states": ("sentence can be used in this project from now on", UNTRUSTED),
    "sentence": ("Good enough?: Not done: nobody was there to ask (gate).", "[done] Draft ", "[failed] Good enough?"),
    "waiting": ("order can be used in this project", "[done] Ordered", "[working] Payment"),
    "tell": ("The run goes on.", "[done] order  2 of 2", '{"amount":12}'),
}
"""What each code cell of the notebook must show, by the cell's id. The last one is the reader's own, and empty."""
FAIL = {"prices", "sentence"}


@pytest.fixture(scope="module")
def third(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with executed(NAME, tmp_path_factory.mktemp("notebook")) as (notebook, _):
        yield notebook


def cell_of(notebook: Any, cell_id: str) -> Any:
    (cell,) = [cell for cell in notebook["cells"] if cell["id"] == cell_id]
    return cell


def all_text(cell: Any) -> str:
    """What stands below a cell: Markdown, the pictures in words, what was printed."""
    shown = [output.get("data", {}) for output in cell["outputs"]]
    printed = [output.get("text", "") for output in cell["outputs"]]
    return "\n".join([*(data.get(kind, "") for data in shown for kind in ("text/markdown", "text/plain")), *printed])


def test_every_code_cell_is_known_here(third: Any) -> None:
    cells = [cell["id"] for cell in third["cells"] if cell["cell_type"] == "code"]

    assert cells == [*ANSWERS, "yours"]


@pytest.mark.parametrize("cell_id", ANSWERS)
def test_a_cell_shows_what_the_notebook_promises(third: Any, cell_id: str) -> None:
    shown = all_text(cell_of(third, cell_id))

    assert [part for part in ANSWERS[cell_id] if part not in shown] == []


def test_only_those_cells_fail_that_are_to_and_each_in_a_sentence(third: Any) -> None:
    failed = {
        cell["id"]: "".join(output["traceback"])
        for cell in third["cells"]
        for output in cell.get("outputs", ())
        if output["output_type"] == "error"
    }

    assert failed.keys() == FAIL
    assert all("failed." in text and "Traceback" not in text for text in failed.values())


@pytest.mark.parametrize("cell_id", ["facts", "prices", "sentence"])
def test_each_run_in_a_cell_leaves_a_picture_and_says_the_same_in_a_table(third: Any, cell_id: str) -> None:
    turn, picture, *_ = [output["data"] for output in cell_of(third, cell_id)["outputs"] if "data" in output]

    assert picture["image/svg+xml"].startswith("<svg ")
    told = [line for line in picture["text/plain"].splitlines() if line.startswith("  [")]
    table = turn["text/markdown"].split("| Step |")[1].split("</details>")[0]
    assert table.count("\n| ") == len(told)
