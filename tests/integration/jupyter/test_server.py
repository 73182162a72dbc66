"""A whole Jupyter Server: the agent in it finds its kernels, and a gateway by itself says that it has none."""

import json

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
