"""A gateway that does not answer, or never for long."""

import asyncio
import signal
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest

from ozzie_kernel.client import GatewayLost, GatewaySilent
from ozzie_kernel.connect import Link, connect
from ozzie_kernel.turn import MAX_LOST_IN_VAIN, STOP_WAIT_S, CellTurn
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.turn import TurnView
from tests.fakes.openai_server import FakeOpenAI
from tests.rig import Gateway, GatewayHome, start_gateway
from tests.ws_client import connected

KERNEL_ID = "5f0c2f4e-0000-4000-8000-000000000001"


class Screen:
    """Keeps the turns that it was told to end with."""

    def __init__(self) -> None:
        self.finished: list[TurnView] = []

    def show(self, view: TurnView, now: datetime) -> None: ...

    def finish(self, view: TurnView) -> None:
        self.finished.append(view)

    def problem(self, data: dict[str, str]) -> None: ...


async def test_a_message_that_is_taken_in_after_the_interrupt_is_stopped(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(gateway.home.runtime))
    link = await connect(KERNEL_ID, "silent.ipynb", gateway.home.env)

    async def reconnect() -> Link:
        raise AssertionError("the connection stands")

    screen = Screen()
    async with connected(gateway) as watcher:
        await watcher.request("feed.subscribe", session_id=link.session_id)
        gateway.process.send_signal(signal.SIGSTOP)
        try:
            turn = asyncio.ensure_future(CellTurn(link, reconnect, screen).run("Tell me what you are.", ""))
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
    link = await connect(KERNEL_ID, "lost answer.ipynb", gateway.home.env)
    requested = link.client.request

    async def lose_the_answer(method: str, params: Mapping[str, Any], **how: Any) -> JsonObject:
        await requested(method, params, **how)
        await link.client.close()
        raise GatewayLost

    again: list[Link] = []

    async def reconnect() -> Link:
        again.append(await connect(KERNEL_ID, "lost answer.ipynb", gateway.home.env))
        return again[-1]

    monkeypatch.setattr(link.client, "request", lose_the_answer)
    view = await CellTurn(link, reconnect, Screen()).run("What is 6 * 7?", "")
    async with connected(gateway) as client:
        session = (await client.request("session.open", session_id=link.session_id))["payload"]
    await again[0].client.close()

    assert view.status == "Done"
    assert len(again) == 1
    assert session["message_count"] == 2, "a question and its answer, once"


async def test_a_turn_whose_connections_all_end_at_once_is_given_up(
    home: GatewayHome, fake_openai: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.use_provider(fake_openai.url, "endless")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(home.runtime))
    with start_gateway(home):
        link = await connect(KERNEL_ID, "lost.ipynb", home.env)
        lost: list[Link] = []

        async def reconnect() -> Link:
            lost.append(link)
            return link

        class Cutting(Screen):
            def show(self, view: TurnView, now: datetime) -> None:
                if view.parts and not closing:
                    closing.append(asyncio.ensure_future(link.client.close()))

        closing: list[asyncio.Future[None]] = []
        async with asyncio.timeout(30):
            with pytest.raises(GatewayLost, match="ended"):
                await CellTurn(link, reconnect, Cutting()).run("go on for ever", "")
            await asyncio.gather(*closing)

    assert 1 <= len(lost) <= MAX_LOST_IN_VAIN + 1
