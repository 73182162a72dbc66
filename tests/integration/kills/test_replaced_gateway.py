"""A gateway that was stopped for a while, and whose lock was removed meanwhile, finds another one in its place."""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.fakes.openai_server import FakeOpenAI
from tests.integration.gateway.walk import ask
from tests.integration.kills.stage import is_alive, until
from tests.rig import Gateway, GatewayHome, start_gateway
from tests.ws_client import connected

pytestmark = [pytest.mark.timeout(180)]


def get(gateway: Gateway, path: str) -> dict[str, Any]:
    status, found = ask(gateway, "GET", f"/ozzie/api{path}", token=gateway.token)
    assert status == 200, found
    return found


def when(look: Callable[[], bool], what: str) -> None:
    def tried() -> bool | None:
        with suppress(OSError, AssertionError):
            return look() or None
        return None

    until(tried, 40, what)


async def begin_endless_turn(gateway: Gateway) -> str:
    """A turn that streams for ever; its task, once the text comes."""
    async with connected(gateway) as client:
        session_id = await client.open_session("s")
        sent = await client.request("message.send", session_id=session_id, content="go on")
        task_id = str(sent["payload"]["task_id"])
        await client.request("feed.subscribe", from_position=0, task_id=task_id)
        await client.until("reply.delta")
        return task_id


def test_a_late_gateway_writes_nothing_and_goes_on_as_an_attached_one(
    home: GatewayHome, fake_openai: FakeOpenAI
) -> None:
    home.use_provider(fake_openai.url, "endless")
    with start_gateway(home) as late:
        task_id = asyncio.run(begin_endless_turn(late))
        (old_worker,) = [e["payload"]["pid"] for e in get(late, "/events?type=worker.started")["items"]]
        os.kill(late.process.pid, signal.SIGSTOP)
        try:
            (home.home / "run" / "owner.lock").unlink()
            with start_gateway(home) as owner:
                assert not is_alive(old_worker), "recovery judged what a living worker may still be doing"
                when(
                    lambda: get(owner, f"/events?type=task.started&task_id={task_id}")["items"][1:], "the second start"
                )
                os.kill(late.process.pid, signal.SIGCONT)

                when(lambda: get(late, "/health")["role"] == "attached", "the late gateway's attachment")

                assert get(late, "/health")["pid"] == owner.process.pid
                ask(owner, "POST", f"/ozzie/api/tasks/{task_id}/cancel", token=owner.token, body="{}")
                when(lambda: get(owner, f"/tasks/{task_id}")["status"] == "CANCELLED", "the end of the turn")
                told = get(owner, f"/events?task_id={task_id}&limit=200")["items"]
                by_attempt = [event["type"] for event in told if event["type"].startswith(("task.", "model."))]
                assert by_attempt == [
                    "task.created",
                    "task.queued",
                    "task.started",
                    "model.call.started",
                    "model.call.failed",
                    "task.queued",
                    "task.started",
                    "model.call.started",
                    "task.stopping",
                    "model.call.failed",
                    "task.cancelled",
                ]
                (lost,) = [e["payload"] for e in get(owner, "/events?type=worker.lost")["items"]]
                assert (lost["pid"], "killed" in lost["reason"]) == (old_worker, True)
        finally:
            os.kill(late.process.pid, signal.SIGCONT)
        said = "\n".join(json.loads(line)["message"] for line in _lines(home))
        assert "Another gateway has taken over Ozzie's folder" in said
        assert "waiting for 1 processes of a gateway that is gone" in said


def _lines(home: GatewayHome) -> list[str]:
    return (home.home / "logs" / "app" / "gateway.jsonl").read_text().splitlines()
