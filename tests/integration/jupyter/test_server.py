"""A whole Jupyter Server: the agent in it finds its kernels, and a gateway by itself says that it has none."""

import json
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

from tests.integration.gateway.asked import asked
from tests.integration.gateway.test_rest import get, post, until
from tests.integration.gateway.walk import ask
from tests.rig import JUPYTER_TOKEN, Gateway, GatewayHome, start_gateway, start_jupyter
from tests.ws_client import connected


async def answered(server: Gateway) -> str:
    async with connected(server) as client:
        ended = await client.ask(await client.open_session("n"), "Which kernels run?")
        assert ended["canonical"] == "task.succeeded", ended
        completed = await client.until("message.completed")
        return str(completed["payload"]["text"])


async def test_the_agent_of_a_server_lists_the_kernels_of_its_notebooks(home: GatewayHome) -> None:
    with start_jupyter(home, f"--ServerApp.root_dir={home.project}") as server:
        asked = {"path": "deep/a.ipynb", "name": "a.ipynb", "type": "notebook", "kernel": {"name": "python3"}}
        status, answer = ask(
            server,
            "POST",
            "/api/sessions",
            token=JUPYTER_TOKEN,
            body=json.dumps(asked),
            headers={"Content-Type": "application/json"},
        )
        assert status == 201, answer
        assert "- `deep/a.ipynb`: `" in await answered(server)


async def test_a_gateway_by_itself_says_that_it_has_none(home: GatewayHome) -> None:
    with start_gateway(home) as gateway:
        assert "No kernel runs in this Jupyter server." in await answered(gateway)


HOOK = """
import json
from pathlib import Path

def keep_script(*, model, os_path, contents_manager):
    if model["type"] == "notebook":
        cells = json.loads(Path(os_path).read_text())["cells"]
        Path(os_path).with_suffix(".py").write_text("\\n".join("".join(cell["source"]) for cell in cells))

c.FileContentsManager.post_save_hook = keep_script
"""
"""A configuration of Jupyter's that keeps a script beside each notebook."""


def test_a_tool_saves_a_closed_notebook_as_the_server_is_configured(home: GatewayHome) -> None:
    config = Path(home.env["JUPYTER_CONFIG_DIR"])
    config.mkdir()
    (config / "jupyter_server_config.py").write_text(HOOK)
    notebook = home.project / "plots.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("x = 1", id="one")]), notebook)
    with start_jupyter(home, f"--ServerApp.root_dir={home.project}") as server:
        approval = asked(server, "Change cell 1 of plots.ipynb to: x = 2")
        post(server, f"approvals/{approval['approval_id']}/approve")
        path = f"tasks/{approval['task_id']}"
        until(lambda: get(server, path)["status"] not in ("WAITING_APPROVAL", "QUEUED", "RUNNING"))
        ended = get(server, path)

    assert ended["status"] == "SUCCEEDED"
    assert [step["name"] for step in ended["steps"] if step["kind"] == "tool"] == ["read_notebook", "edit_cell"]
    assert [cell["source"] for cell in nbformat.read(notebook, as_version=4)["cells"]] == ["x = 2"]
    assert notebook.with_suffix(".py").read_text() == "x = 2"
