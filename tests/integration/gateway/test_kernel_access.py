"""What a kernel may list and change over its connection: its own session, and no other."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ozzie_server_ext.gateway.routes import PREFIX
from tests.integration.gateway.asked import asked
from tests.integration.gateway.test_rest import get, post
from tests.integration.gateway.walk import KERNEL_ID, ask
from tests.rig import Gateway, recorded_request
from tests.ws_client import WsClient, connected

SUM = "What is 17.5 % of 2,480? Use the calculator."


def granted(gateway: Gateway, number: int, session: str) -> dict[str, Any]:
    """A kernel's token and session."""
    path, body = f"{PREFIX}/kernels/{KERNEL_ID[:-2]}{number}/token", json.dumps({"session_name": session})
    status, found = ask(gateway, "POST", path, token=gateway.token, body=body)
    assert status == 200, found
    return found


@pytest.fixture
def kernel(shared_gateway: Gateway) -> dict[str, Any]:
    """The token and the session of a kernel. A token ends with its connection."""
    return granted(shared_gateway, 31, "own")


@pytest.fixture(scope="module")
def waiting(shared_gateway: Gateway) -> Iterator[dict[str, dict[str, Any]]]:
    """The pending approvals of the kernel's session and of another one; each has a pinned fact, too."""
    own = asked(shared_gateway, session=None, session_id=granted(shared_gateway, 30, "own")["session_id"])
    other = asked(shared_gateway, session="not the kernel's")
    for approval, text in ((own, "own fact"), (other, "another's fact")):
        post(shared_gateway, f"sessions/{approval['session_id']}/pins", text=text)
    yield {"own": own, "other": other}
    for approval in (own, other):
        post(shared_gateway, f"approvals/{approval['approval_id']}/reject")


async def items(client: WsClient, method: str, **params: Any) -> list[dict[str, Any]]:
    answer = await client.request(method, **params)
    assert answer["ok"], answer
    return answer["payload"]["items"]


async def test_a_kernel_lists_the_tasks_approvals_and_pins_of_its_own_session(
    shared_gateway: Gateway, kernel: dict[str, Any], waiting: dict[str, dict[str, Any]]
) -> None:
    async with connected(shared_gateway, kernel["token"]) as client:
        tasks = await items(client, "task.list")
        approvals = await items(client, "approval.list", status=["pending"])
        pins = await items(client, "session.pins")

    assert [task["task_id"] for task in tasks] == [waiting["own"]["task_id"]]
    assert [approval["approval_id"] for approval in approvals] == [waiting["own"]["approval_id"]]
    assert [pin["text"] for pin in pins] == ["own fact"]


async def test_another_sessions_are_refused_on_both_ways_in(
    shared_gateway: Gateway, kernel: dict[str, Any], waiting: dict[str, dict[str, Any]]
) -> None:
    other = waiting["other"]["session_id"]
    (pin,) = (await asyncio.to_thread(get, shared_gateway, f"sessions/{other}/pins"))["items"]
    async with connected(shared_gateway, kernel["token"]) as client:
        for method, params in (
            ("task.list", {}),
            ("approval.list", {}),
            ("prompt.show", {}),
            ("session.pins", {}),
            ("session.pin", {"text": "from elsewhere"}),
            ("session.unpin", {"pin_id": pin["pin_id"]}),
        ):
            refused = await client.request(method, session_id=other, **params)
            assert refused["ok"] is False, method
            assert refused["error"]["code"] == "policy.session", method
    for path in (f"tasks?session_id={other}", f"approvals?session_id={other}", f"sessions/{other}/pins"):
        asking = (shared_gateway, "GET", f"{PREFIX}/{path}")
        assert (await asyncio.to_thread(ask, *asking, token=kernel["token"]))[0] == 403, path
    assert (await asyncio.to_thread(get, shared_gateway, f"sessions/{other}/pins"))["items"] == [pin]


async def test_it_pins_facts_and_removes_them(shared_gateway: Gateway) -> None:
    kernel = await asyncio.to_thread(granted, shared_gateway, 32, "pinned")
    async with connected(shared_gateway, kernel["token"]) as client:
        first = await items(client, "session.pin", text="  The launch \n is on Monday. ")
        both = await items(client, "session.pin", text="Prices are in Swiss francs.")
        left = await items(client, "session.unpin", pin_id=first[0]["pin_id"])
        listed = await items(client, "session.pins")

    assert [pin["text"] for pin in both] == ["The launch is on Monday.", "Prices are in Swiss francs."]
    assert [pin["text"] for pin in left] == ["Prices are in Swiss francs."]
    assert listed == left


async def test_the_latest_prompt_is_the_recorded_request(shared_gateway: Gateway) -> None:
    kernel = await asyncio.to_thread(granted, shared_gateway, 33, "prompt")
    async with connected(shared_gateway, kernel["token"]) as client:
        nothing = (await client.request("prompt.show"))["payload"]
        await client.ask(kernel["session_id"], SUM)
        shown = (await client.request("prompt.show"))["payload"]
        config = (await client.request("config.show"))["payload"]
    query = f"events?session_id={kernel['session_id']}&type=model.call.started&newest_first=true&limit=1"
    (started,) = (await asyncio.to_thread(get, shared_gateway, query))["items"]
    sent = recorded_request(shared_gateway.home.home, started["payload"]["request_blob"])

    assert nothing == {}
    assert shown["request"] == sent
    assert (shown["ts"], shown["task_id"]) == (started["ts"], started["task_id"])
    assert [message["role"] for message in shown["request"]["messages"]][-3:] == ["user", "assistant", "tool"]
    assert config["project"] == str(shared_gateway.home.project)
