"""A kernel that is told to end in the middle of a turn leaves its cell in order, and the turn goes on without it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.openai_server import FakeOpenAI
from tests.rig import CELL_S, Gateway, GatewayHome, Kernel
from tests.ws_client import connected

pytestmark = pytest.mark.timeout(120)


def last_output(kernel: Kernel, request: str) -> dict[str, Any]:
    """What stands in the cell when the kernel has said its last word."""
    bundle: dict[str, Any] = {}
    while True:
        message = kernel.client.get_iopub_msg(timeout=CELL_S)
        kind, content = message["header"]["msg_type"], message["content"]
        if kind == "shutdown_reply":
            return bundle
        if message["parent_header"].get("msg_id") == request and kind in ("display_data", "update_display_data"):
            bundle = content["data"]


@pytest.mark.parametrize("restart", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_the_cell_says_that_its_turn_goes_on(
    home: GatewayHome,
    gateway: Gateway,
    new_kernel: Callable[[], Kernel],
    fake_openai: FakeOpenAI,
    restart: bool,
) -> None:
    home.use_provider(fake_openai.url, "paced-50-50-40")
    kernel = new_kernel()
    request = kernel.send("tell me")
    kernel.output(request, until_live="w3")

    kernel.client.shutdown(restart=restart)
    bundle = last_output(kernel, request)

    shown = bundle["text/markdown"]
    assert shown.startswith("This turn was still running when the notebook was saved. Open it with Ozzie to see")
    assert "w3" in shown
    task_id = bundle["application/vnd.ozzie.turn+json"]["task"]
    assert asyncio.run(end_of(gateway, task_id)) == "task.succeeded"


async def end_of(gateway: Gateway, task_id: str) -> str:
    async with connected(gateway) as client:
        await client.request("feed.subscribe", from_position=0, task_id=task_id)
        return (await client.until("task.succeeded", "task.failed", "task.cancelled"))["canonical"]
