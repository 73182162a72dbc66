"""A turn that runs is activity of the server that it runs in, by which hubs and Jupyter itself end idle ones."""

import asyncio
import time
from datetime import UTC, datetime

import pytest

from tests.fakes.openai_server import FakeOpenAI
from tests.integration.gateway.walk import ask
from tests.rig import JUPYTER_TOKEN, Gateway, GatewayHome, start_attached, start_jupyter
from tests.ws_client import connected

pytestmark = pytest.mark.timeout(120)

SOON_S = 40.0


def last_activity(server: Gateway) -> datetime:
    """Jupyter's own word for it; to ask for this is none."""
    return datetime.fromisoformat(ask(server, "GET", "/api/status", token=JUPYTER_TOKEN)[1]["last_activity"])


def wait_for_activity(server: Gateway, since: datetime) -> None:
    end = time.monotonic() + SOON_S
    while last_activity(server) < since:
        assert time.monotonic() < end
        time.sleep(0.1)


async def test_a_turn_that_runs_is_activity_of_the_owner_and_of_no_other(
    home: GatewayHome, fake_openai: FakeOpenAI
) -> None:
    home.use_provider(fake_openai.url, "endless")
    with start_jupyter(home) as owner, start_attached(home) as attached:
        async with connected(owner) as client:  # which is no activity
            session_id = await client.open_session("long")
            sent = (await client.request("message.send", session_id=session_id, content="go on"))["payload"]
            await client.request("feed.subscribe", from_position=sent["position"] - 1, task_id=sent["task_id"])
            await client.until("reply.delta")
            running = datetime.now(UTC)
            await asyncio.to_thread(wait_for_activity, owner, running)
            elsewhere = await asyncio.to_thread(last_activity, attached)
            await client.request("task.cancel", task_id=sent["task_id"])
            await client.until("task.cancelled")

    assert elsewhere < running
