"""Forks over REST and the WebSocket: the turns, the fork, the tree, and who may."""

import json
from pathlib import Path

import pytest

from ozzie_server_ext.gateway.routes import PREFIX
from tests.integration.gateway.test_kernel_access import granted
from tests.integration.gateway.test_rest import get, post
from tests.integration.gateway.walk import ask
from tests.rig import Gateway, ozzie
from tests.ws_client import connected


@pytest.fixture
def session(gateway: Gateway) -> str:
    first = post(gateway, "message", content="Say hello.", wait=True)["session_id"]
    post(gateway, "message", content="Say goodbye.", session_id=first, wait=True)
    return first


def test_a_fork_has_the_turns_up_to_one(gateway: Gateway, session: str) -> None:
    made = post(gateway, f"sessions/{session}/fork", turn=1)

    turns = get(gateway, f"sessions/{made['session']['id']}/turns")["items"]
    assert [(turn["number"], turn["title"], turn["session_id"]) for turn in turns] == [(1, "Say hello.", session)]
    assert (made["turn"], made["left_out"], made["done"], made["files"], made["notebook"]) == (1, [], [], [], None)
    assert (made["session"]["parent"], made["session"]["forked_turn"]) == (session, 1)
    tree = get(gateway, f"sessions/{session}/tree")["items"]
    assert [(each["id"], each["parent"], each["turn"]) for each in tree] == [
        (session, None, 0),
        (made["session"]["id"], session, 1),
    ]


def test_a_fork_from_an_event_has_a_turn_as_far_as_it_had_come(gateway: Gateway, session: str) -> None:
    first = get(gateway, f"sessions/{session}/turns")["items"][0]
    events = get(gateway, f"events?task_id={first['task_id']}")["items"]
    middle = next(event["position"] for event in events if event["type"] == "model.call.started")

    made = post(gateway, f"sessions/{session}/fork", event=middle)

    (turn,) = get(gateway, f"sessions/{made['session']['id']}/turns")["items"]
    assert (turn["status"], turn["until"], made["turn"]) == ("cut", middle, 0)
    shown = ozzie(gateway.home, "sessions", "show", made["session"]["id"]).stdout
    assert "> Say hello." in shown
    assert "Done" not in shown


def test_a_notebook_that_is_there_is_not_taken_over(gateway: Gateway, session: str, tmp_path: Path) -> None:
    there = tmp_path / "mine.ipynb"
    there.symlink_to(tmp_path / "nowhere")

    status, told = ask(
        gateway,
        "POST",
        f"{PREFIX}/sessions/{session}/fork",
        token=gateway.token,
        body=json.dumps({"notebook": str(there)}),
    )

    assert (status, told["code"]) == (409, "conflict.file")
    assert len(get(gateway, f"sessions/{session}/tree")["items"]) == 1


async def test_a_kernel_sees_the_turns_of_its_own_session_and_forks_none(gateway: Gateway, session: str) -> None:
    kernel = granted(gateway, 32, "own")
    async with connected(gateway, kernel["token"]) as client:
        own = await client.request("session.turns")
        assert own["payload"]["items"] == []
        for method in ("session.turns", "session.fork", "session.tree"):
            refused = await client.request(method, session_id=session)
            assert refused["error"]["code"] == "policy.session", method
