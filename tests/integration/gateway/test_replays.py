"""Replays over REST and the WebSocket, and who may."""

import pytest

from tests.integration.gateway.test_kernel_access import granted
from tests.integration.gateway.test_rest import post
from tests.rig import Gateway
from tests.ws_client import connected


@pytest.fixture
def session(gateway: Gateway) -> str:
    return str(post(gateway, "message", content="Say hello.", wait=True)["session_id"])


def test_a_replay_over_rest(gateway: Gateway, session: str) -> None:
    found = post(gateway, f"sessions/{session}/replay")

    assert found["sentence"] == f"Same for all {found['events']:,} events."
    assert (found["same"], found["cause"], found["missing"]) == (found["events"], None, "")


async def test_a_kernel_replays_its_own_session_only(gateway: Gateway, session: str) -> None:
    kernel = granted(gateway, 33, "own")
    post(gateway, "message", content="Say goodbye.", wait=True, session_id=kernel["session_id"])
    async with connected(gateway, kernel["token"]) as client:
        own = await client.request("session.replay", session_id=kernel["session_id"])
        refused = await client.request("session.replay", session_id=session)

    assert own["payload"]["same"] == own["payload"]["events"]
    assert (refused["ok"], refused["error"]["code"]) == (False, "policy.session")
