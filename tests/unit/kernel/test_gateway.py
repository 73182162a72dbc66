"""The kernel's one link, which ends when it likes: who asks over it gets an answer all the same."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application
from tornado.websocket import WebSocketHandler

from ozzie_kernel import gateway as module
from ozzie_kernel.client import GatewayClient, GatewayLost, Refused
from ozzie_kernel.connect import Link, SessionChoice
from ozzie_kernel.gateway import MAX_PENDING, GatewayConnection
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.handshake import VERSION, Handshake


@dataclass
class Answering:
    """A server that answers each question, ends the connection under those that it is told to, or refuses."""

    url: str = ""
    cut: int = 0
    refuse: bool = False
    asked: list[str] = field(default_factory=list)
    about: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_for(self, count: int) -> None:
        """Until so many requests have come."""
        async with asyncio.timeout(20):
            while len(self.asked) < count:
                self.changed.clear()
                await self.changed.wait()


class _Socket(WebSocketHandler):
    def initialize(self, answering: Answering) -> None:
        self.answering = answering

    def open(self) -> None:
        self.answering.tokens.append(self.request.headers["Authorization"])

    async def on_message(self, message: str | bytes) -> None:
        asked = json.loads(message)
        self.answering.asked.append(asked["method"])
        self.answering.about.append(asked["params"])
        self.answering.changed.set()
        if self.answering.cut:
            self.answering.cut -= 1
            self.ws_connection.stream.close()  # type: ignore[union-attr]
            return
        answer = {"type": "res", "id": asked["id"], "ok": not self.answering.refuse}
        if self.answering.refuse:
            answer["error"] = {"code": "not_found", "message": "There is none.", "hint": ""}
        else:
            answer["payload"] = {"number": len(self.answering.asked)}
        await self.write_message(json.dumps(answer))


@pytest.fixture
async def answering() -> AsyncIterator[Answering]:
    answering = Answering()
    server = HTTPServer(Application([("/ozzie/api/ws", _Socket, {"answering": answering})]))
    end, port = bind_unused_port()
    server.add_socket(end)
    answering.url = f"http://127.0.0.1:{port}/"
    yield answering
    server.stop()
    await server.close_all_connections()


@asynccontextmanager
async def gateway_at(*urls: str) -> AsyncIterator[tuple[GatewayConnection, list[Link]]]:
    """A gateway whose links lead to these addresses, one after the other, and the links that were made."""
    made: list[Link] = []

    async def connect(choice: SessionChoice) -> Link:
        url = urls[min(len(made), len(urls) - 1)]
        client = await GatewayClient.connect(url, "the kernel's")
        handshake = Handshake(v=VERSION, url=url, token="the user's", pid=1, home="/", started=0)
        made.append(Link(client, "sess_1", handshake))
        return made[-1]

    yield GatewayConnection(connect), made
    for link in made:
        await link.client.close()


async def test_what_is_lost_is_known_to_be_over_by_whoever_is_told_so(answering: Answering) -> None:
    async with gateway_at(answering.url) as (gateway, _):
        link = await gateway.link()
        connection = link.client._connection
        connection.protocol.stream.close()  # type: ignore[union-attr]

        with pytest.raises(GatewayLost):  # nothing is awaited in between: the reader has not seen the end
            await link.client.request("session.open", {})

        assert link.client.closed
        assert await gateway.link() is not link


@pytest.mark.parametrize("as_user", [False, True])
async def test_a_question_is_asked_again_where_the_connection_ends_under_it(
    answering: Answering, as_user: bool
) -> None:
    answering.cut = 1
    async with gateway_at(answering.url) as (gateway, made):
        assert await gateway.ask("session.list", {"limit": 1}, as_user=as_user) == {"number": 2}

    assert answering.asked == ["session.list", "session.list"]
    assert len(made) == 2


async def test_a_question_as_the_user_finds_out_that_the_gateway_has_gone(answering: Answering) -> None:
    gone, port = bind_unused_port()
    gone.close()
    async with gateway_at(answering.url) as (gateway, made):
        link = await gateway.link()
        # As it is between the death of a gateway and the moment in which its connections are seen to end.
        object.__setattr__(link, "handshake", replace(link.handshake, url=f"http://127.0.0.1:{port}/"))

        assert await gateway.ask("session.list", as_user=True) == {"number": 1}

        assert link.client.closed
        assert len(made) == 2


async def test_a_question_that_is_lost_twice_is_given_up(answering: Answering) -> None:
    answering.cut = 2
    async with gateway_at(answering.url) as (gateway, _):
        with pytest.raises(GatewayLost):
            await gateway.ask("session.open")

    assert len(answering.asked) == 2


async def test_a_refusal_is_an_answer(answering: Answering) -> None:
    answering.refuse = True
    async with gateway_at(answering.url) as (gateway, made):
        with pytest.raises(Refused, match="There is none"):
            await gateway.ask("session.find", {"text": "x"})

    assert (answering.asked, len(made)) == (["session.find"], 1)


async def test_a_gateway_that_can_not_be_had_is_told() -> None:
    async def connect(choice: SessionChoice) -> Link:
        raise Unavailable("There is none.", code="gateway.unreachable")

    with pytest.raises(Unavailable, match="There is none"):
        await GatewayConnection(connect).ask("session.open")


async def test_nothing_is_connected_to_ask_in_passing(answering: Answering) -> None:
    async with gateway_at(answering.url) as (gateway, made):
        assert await gateway.ask_in_passing("complete", {"text": "%mo"}) == {}
        assert made == []
        link = await gateway.link()
        assert await gateway.ask_in_passing("complete", {"text": "%mo"}) == {"number": 1}
        await link.client.close()
        assert await gateway.ask_in_passing("complete", {"text": "%mo"}) == {}
        assert len(made) == 1


# --- what a gateway is owed ---------------------------------------------------------------------------


async def nobody_runs(method: str, params: Mapping[str, Any]) -> JsonObject:
    raise Unavailable("There is none.", code="gateway.unreachable")


@dataclass
class Absent:
    """A gateway that can't be had while it is `away`; `asked` is set when somebody has tried."""

    answering: Answering
    away: bool = True
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    links: list[Link] = field(default_factory=list)
    session_id: str = "sess_1"

    async def connect(self, choice: SessionChoice) -> Link:
        self.asked.set()
        if self.away:
            raise Unavailable("There is none.", code="gateway.unreachable")
        client = await GatewayClient.connect(self.answering.url, "the kernel's")
        handshake = Handshake(v=VERSION, url=self.answering.url, token="the user's", pid=1, home="/", started=0)
        self.links.append(Link(client, self.session_id, handshake))
        return self.links[-1]

    async def ask_running(self, method: str, params: Mapping[str, Any]) -> JsonObject:
        return await _asked_of(await self.connect(SessionChoice()), method, params)


async def _asked_of(link: Link, method: str, params: Mapping[str, Any]) -> JsonObject:
    return await link.client.request(method, params)


@pytest.fixture
async def absent(answering: Answering) -> AsyncIterator[Absent]:
    absent = Absent(answering)
    yield absent
    for link in absent.links:
        await link.client.close()


@pytest.mark.parametrize("cut", [0, 1])
async def test_a_delivery_starts_at_once_and_again_after_a_lost_connection(answering: Answering, cut: int) -> None:
    answering.cut = cut
    async with gateway_at(answering.url) as (gateway, _):
        await gateway.link()
        gateway.deliver("task.cancel", {"task_id": "t"})
        await answering.wait_for(1 + cut)

    assert answering.about == [{"task_id": "t"}] * (1 + cut)


async def test_a_delivery_goes_over_the_next_link_before_anything_else(absent: Absent, answering: Answering) -> None:
    gateway = GatewayConnection(absent.connect, nobody_runs)
    gateway.deliver("task.cancel", {"task_id": "first"})
    gateway.deliver("task.cancel", {"task_id": "second"})
    await asyncio.wait_for(absent.asked.wait(), 20)
    absent.away = False

    await gateway.ask("session.open")

    assert answering.asked == ["task.cancel", "task.cancel", "session.open"]
    assert [about.get("task_id") for about in answering.about] == ["first", "second", None]
    await gateway.ask("session.open")
    assert answering.asked[3:] == ["session.open"], "it is owed no more"


async def test_a_delivery_goes_to_a_gateway_that_somebody_else_has_started(
    absent: Absent, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(module, "LAST_PAUSE_S", 0.01)

    async def can_not_be_started(choice: SessionChoice) -> Link:
        raise Unavailable("The folder can't be used.", code="home.unusable")

    gateway = GatewayConnection(can_not_be_started, absent.ask_running)
    gateway.deliver("task.cancel", {"task_id": "t"})
    await asyncio.wait_for(absent.asked.wait(), 20)
    absent.away = False

    await answering.wait_for(1)

    assert answering.about == [{"task_id": "t"}]


async def test_a_refused_delivery_is_complete(absent: Absent, answering: Answering) -> None:
    answering.refuse, absent.away = True, False
    gateway = GatewayConnection(absent.connect, nobody_runs)
    gateway.deliver("task.cancel", {"task_id": "t"})
    await answering.wait_for(1)
    answering.refuse = False

    await gateway.ask("session.open")

    assert answering.asked == ["task.cancel", "session.open"]


async def test_a_delivery_about_another_session_goes_as_the_user(absent: Absent, answering: Answering) -> None:
    absent.away = False
    gateway = GatewayConnection(absent.connect, nobody_runs)
    link = await gateway.link()
    absent.away, absent.session_id = True, "sess_2"
    await link.client.close()
    gateway.deliver("task.cancel", {"task_id": "t"})
    absent.asked.clear()
    await asyncio.wait_for(absent.asked.wait(), 20)
    absent.away = False

    await gateway.link()

    assert answering.asked == ["task.cancel"]
    assert answering.tokens[-1] == "token the user's"


async def test_the_oldest_of_too_many_is_forgotten(absent: Absent, answering: Answering) -> None:
    gateway = GatewayConnection(absent.connect, nobody_runs)
    for number in range(MAX_PENDING + 1):
        gateway.deliver("task.cancel", {"task_id": str(number)})
    await asyncio.wait_for(absent.asked.wait(), 20)
    absent.away = False

    await gateway.link()

    assert [about["task_id"] for about in answering.about] == [str(number) for number in range(1, MAX_PENDING + 1)]
