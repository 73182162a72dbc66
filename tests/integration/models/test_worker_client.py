"""The driver against a worker without a model: what it makes of a child's ways to fail, and of one that is not ours."""

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.models import worker_client
from ozzie_server_ext.models.driver import (
    ChatMessage,
    ModelChoice,
    ModelError,
    ModelEvent,
    ModelRequest,
    ProviderAccess,
    TextDelta,
)
from ozzie_server_ext.models.worker_client import WorkerDriver
from ozzie_server_ext.planes.channel import Channel, Inbox
from ozzie_server_ext.planes.identity import ProcessMark
from ozzie_server_ext.planes.pool import Pool
from ozzie_server_ext.planes.supervisor import Pace, Supervisor

WAIT_S = 20
CHILD = (sys.executable, "-m", "tests.fakes.plane_child", "--behaviour")

Make = Callable[[str], tuple[WorkerDriver, list[int]]]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    pools: list[Pool] = []

    def build(behaviour: str) -> tuple[WorkerDriver, list[int]]:
        started: list[int] = []

        async def note(mark: ProcessMark) -> None:
            started.append(mark.pid)

        def worker(_: int) -> Supervisor:
            return Supervisor(
                "model worker",
                (*CHILD, behaviour),
                log_file=tmp_path / "log",
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                on_started=note,
                pace=Pace(pauses_s=(0.01,), circuit_deaths=3),
            )

        pools.append(Pool(worker, limit=lambda: 2))
        return WorkerDriver(pools[-1], lambda choice: ProviderAccess(driver=choice.driver)), started

    yield build
    for pool in pools:
        await pool.stop()


def request(behaviour: str, prompt: str = "") -> ModelRequest:
    """The child reads what to do from the session, which is the call's id."""
    choice = ModelChoice(alias="main", provider="p", driver="openai", model="m")
    message = ChatMessage(role="user", content=prompt)
    return ModelRequest(call_id=CallId(behaviour), choice=choice, messages=(message,))


async def read(driver: WorkerDriver, asked: ModelRequest, into: list[ModelEvent]) -> None:
    async with asyncio.timeout(WAIT_S):
        async for event in driver.generate(asked):
            into.append(event)


async def test_a_worker_that_knows_only_the_specification_is_understood(make: Make) -> None:
    driver, _ = make("serve")
    events: list[ModelEvent] = []
    await read(driver, request("echo", "hello"), events)
    assert events[:2] == [TextDelta("hello"), TextDelta("!")]


async def test_an_answer_larger_than_the_inbox_comes_whole_to_a_slow_reader(make: Make) -> None:
    driver, _ = make("serve")
    size = 0
    async for event in driver.generate(request("flood", "100")):
        if isinstance(event, TextDelta):
            size += len(event.text)
            await asyncio.sleep(0)
    assert size == 100 * 50_000


async def test_a_worker_that_dies_in_mid_answer_is_not_asked_again(make: Make) -> None:
    driver, started = make("serve")
    events: list[ModelEvent] = []
    with pytest.raises(ModelError) as caught:
        await read(driver, request("die"), events)
    assert (caught.value.code, caught.value.streamed, events) == ("worker.lost", True, [TextDelta("last words")])
    assert len(started) == 1


async def test_a_call_is_sent_once_also_where_its_worker_dies_before_any_text(make: Make) -> None:
    driver, started = make("serve")
    with pytest.raises(ModelError) as caught:
        await read(driver, request("long line"), [])
    assert (caught.value.code, caught.value.streamed) == ("worker.lost", False)
    assert len(started) == 1


async def test_a_worker_that_can_not_start_is_unavailable_and_says_where_to_look(make: Make) -> None:
    driver, _ = make("dead")
    for _ in range(2):
        with pytest.raises(ModelError) as caught:
            await read(driver, request("echo"), [])
        assert caught.value.code == "worker.unavailable"
        assert "log" in caught.value.hint


async def test_what_can_not_go_over_the_wire_fails_the_call_and_not_the_worker(make: Make) -> None:
    driver, started = make("serve")
    with pytest.raises(ModelError) as caught:
        await read(driver, request("echo", "x" * (33 << 20)), [])
    assert caught.value.code == "provider.context_length"
    await read(driver, request("echo", "hello"), [])
    assert len(started) == 1


async def test_the_worker_is_told_of_the_providers_that_were_asked_last_and_of_no_more(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_client, "MAX_PROVIDERS", 2)
    driver, _ = make("serve")
    for provider in ("a", "b", "a", "c", "c"):
        asked = request("echo", "hello")
        await read(driver, replace(asked, choice=replace(asked.choice, provider=provider)), [])

    told = await told_of(await driver._pool.channel())
    assert told == [["a"], ["a", "b"], ["a", "c"]], "Told when something changed, and the oldest forgotten."


async def test_each_worker_is_told_of_what_its_own_calls_need_and_all_of_them_forget(make: Make) -> None:
    driver, started = make("serve")

    async def ask(provider: str) -> None:
        asked = request("echo", "hello")
        await read(driver, replace(asked, choice=replace(asked.choice, provider=provider)), [])

    await ask("a")
    first = await driver._pool.channel()
    with holding(first) as one, holding(first):
        for _ in range(2):
            first.post({"type": "load", "id": one.call_id, "cpu": 1.0})
            await asyncio.wait_for(one.get(), WAIT_S)
        second = await asyncio.wait_for(driver._pool._members[1].plane.channel(), WAIT_S)
        await ask("b")
    await driver.known.forget()

    assert len(started) == 2
    assert await told_of(first) == [["a"], []]
    assert await told_of(second) == [["b"], []]
    await ask("a")
    assert (await told_of(first))[-1] == ["a"]


async def told_of(channel: Channel) -> list[list[str]]:
    """Of which providers a worker was told, each time that it was."""
    start: dict[str, Any] = {"type": "generate", "session_id": "seen", "id": "q", "prompt": ""}
    inbox = channel.open_call("q", start=start, abort={"type": "status"})
    seen: Any = await asyncio.wait_for(inbox.get(), WAIT_S)
    channel.close_call(inbox)
    return [sorted(message["providers"]) for message in seen["messages"] if message["type"] == "configure"]


@contextmanager
def holding(channel: Channel) -> Iterator[Inbox]:
    """A call that goes on until it is aborted."""
    call_id = secrets.token_hex(4)
    inbox = channel.open_call(
        call_id,
        start={"type": "generate", "session_id": "held", "id": call_id, "prompt": ""},
        abort={"type": "abort", "session_id": "obedient", "id": call_id},
    )
    try:
        yield inbox
    finally:
        channel.close_call(inbox)
