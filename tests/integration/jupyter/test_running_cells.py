"""Running a cell of a notebook in its real kernel: what a yes is for, and what stands below the cell behind it."""

import json
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.events import ApprovalExpired, ToolCallCompleted, ToolCallFailed
from ozzie_server_ext.jupyter.cells import CellKind, version_of
from ozzie_server_ext.models.scripted import Use
from tests.integration.jupyter.rig import KernelBench
from tests.integration.jupyter.turns import Turns
from tests.unit.tools.notebook.test_text import cell, file

pytestmark = pytest.mark.asyncio(loop_scope="package")

NAME = "cells.ipynb"
CODE = """from IPython.display import HTML, display
display(HTML('<script>window.__pwned = 1</script>'))
print('shown')
6 * 7"""


def run_cell(source: str, cell_id: str = "a") -> Use:
    return Use("run_cell", {"path": NAME, "cell": cell_id, "version": version_of(CellKind.CODE, source)})


def write(turns: Turns, source: str) -> Path:
    path: Path = turns.ozzie.project / NAME
    path.write_bytes(file(cell("a", source), cell("b", "# Text", "markdown")))
    return path


def cells(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_bytes())["cells"]


async def test_a_cell_is_run_as_it_was_shown_and_what_acts_of_its_outputs_is_left_out(
    start: Any, kernels: KernelBench
) -> None:
    await kernels.kernel(NAME)
    turns: Turns = await start(kernels.live)
    path = write(turns, CODE)

    task_id = await turns.turn(run_cell(CODE))
    asked = (await turns.pending()).asked
    assert asked.sentence.startswith("Run cell 1 in the kernel of `cells.ipynb`? It can do all that you can")
    assert (asked.proof, asked.needs, asked.cover) == (CODE, AuthStrength.CLI, None)
    assert await turns.yes(task_id) == "task.succeeded"

    ran, text = cells(path)
    assert [(each["output_type"], sorted(each.get("data", {}))) for each in ran["outputs"]] == [
        ("display_data", ["text/plain"]),
        ("stream", []),
        ("execute_result", ["text/plain"]),
    ]
    assert isinstance(ran["execution_count"], int)
    assert text == cell("b", "# Text", "markdown")
    (done,) = await turns.facts(task_id, ToolCallCompleted)
    assert done.brought == (f"output:{NAME}",)
    told = await turns.read(task_id)
    assert told["output"].endswith("shown\n42")
    assert told["left_out"] == ["text/html"]
    assert told["notes"] == []


async def test_a_cell_that_was_changed_since_the_yes_was_asked_for_is_not_run(
    start: Any, kernels: KernelBench, tmp_path: Path
) -> None:
    await kernels.kernel(NAME)
    turns: Turns = await start(kernels.live)
    source = f"open({str(tmp_path / 'ran')!r}, 'w').close()"
    path = write(turns, source)
    task_id = await turns.turn(run_cell(source))
    path.write_bytes(file(cell("a", "1 + 1"), cell("b", "# Text", "markdown")))

    assert await turns.yes(task_id) == "task.succeeded"

    (failed,) = await turns.facts(task_id, ToolCallFailed)
    assert failed.message == "The cell a has changed since it was read; read it again."
    assert not (tmp_path / "ran").exists()


async def test_a_yes_is_void_once_the_kernel_was_restarted(start: Any, kernels: KernelBench) -> None:
    kernel = await kernels.kernel(NAME)
    turns: Turns = await start(kernels.live)
    write(turns, "2 + 2")
    task_id = await turns.turn(run_cell("2 + 2"))
    await kernels.restart(kernel)

    assert await turns.yes(task_id) == "task.waiting_approval", "it is asked anew"
    assert [each.why for each in await turns.facts(task_id, ApprovalExpired)] == ["changed"]
    assert await turns.yes(task_id, 3) == "task.succeeded"


async def test_a_cell_that_changes_while_it_runs_is_told_and_gets_no_outputs_of_another_code(
    start: Any, kernels: KernelBench
) -> None:
    await kernels.kernel(NAME)
    turns: Turns = await start(kernels.live)
    path = turns.ozzie.project / NAME
    other = file(cell("a", "mine"), cell("b", "# Text", "markdown"))
    source = f"open({str(path)!r}, 'wb').write({other!r}); print('ran')"
    write(turns, source)

    task_id = await turns.turn(run_cell(source))
    assert await turns.yes(task_id) == "task.succeeded"

    assert path.read_bytes() == other
    told = await turns.read(task_id)
    assert told["output"].startswith("ran")
    assert "Its outputs are not shown below the cell: The cell a has changed since it was read" in told["notes"][0]


@pytest.mark.parametrize(
    ("use", "why"),
    [
        (run_cell("# Text", "b"), "has changed since it was read"),
        (
            Use("run_cell", {"path": NAME, "cell": "b", "version": version_of(CellKind.MARKDOWN, "# Text")}),
            "has no code",
        ),
        (Use("run_cell", {"path": NAME, "cell": "q", "version": "x"}), "There is no cell q"),
        (Use("run_cell", {"path": "none.ipynb", "cell": "a", "version": "x"}), "does not exist"),
    ],
    ids=["another version", "no code", "no cell", "no notebook"],
)
async def test_what_can_not_be_run_is_not_asked_for(start: Any, kernels: KernelBench, use: Use, why: str) -> None:
    turns: Turns = await start(kernels.live)
    write(turns, "1")

    (failed,) = await turns.facts(await turns.turn(use), ToolCallFailed)

    assert why in failed.message


async def test_a_notebook_without_a_kernel_says_so(start: Any, kernels: KernelBench) -> None:
    await kernels.kernel("analysis.ipynb")
    turns: Turns = await start(kernels.live)
    (turns.ozzie.project / "quiet.ipynb").write_bytes(file(cell("a", "1")))
    use = Use("run_cell", {"path": "quiet.ipynb", "cell": "a", "version": version_of(CellKind.CODE, "1")})

    (failed,) = await turns.facts(await turns.turn(use), ToolCallFailed)

    assert "No kernel fits `quiet.ipynb`" in failed.message
