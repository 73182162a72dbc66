"""What Jupyter does to a notebook's file, its session goes along with, in a real Jupyter Server."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.gateway.walk import PREFIX, ask
from tests.rig import JUPYTER_TOKEN, Gateway, new_home, start_attached, start_gateway, start_jupyter
from tests.ws_client import connected

EMPTY = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
NOTEBOOK = json.dumps({"type": "notebook", "content": EMPTY})


@pytest.fixture(scope="module", params=["owner", "attached"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The owner of a home, or one that is attached to it, whose folder is another than the owner's."""
    home = new_home(tmp_path_factory.mktemp("contents"))
    root = f"--ServerApp.root_dir={home.project}"
    if request.param == "owner":
        with start_jupyter(home, root) as server:
            yield server
    else:
        elsewhere = tmp_path_factory.mktemp("elsewhere")
        with start_gateway(home, "--project", str(elsewhere)), start_attached(home, root) as server:
            yield server


def contents(server: Gateway, method: str, name: str, body: str = "") -> None:
    status, answer = ask(
        server,
        method,
        f"/api/contents/{name}",
        token=JUPYTER_TOKEN,
        body=body or None,
        headers={"Content-Type": "application/json"},
    )
    assert status in (200, 201, 204), answer


def session(server: Gateway, name: str) -> str:
    """The session that a kernel of this notebook is given."""
    path = Path(server.home.project, name)
    status, answer = ask(
        server,
        "POST",
        f"{PREFIX}/kernels/11111111-1111-4111-8111-111111111111/token",
        token=server.token,
        body=json.dumps({"session_name": str(path)}),
    )
    assert status == 200, answer
    return str(answer["session_id"])


async def moved(server: Gateway, after: int) -> None:
    """Wait for the next `session.moved` behind this position: Jupyter tells of a rename once it is done."""
    async with connected(server) as client:
        await client.request("feed.subscribe", from_position=after, types=["session.moved"])
        async with asyncio.timeout(20):
            await client.until("session.moved")


def position(server: Gateway) -> int:
    return int(ask(server, "GET", f"{PREFIX}/health", token=server.token)[1]["position"])


async def test_a_renamed_notebook_keeps_its_session_and_its_old_name_begins_anew(server: Gateway) -> None:
    contents(server, "PUT", "plan.ipynb", NOTEBOOK)
    before = session(server, "plan.ipynb")
    at = position(server)

    contents(server, "PATCH", "plan.ipynb", '{"path": "prices.ipynb"}')
    await moved(server, at)

    assert session(server, "prices.ipynb") == before
    assert session(server, "plan.ipynb") != before


async def test_the_notebooks_of_a_renamed_folder_keep_theirs(server: Gateway) -> None:
    contents(server, "PUT", "old", '{"type": "directory"}')
    contents(server, "PUT", "old/a.ipynb", NOTEBOOK)
    before = session(server, "old/a.ipynb")
    at = position(server)

    contents(server, "PATCH", "old", '{"path": "new"}')
    await moved(server, at)

    assert session(server, "new/a.ipynb") == before


async def test_a_notebook_with_the_name_of_a_deleted_one_begins_anew(server: Gateway) -> None:
    contents(server, "PUT", "Untitled.ipynb", NOTEBOOK)
    before = session(server, "Untitled.ipynb")
    at = position(server)

    contents(server, "DELETE", "Untitled.ipynb")
    await moved(server, at)
    contents(server, "PUT", "Untitled.ipynb", NOTEBOOK)

    assert session(server, "Untitled.ipynb") != before


async def test_the_tasks_of_a_notebook_are_found_by_the_path_that_its_own_server_has_for_it(server: Gateway) -> None:
    contents(server, "PUT", "tasks.ipynb", NOTEBOOK)
    session_id = session(server, "tasks.ipynb")
    async with connected(server) as client:
        done = await client.ask(session_id, "hello")
    status, found = ask(server, "GET", f"{PREFIX}/tasks?notebook=tasks.ipynb", token=server.token)

    assert status == 200
    assert [task["task_id"] for task in found["items"]] == [done["task_id"]]
