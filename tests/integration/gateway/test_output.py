"""A turn as a cell shows it, for a page that did not see it come: the very output that its kernel writes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from ozzie_server_ext.gateway.routes import PREFIX
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, ToolCall, pieces_of
from tests.integration.gateway.walk import ask
from tests.rig import Gateway, Kernel, new_home, start_gateway, start_kernel

pytestmark = pytest.mark.timeout(120)

NOTEBOOK = "plans/May & June.ipynb"


def get(gateway: Gateway, path: str) -> dict[str, Any]:
    status, answer = ask(gateway, "GET", f"{PREFIX}/{path}", token=gateway.token)
    assert status == 200, answer
    return answer


def of_cell(gateway: Gateway, cell_id: str) -> dict[str, Any]:
    (task,) = (task for task in of_notebook(gateway, NOTEBOOK) if task["cell_id"] == cell_id)
    return task


def of_notebook(gateway: Gateway, notebook: str) -> list[dict[str, Any]]:
    return get(gateway, f"tasks?notebook={quote(notebook)}")["items"]


@pytest.fixture(scope="module")
def gateway(fake_openai_server: FakeOpenAI, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = new_home(tmp_path_factory.mktemp("output"))
    home.use_provider(fake_openai_server.url, "scripted", "endless")
    with start_gateway(home) as running:
        yield running


@pytest.fixture(scope="module")
def kernel(gateway: Gateway) -> Iterator[Kernel]:
    """That of a notebook in a folder of the project."""
    home = gateway.home
    path = home.project / NOTEBOOK
    path.parent.mkdir()
    kernel = start_kernel(replace(home, env={**home.env, "JPY_SESSION_NAME": str(path)}))
    yield kernel
    kernel.stop()


def test_the_output_of_an_ended_turn_is_what_its_kernel_wrote(
    gateway: Gateway, kernel: Kernel, fake_openai: FakeOpenAI
) -> None:
    fake_openai.queue(
        Answer(pieces=["I will calculate."], tool_calls=[ToolCall("calculator", {"expr": "6*7"})], usage=(10, 5)),
        Answer(pieces=pieces_of("That is **42**."), usage=(20, 5)),
    )
    written = kernel.run("What is six times seven?", cell_id="calculated")
    task = of_cell(gateway, "calculated")
    output = get(gateway, f"tasks/{task['task_id']}/output")

    assert written.bundles == [output["data"]]
    assert output["metadata"]["ozzie"] == {
        "session": task["session_id"],
        "task": task["task_id"],
        "turn": task["task_id"],
    }
    assert (output["status"], output["html"]) == ("SUCCEEDED", "")


def test_a_turn_that_was_stopped_is_shown_as_its_kernel_showed_it(gateway: Gateway, kernel: Kernel) -> None:
    kernel.run("%model endless")
    request = kernel.send("Go on for ever.", cell_id="stopped")
    kernel.output(request, until_live="1 2 3 ")
    kernel.interrupt()
    written = kernel.output(request)
    task = of_cell(gateway, "stopped")
    output = get(gateway, f"tasks/{task['task_id']}/output")

    assert output["status"] == "CANCELLED"
    assert written.bundles[-1] == output["data"]


def test_a_turn_that_goes_on_is_shown_with_what_has_come_of_it(gateway: Gateway, kernel: Kernel) -> None:
    kernel.run("%model endless")
    request = kernel.send("Go on for ever.", cell_id="going-on")
    kernel.output(request, until_live="1 2 3 ")
    task = of_cell(gateway, "going-on")
    output = get(gateway, f"tasks/{task['task_id']}/output")

    assert output["status"] == "RUNNING"
    assert (output["data"], output["metadata"]) == ({}, {})
    assert "1 2 3 " in output["html"]
    assert "<script" not in output["html"]
    kernel.interrupt()
    kernel.output(request)


def test_the_tasks_of_a_notebook_name_the_cells_that_they_came_from(gateway: Gateway, kernel: Kernel) -> None:
    kernel.run("%model scripted")
    kernel.run("Hello.", cell_id="first")
    kernel.run("Hello again.", cell_id="second")
    ask(gateway, "POST", f"{PREFIX}/message", token=gateway.token, body='{"content": "from elsewhere"}')

    assert [task["cell_id"] for task in of_notebook(gateway, NOTEBOOK)][:2] == ["second", "first"]
    assert [task["cell_id"] for task in get(gateway, "tasks?limit=3")["items"]] == ["", "second", "first"]
    assert of_notebook(gateway, "plans/another.ipynb") == []
    assert of_notebook(gateway, "../outside.ipynb") == []
