"""Many conversations at once in one gateway: none hears of another, and none costs anything once it has ended."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from tests.fakes.openai_wire import OpenAIWire
from tests.fakes.provider_server import FakeProvider
from tests.fakes.replies import Answer, Asked, pieces_of
from tests.integration.gateway.walk import ask
from tests.rig import Gateway, GatewayHome, start_gateway
from tests.ws_client import WsClient, connected

AT_ONCE = 16
MORE_FILES = 12
"""Descriptors that may be open after all connections have ended and were not before: readers, the provider's side."""
MORE_BYTES = {"gateway": 48 << 20, "worker": 64 << 20}
A_TURN_BYTES = 20_000
"""What caches and tables of the process may take for each turn beside that: all are bounded."""


@dataclass(frozen=True)
class Size:
    resident: int
    files: int

    def __str__(self) -> str:
        return f"{self.resident / (1 << 20):.1f} MiB, {self.files} descriptors"


def size_of(pid: int) -> Size:
    process = psutil.Process(pid)
    return Size(process.memory_info().rss, process.num_fds())


def question(session: int, turn: int) -> str:
    return f"s{session:03d} asks t{turn:02d}"


def answer(text: str) -> str:
    return f"This answers [{text}] and nothing else."


def echo(asked: Asked) -> Answer:
    return Answer(pieces=pieces_of(answer(asked.text)))


async def converse(gateway: Gateway, session: int, turns: int) -> None:
    """One conversation on a connection of its own; each reply is checked against its question."""
    async with connected(gateway) as client:
        session_id = await client.open_session(f"s{session:03d}")
        for turn in range(turns):
            end = await client.ask(session_id, question(session, turn))
            assert end["canonical"] == "task.succeeded", end
            said = [e["payload"]["text"] for e in _of(client, end["task_id"]) if e["canonical"] == "message.completed"]
            assert said == [answer(question(session, turn))]
        assert {event["session_id"] for event in client.events} == {session_id}


def _of(client: WsClient, task_id: str) -> list[dict[str, Any]]:
    return [event for event in client.events if event["task_id"] == task_id]


async def converse_all(gateway: Gateway, sessions: range, turns: int) -> None:
    """All conversations, `AT_ONCE` of them at a time."""
    waiting = iter(sessions)

    async def client() -> None:
        for session in waiting:
            await converse(gateway, session, turns)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(client())


def kept_apart(provider: FakeProvider) -> int:
    """How many requests the provider was shown, in each of them one session's conversation, whole and in its order."""
    asked = 0
    for request in provider.requests:
        told = [m for m in request.body["messages"] if m["role"] != "system"]
        number = int(str(told[0]["content"])[1:4])
        expected: list[str] = []
        for turn in range((len(told) + 1) // 2):
            expected += [question(number, turn), answer(question(number, turn))]
        assert [str(m["content"]) for m in told] == expected[: len(told)]
        asked += 1
    return asked


def run(home: GatewayHome, sessions: int, turns: int, say: Callable[[str], None]) -> int:
    """Hold so many conversations, and look at each of them and at the gateway's size; the number of requests."""
    with FakeProvider(OpenAIWire(), behave=echo) as provider:
        home.use_provider(provider.url, "echo")
        with start_gateway(home) as gateway:
            asyncio.run(converse_all(gateway, range(sessions, sessions + AT_ONCE), 2))  # all that is made once
            provider.forget()
            # The first one stays, however many more they want for a while.
            worker = ask(gateway, "GET", "/ozzie/api/health", token=gateway.token)[1]["workers"][0]
            pids = {"gateway": gateway.process.pid, "worker": int(worker["pid"])}
            before = {name: size_of(pid) for name, pid in pids.items()}
            asyncio.run(converse_all(gateway, range(sessions), turns))
            after = {name: size_of(pid) for name, pid in pids.items()}
            for name, was in before.items():
                say(f"{sessions} sessions x {turns} turns, {AT_ONCE} at once: {name} {was} before, {after[name]} after")
            for name, was in before.items():
                assert after[name].files <= was.files + MORE_FILES
                assert after[name].resident <= was.resident + MORE_BYTES[name] + A_TURN_BYTES * sessions * turns
            status, found = ask(gateway, "GET", "/ozzie/api/health", token=gateway.token)
            assert status == 200, found
        return kept_apart(provider)


@pytest.mark.timeout(180)
def test_conversations_side_by_side_stay_apart(home: GatewayHome, say: Callable[[str], None]) -> None:
    assert run(home, 8, 3, say) == 8 * 3


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_hundred_conversations_of_twenty_turns(home: GatewayHome, say: Callable[[str], None]) -> None:
    assert run(home, 100, 20, say) == 100 * 20
