"""Whole notebooks through nbclient and nbconvert: nobody watches, and there is neither a cell's id nor a keyboard."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook

from tests.rig import Gateway, new_home, start_gateway
from tests.warm import run_warm

pytestmark = [pytest.mark.timeout(180)]

KERNELSPEC = {"display_name": "Ozzie", "language": "markdown", "name": "ozzie"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with start_gateway(new_home(tmp_path_factory.mktemp("notebooks"))) as running:
        yield running


@pytest.fixture(autouse=True)
def _at_home(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """nbclient starts kernels with the environment of this process."""
    for name, value in gateway.home.env.items():
        monkeypatch.setenv(name, value)


def notebook(*sources: str) -> nbformat.NotebookNode:
    return new_notebook(cells=[new_code_cell(source) for source in sources], metadata={"kernelspec": KERNELSPEC})


def shown(cell: Any) -> str:
    return "\n".join(output["data"].get("text/markdown", "") for output in cell["outputs"] if "data" in output)


def errors(cell: Any) -> list[Any]:
    return [output for output in cell["outputs"] if output["output_type"] == "error"]


def test_a_notebook_of_every_kind_of_cell_runs_to_its_end() -> None:
    found = notebook("What is 2+2? Use the calculator.", "%session title Sums", "%cost", "%%python\nprint(6 * 7)", "")

    NotebookClient(found, timeout=60).execute()

    turn, titled, cost, python, empty = found["cells"]
    assert "`2+2` = **4**" in shown(turn)
    assert "**Sums**" in shown(titled)
    assert "| What is 2+2? Use the calculator. | offline |" in shown(cost)
    assert python["outputs"][0]["text"] == "42\n"
    assert empty["outputs"] == []
    assert [cell["execution_count"] for cell in found["cells"][:4]] == [1, 2, 3, 4]
    assert "widgets" not in found["metadata"]
    nbformat.validate(found)


def test_a_cell_that_fails_stops_a_notebook_with_its_sentence() -> None:
    found = notebook("%model nonesuch", "Say hello.")

    with pytest.raises(CellExecutionError, match='There is no model "nonesuch"'):
        NotebookClient(found, timeout=60).execute()

    assert 'There is no model "nonesuch".' in shown(found["cells"][0])
    (error,) = errors(found["cells"][0])
    assert error["traceback"] == ['There is no model "nonesuch". There are: offline.']
    assert found["cells"][1]["outputs"] == []


def test_a_turn_that_fails_stops_a_notebook_with_its_sentence() -> None:
    found = notebook("%model openai/none http://127.0.0.1:9/v1", "Say hello.")

    with pytest.raises(CellExecutionError, match="can't be reached at"):
        NotebookClient(found, timeout=60).execute()

    (error,) = errors(found["cells"][1])
    assert "127.0.0.1:9" in error["evalue"]
    assert "Traceback" not in str(found)


@pytest.mark.soak
def test_papermill_runs_a_notebook_and_says_what_went_wrong_in_one(gateway: Gateway) -> None:
    folder = gateway.home.project
    nbformat.write(notebook("What is 3 * 4? Use the calculator."), folder / "good.ipynb")
    nbformat.write(notebook("%model nonesuch", "Say hello."), folder / "bad.ipynb")

    def papermill(name: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "papermill", f"{name}.ipynb", f"{name}-out.ipynb", "--no-progress-bar"]
        return run_warm(command, env=gateway.home.env, cwd=folder, timeout=120)

    good, bad = papermill("good"), papermill("bad")

    assert good.returncode == 0, good.stderr
    assert "**12**" in (folder / "good-out.ipynb").read_text()
    assert bad.returncode == 1
    assert 'There is no model "nonesuch".' in bad.stderr
    assert "bad-out" in str(sorted(folder.iterdir()))


def test_papermills_parameters_reach_messages_and_python(gateway: Gateway) -> None:
    folder = gateway.home.project
    found = notebook(
        '%parameter left = 2\n%parameter name = "x"',
        "What is {left} * 21? Use the calculator.",
        "%%python\nprint(name, left)",
    )
    found["cells"][0]["metadata"]["tags"] = ["parameters"]
    nbformat.write(found, folder / "given.ipynb")
    command = [sys.executable, "-m", "papermill", "given.ipynb", "given-out.ipynb", "--no-progress-bar"]
    given = ["-p", "left", "4", "-p", "name", 'a "b" größe']

    done = run_warm([*command, *given], env=gateway.home.env, cwd=folder, timeout=120)
    shown_help = run_warm([*command, "--help-notebook"], env=gateway.home.env, cwd=folder)

    assert done.returncode == 0, done.stderr
    defaults, injected, turn, python = nbformat.read(folder / "given-out.ipynb", 4)["cells"]
    assert injected["metadata"]["tags"] == ["injected-parameters"]
    assert injected["source"] == '%parameter left = 4\n%parameter name = "a \\"b\\" größe"'
    assert "stands for" in shown(injected)
    assert errors(defaults) == []
    assert "**84**" in shown(turn)
    assert python["outputs"][0]["text"] == 'a "b" größe 4\n'
    assert "unknown parameter" not in done.stderr
    assert "left: int (default 2)" in shown_help.stdout


def test_a_parameter_that_the_notebook_does_not_know_is_set_and_papermill_says_so(gateway: Gateway) -> None:
    folder = gateway.home.project
    nbformat.write(notebook("What is {left} * 21? Use the calculator."), folder / "untold.ipynb")
    command = [
        sys.executable,
        "-m",
        "papermill",
        "untold.ipynb",
        "untold-out.ipynb",
        "--no-progress-bar",
        "-p",
        "left",
        "4",
    ]

    done = run_warm(command, env=gateway.home.env, cwd=folder, timeout=120)

    assert done.returncode == 0, done.stderr
    assert "does not contain a cell with tag 'parameters'" in done.stderr
    assert "**84**" in (folder / "untold-out.ipynb").read_text()


def test_with_errors_allowed_the_next_cell_runs() -> None:
    found = notebook("%model nonesuch", "Say hello.")

    NotebookClient(found, timeout=60, allow_errors=True).execute()

    assert "This is Ozzie" in shown(found["cells"][1])


@pytest.mark.soak
def test_a_notebook_of_a_hundred_cells_runs_in_one_session() -> None:
    found = notebook(*(f"What is {number} + 1?" for number in range(98)), "%session", "%cost")

    NotebookClient(found, timeout=120).execute()

    assert "**98**" in shown(found["cells"][97])
    assert "- Messages: 196" in shown(found["cells"][98]).replace("* ", "- ")
    assert len(shown(found["cells"][99]).splitlines()) > 98


@pytest.mark.soak
def test_nbconvert_runs_a_notebook_and_writes_it_as_a_page(gateway: Gateway) -> None:
    path = gateway.home.project / "page.ipynb"
    nbformat.write(notebook("What is 3 * 4? Use the calculator.", "%help"), path)

    command = [sys.executable, "-m", "nbconvert", "--execute", "--to=html", path.name]
    run_warm(command, env=gateway.home.env, cwd=path.parent, timeout=120).check_returncode()

    html = path.with_suffix(".html").read_text()
    assert "<strong>12</strong>" in html
    assert "<code>%session [WHAT]</code>" in html


def test_what_needs_a_yes_is_not_done_where_nobody_is_there_and_nothing_waits(gateway: Gateway) -> None:
    (gateway.home.project / "notes").mkdir()
    found = notebook("Write a 2-line note to notes/a.md", "What is 2+2? Use the calculator.")

    NotebookClient(found, timeout=30).execute()

    assert "Not done: nobody was there to ask (write" in shown(found["cells"][0])
    assert "**4**" in shown(found["cells"][1])
    assert not (gateway.home.project / "notes" / "a.md").exists()


def test_a_session_is_told_turn_by_turn_where_nobody_can_step_through_it(gateway: Gateway) -> None:
    found = notebook("What is 2+2? Use the calculator.", "%replay", "%replay --check")

    NotebookClient(found, timeout=30).execute()

    assert "| 1 | What is 2+2? Use the calculator. |" in shown(found["cells"][1])
    assert "Same for all 16 events." in shown(found["cells"][2])
