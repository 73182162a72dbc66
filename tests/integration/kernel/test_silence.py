"""A gateway that does not answer, or never for long."""

import asyncio
import signal
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest

from ozzie_kernel.cellturn import MAX_LOST, STOP_WAIT_S, CellTurn
from ozzie_kernel.client import GatewayLost, GatewaySilent
from ozzie_kernel.connect import Link, SessionChoice, connect
from ozzie_kernel.gateway import GatewayConnection
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.graph.view import GraphView
from ozzie_server_ext.render.turnview import TurnView
from tests.fakes.openai_server import FakeOpenAI
from tests.integration.gateway.walk import ask
from tests.rig import Gateway, GatewayHome, start_gateway
from tests.ws_client import connected

KERNEL_ID = "5f0c2f4e-0000-4000-8000-000000000001"


class Screen:
    """Keeps the turns that it was told to end with."""

    def __init__(self) -> None:
        self.finished: list[TurnView] = []

    def show(self, view: TurnView, now: datetime) -> None: ...

    def stop(self) -> None: ...

    def finish(self, view: TurnView, graph: GraphView | None = None) -> None:
        self.finished.append(view)

    def graph(self, view: GraphView, now: datetime, *, is_final: bool) -> None: ...

    def problem(self, data: dict[str, str]) -> None: ...


async def test_a_message_that_is_taken_in_after_the_interrupt_is_stopped(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(gateway.home.runtime))
    made: list[Link] = []

    async def connect_once(choice: SessionChoice) -> Link:
        assert not made, "the connection stands"
        made.append(await connect(KERNEL_ID, "silent.ipynb", gateway.home.env, choice=choice))
        return made[0]

    own, screen = GatewayConnection(connect_once), Screen()
    link = await own.link()
    async with connected(gateway) as watcher:
        await watcher.request("feed.subscribe", session_id=link.session_id)
        gateway.process.send_signal(signal.SIGSTOP)
        try:
            turn = asyncio.ensure_future(CellTurn(link, own, screen).run("Tell me what you are.", ""))
            await asyncio.sleep(0)  # it begins
            turn.cancel()
            async with asyncio.timeout(STOP_WAIT_S + 10):
                with pytest.raises(GatewaySilent, match="The gateway does not answer"):
                    await turn
        finally:
            gateway.process.send_signal(signal.SIGCONT)
        ended = await watcher.until("task.succeeded", "task.cancelled")
    await link.client.close()

    assert ended["canonical"] == "task.cancelled"
    assert screen.finished == []


async def test_a_message_whose_answer_was_lost_is_sent_again_and_is_one_turn(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(gateway.home.runtime))
    made: list[Link] = []

    async def connect_anew(choice: SessionChoice) -> Link:
        made.append(await connect(KERNEL_ID, "lost answer.ipynb", gateway.home.env, choice=choice))
        return made[-1]

    own = GatewayConnection(connect_anew)
    link = await own.link()
    requested = link.client.request

    async def lose_the_answer(method: str, params: Mapping[str, Any], **how: Any) -> JsonObject:
        await requested(method, params, **how)
        await link.client.close()
        raise GatewayLost

    monkeypatch.setattr(link.client, "request", lose_the_answer)
    view = await CellTurn(link, own, Screen()).run("What is 6 * 7?", "")
    async with connected(gateway) as client:
        session = (await client.request("session.open", session_id=link.session_id))["payload"]
    await made[-1].client.close()

    assert view.status == "Done"
    assert len(made) == 2
    assert session["message_count"] == 2, "a question and its answer, once"


@pytest.mark.parametrize("interrupted", [True, False])
async def test_a_message_that_may_have_been_taken_is_told_so_and_stopped_where_it_was_to_be(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, interrupted: bool
) -> None:
    """The answer to the message is lost, and no gateway is to be had for a while."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(gateway.home.runtime))
    made: list[Link] = []
    asked: list[Mapping[str, Any]] = []
    found = asyncio.Event()

    async def connect_once(choice: SessionChoice) -> Link:
        if made:
            raise Unavailable("The folder can't be used.", hint="Mend it.", code="home.unusable")
        made.append(await connect(KERNEL_ID, "unsure.ipynb", gateway.home.env, choice=choice))
        return made[-1]

    async def ask_another(method: str, params: Mapping[str, Any]) -> JsonObject:
        asked.append({"method": method, **params})
        found.set()
        return {}

    own = GatewayConnection(connect_once, ask_another)
    link = await own.link()
    requested = link.client.request

    async def lose_the_answer(method: str, params: Mapping[str, Any], **how: Any) -> JsonObject:
        await requested(method, params, **how)
        if interrupted:
            turn.cancel()
            await asyncio.sleep(0)
        await link.client.close()
        raise GatewayLost

    monkeypatch.setattr(link.client, "request", lose_the_answer)
    turn = asyncio.ensure_future(CellTurn(link, own, Screen()).run("Say something.", ""))
    with pytest.raises(Unavailable, match="The folder can't be used") as caught:
        await turn

    if interrupted:
        await asyncio.wait_for(found.wait(), 30)
        (task,) = await tasks_of(gateway)
        assert asked == [{"method": "task.cancel", "task_id": task["task_id"]}]
        assert caught.value.hint.startswith("Mend it. If your message arrived, its turn is stopped as soon as")
    else:
        assert caught.value.hint.startswith("Mend it. Your message may or may not have arrived.")
        assert asked == []


async def tasks_of(gateway: Gateway) -> list[dict[str, Any]]:
    _, found = await asyncio.to_thread(ask, gateway, "GET", "/ozzie/api/tasks", token=gateway.token)
    return found["items"]


async def test_a_turn_whose_connections_all_end_at_once_is_given_up(
    home: GatewayHome, fake_openai: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.use_provider(fake_openai.url, "endless")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(home.runtime))
    with start_gateway(home):
        link = await connect(KERNEL_ID, "lost.ipynb", home.env)
        given: list[Link] = []

        async def give_again(choice: SessionChoice) -> Link:
            given.append(link)
            return link

        own = GatewayConnection(give_again)
        await own.link()

        class Cutting(Screen):
            def show(self, view: TurnView, now: datetime) -> None:
                if view.parts and not closing:
                    closing.append(asyncio.ensure_future(link.client.close()))

        closing: list[asyncio.Future[None]] = []
        async with asyncio.timeout(30):
            with pytest.raises(GatewayLost, match="ended"):
                await CellTurn(link, own, Cutting()).run("go on for ever", "")
            await asyncio.gather(*closing)

    assert 2 <= len(given) <= MAX_LOST + 2
