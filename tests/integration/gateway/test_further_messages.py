"""What a message to a busy session becomes, by the way in that it takes (ADR 54)."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pexpect
import pytest

from ozzie_server_ext.gateway.routes import PREFIX
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, ToolCall
from tests.integration.gateway.test_rest import get, post
from tests.integration.gateway.walk import KERNEL_ID, ask
from tests.rig import START_S, Gateway
from tests.ws_client import WsClient, connected

QUESTION = "Ask me whether I want tea or coffee."
SHORT = "And be short."


class Provider:
    """A model whose first answer is held until `go`. It calls a tool, so that the turn has a second request."""

    def __init__(self, fake: FakeOpenAI) -> None:
        self.go = threading.Event()
        self._fake = fake
        fake.queue(Answer(tool_calls=[ToolCall("calculator", {"expr": "1+1"})], held=self.go), Answer(pieces=["Done."]))

    async def begin(self, client: WsClient, session_id: str) -> str:
        """Start a turn and wait until its model works; return its task."""
        await client.request("model.choose", session_id=session_id, model="openai/m", base_url=f"{self._fake.url}/v1")
        await client.request("feed.subscribe", session_id=session_id)
        begun = (await client.request("message.send", session_id=session_id, content="Add it up."))["payload"]
        # The first one also waits for the start of the process that calls models.
        await asyncio.to_thread(self._fake.wait_for, lambda fake: bool(fake.requests), seconds=START_S)
        return str(begun["task_id"])

    @property
    def messages(self) -> list[str]:
        """The user's messages of the turn's second request."""
        second = self._fake.requests[1].body["messages"]
        return [message["content"] for message in second if message["role"] == "user"]


@pytest.fixture
def provider(fake_openai: FakeOpenAI) -> Iterator[Provider]:
    found = Provider(fake_openai)
    yield found
    found.go.set()


async def updates(gateway: Gateway, task_id: str) -> list[str]:
    found = await asyncio.to_thread(get, gateway, f"events?task_id={task_id}&type=task.updated")
    return [event["payload"]["text"] for event in found["items"]]


async def send(gateway: Gateway, session_id: str, content: str, status: int = 202, **more: Any) -> dict[str, Any]:
    """Send a message over REST."""
    return await asyncio.to_thread(post, gateway, "message", status, session_id=session_id, content=content, **more)


@contextmanager
def ozzie_ask(gateway: Gateway, session: str, text: str) -> "Iterator[pexpect.spawn[str]]":
    """`ozzie ask` on a terminal, where a person is there to answer."""
    terminal: pexpect.spawn[str] = pexpect.spawn(
        sys.executable,
        ["-m", "ozzie_server_ext.cli.main", "ask", "--session", session, text],
        env=dict(gateway.home.env),
        cwd=str(gateway.home.project),
        encoding="utf-8",
        timeout=START_S,
    )
    try:
        yield terminal
    finally:
        terminal.close(force=True)


async def test_over_the_websocket_it_is_an_update_unless_the_sender_awaits_an_answer(
    shared_gateway: Gateway, provider: Provider
) -> None:
    async with connected(shared_gateway) as client:
        session_id = await client.open_session("updated over the WebSocket")
        running = await provider.begin(client, session_id)
        update = (await client.request("message.send", session_id=session_id, content=SHORT))["payload"]
        own = {"session_id": session_id, "content": "And this.", "awaits_answer": True}
        awaited = (await client.request("message.send", **own))["payload"]
        provider.go.set()
        await client.until("task.succeeded", task_id=awaited["task_id"])

    assert (update["became"], update["task_id"]) == ("update", running)
    assert (awaited["became"], awaited["ahead"]) == ("task", 1)
    assert await updates(shared_gateway, running) == [SHORT]
    assert provider.messages[-1].endswith(SHORT)


async def test_over_rest_it_is_an_update_unless_the_sender_waits(shared_gateway: Gateway, provider: Provider) -> None:
    async with connected(shared_gateway) as client:
        session_id = await client.open_session("updated over REST")
        running = await provider.begin(client, session_id)
        update = await send(shared_gateway, session_id, SHORT)
        await client.until("task.updated", task_id=running)
        client.events.clear()
        waiting = asyncio.ensure_future(send(shared_gateway, session_id, "And this.", 200, wait=True))
        await client.until("task.created", "task.updated")
        provider.go.set()
        waited = await waiting

    assert (update["became"], update["task_id"]) == ("update", running)
    assert waited["task_id"] != running
    assert (waited["status"], waited["content"]) == ("SUCCEEDED", "And this.")
    assert await updates(shared_gateway, running) == [SHORT]
    assert provider.messages[-1].endswith(SHORT)


async def test_a_kernels_message_is_never_an_update(shared_gateway: Gateway, provider: Provider) -> None:
    path = f"{PREFIX}/kernels/{KERNEL_ID[:-1]}8/token"
    _, granted = await asyncio.to_thread(ask, shared_gateway, "POST", path, token=shared_gateway.token)
    async with connected(shared_gateway, granted["token"]) as kernel:
        session_id = granted["session_id"]
        running = await provider.begin(kernel, session_id)
        sent = (await kernel.request("message.send", session_id=session_id, content=SHORT))["payload"]
        provider.go.set()
        await kernel.until("task.succeeded", task_id=sent["task_id"])

    assert (sent["became"], sent["ahead"]) == ("task", 1)
    assert await updates(shared_gateway, running) == []


async def test_a_question_from_a_terminal_is_never_an_update(shared_gateway: Gateway, provider: Provider) -> None:
    async with connected(shared_gateway) as client:
        session_id = await client.open_session("cli:busy")
        running = await provider.begin(client, session_id)
        client.events.clear()
        with ozzie_ask(shared_gateway, "busy", "And this.") as terminal:
            await client.until("task.created", "task.updated")
            provider.go.set()
            shown = await asyncio.to_thread(terminal.read)

    assert "And this." in shown
    assert "[done]" in shown
    assert await updates(shared_gateway, running) == []


async def test_a_terminal_that_answers_a_question_shows_what_follows(shared_gateway: Gateway) -> None:
    """The view begins in the middle of the turn, behind the request of its call."""
    async with connected(shared_gateway) as client:
        session_id = await client.open_session("cli:drinks")
        await client.request("feed.subscribe", session_id=session_id)
        waiting = (await client.request("message.send", session_id=session_id, content=QUESTION))["payload"]
        await client.until("task.waiting_input", task_id=waiting["task_id"])
        with ozzie_ask(shared_gateway, "drinks", "Tea") as terminal:
            shown = await asyncio.to_thread(terminal.read)

    assert "Your answer is `Tea`." in shown
    rows = [line.split() for line in shown.splitlines() if line.startswith("  ")]
    assert not any(row[0] == "tool" for row in rows), "a call stands there without its name"


@pytest.mark.parametrize("way", ["the WebSocket", "REST", "REST with wait", "a kernel"])
async def test_it_answers_the_question_of_its_session_over_every_way_in(shared_gateway: Gateway, way: str) -> None:
    path = f"{PREFIX}/kernels/{KERNEL_ID[:-1]}9/token"
    body = f'{{"session_name": "question over {way}"}}'
    _, granted = await asyncio.to_thread(ask, shared_gateway, "POST", path, token=shared_gateway.token, body=body)
    session_id = granted["session_id"]
    async with connected(shared_gateway, granted["token"] if way == "a kernel" else None) as client:
        await client.request("feed.subscribe", session_id=session_id)
        asking = (await client.request("message.send", session_id=session_id, content=QUESTION))["payload"]
        await client.until("task.waiting_input", task_id=asking["task_id"])
        if way.startswith("REST"):
            wait = way == "REST with wait"
            sent = await send(shared_gateway, session_id, "Tea", 200 if wait else 202, wait=wait)
        else:
            sent = (await client.request("message.send", session_id=session_id, content="Tea"))["payload"]
        answered = await client.until("prompt.answered", task_id=asking["task_id"])
        await client.until("task.succeeded", task_id=asking["task_id"])

    assert sent["task_id"] == asking["task_id"]
    assert sent.get("became", "answer") == "answer"
    assert sent.get("status", "SUCCEEDED") == "SUCCEEDED"
    assert answered["payload"]["text"] == "Tea"
